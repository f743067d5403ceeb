from __future__ import annotations

import itertools
import string
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.issued_references import (
    ALPHABET,
    ReferenceKind,
    check_character,
    is_short_reference,
    issued_reference,
)
from payrec.domain.matching.keys import is_proving, reference_key, remittance_keys
from payrec.domain.references import creditor_reference, find_creditor_reference, is_creditor_reference

KINDS: list[ReferenceKind] = ["iso11649", "short"]
ALPHANUMERIC = string.digits + string.ascii_uppercase
IDS = st.uuids(version=4)


def test_the_check_character_is_that_of_iso_7064() -> None:
    # The example of the Global Release Identifier standard (GRid), which uses MOD 37,36.
    assert check_character("A12425GABC1234002") == "M"


@given(st.text(string.ascii_uppercase + string.digits, min_size=1, max_size=21))
def test_the_check_character_is_what_the_standards_recursion_wants(text: str) -> None:
    assert _remainder(text + check_character(text)) == 1


def _remainder(text: str) -> int:
    """Return what the standard's own recursion leaves of a string with its check character; 1 is right."""
    carry = 36
    for character in text[:-1]:
        total = carry + ALPHANUMERIC.index(character)
        total = total - 36 if total > 36 else total
        carry = total * 2 if total * 2 <= 36 else total * 2 - 37
    return (carry + ALPHANUMERIC.index(text[-1])) % 36


@given(st.text(string.ascii_uppercase + string.digits, min_size=1, max_size=21))
def test_the_check_digits_of_a_creditor_reference_are_right(body: str) -> None:
    assert is_creditor_reference(creditor_reference(body))


def test_the_standards_own_example_is_made() -> None:
    assert creditor_reference("539007547034") == "RF18539007547034"


@settings(max_examples=200)
@given(IDS, st.sampled_from(KINDS))
def test_what_is_issued_is_right_and_proves(transaction_id: UUID, kind: ReferenceKind) -> None:
    reference = issued_reference(kind, transaction_id)
    assert reference == issued_reference(kind, transaction_id)
    assert is_creditor_reference(reference) == (kind == "iso11649")
    assert is_short_reference(reference) == (kind == "short")
    assert len(reference) == {"iso11649": 20, "short": 10}[kind]
    assert kind == "iso11649" or set(reference) <= set(ALPHABET)
    key = reference_key(reference)
    assert key is not None
    assert is_proving(key)


@pytest.mark.parametrize(
    ("kind", "number", "reference"),
    [
        ("iso11649", 0, "RF096028055985766339"),
        ("short", 0, "3YFXS56EVR"),
        # What comes first ends in I, has no digit (HPWSCPEJYZ), or begins as a creditor reference (RFE8A4HNVN).
        ("short", 5, "WDK8CA0QR8"),
        ("short", 13, "T86H7KGVEX"),
        ("short", 1_303, "1TPSDAWB11"),
    ],
)
def test_an_id_has_the_reference_that_was_printed_for_it(kind: ReferenceKind, number: int, reference: str) -> None:
    assert issued_reference(kind, UUID(int=number)) == reference


GROUPINGS = {
    "iso11649": (4, " "),
    "short": (5, "-"),
}


@settings(max_examples=200)
@given(IDS, st.sampled_from(KINDS), st.sampled_from(["", "Invoice ", "thank you, ref. ", "Rechnung 4711 vom 1.2. "]))
def test_it_is_found_as_people_write_it(transaction_id: UUID, kind: ReferenceKind, before: str) -> None:
    reference = issued_reference(kind, transaction_id)
    key = reference_key(reference)
    size, mark = GROUPINGS[kind]
    groups = [reference[at : at + size] for at in range(0, len(reference), size)]
    for written in (reference, reference.lower(), " ".join(groups), mark.join(groups), " ".join(groups).lower()):
        assert key in remittance_keys(f"{before}{written}")
        assert key in remittance_keys(f"{before}{written}.")
        assert key == reference_key(written) == remittance_keys(None, written)[0]
    if kind == "iso11649":
        assert find_creditor_reference(f"{before}{' '.join(groups)}") == reference


@settings(max_examples=200)
@given(IDS, st.sampled_from(KINDS), st.data())
def test_one_wrong_character_makes_it_none(transaction_id: UUID, kind: ReferenceKind, data: st.DataObject) -> None:
    reference = issued_reference(kind, transaction_id)
    first = 2 if kind == "iso11649" else 0
    at = data.draw(st.integers(first, len(reference) - 1))
    pool = string.digits if kind == "iso11649" else ALPHABET
    other = data.draw(st.sampled_from([c for c in pool if c != reference[at]]))
    wrong = reference[:at] + other + reference[at + 1 :]
    assert not is_creditor_reference(wrong)
    assert not is_short_reference(wrong)
    assert reference_key(reference) not in remittance_keys(f"ref {wrong}")


@given(st.lists(IDS, min_size=2, max_size=50, unique=True), st.sampled_from(KINDS))
def test_each_id_has_its_own(ids: list[UUID], kind: ReferenceKind) -> None:
    assert len({issued_reference(kind, transaction_id) for transaction_id in ids}) == len(ids)


def test_the_order_in_which_they_are_made_is_not_told() -> None:
    for kind in KINDS:
        made = [issued_reference(kind, UUID(int=(1 << 76) + n)) for n in range(100)]
        bodies = [reference[4:] if kind == "iso11649" else reference for reference in made]
        assert bodies != sorted(bodies)
        assert sum(a < b for a, b in itertools.pairwise(bodies)) in range(25, 75)
