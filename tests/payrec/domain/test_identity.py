from __future__ import annotations

from collections import Counter
from datetime import date
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.identity import OccurrenceCounter, bank_identity, bank_key, content_key, fingerprint
from payrec.domain.statements import Entry


def entry(**fields: object) -> Entry:
    made = Entry(amount_minor=1250, currency="EUR", booking_on=date(2026, 1, 2), account="DE1", remittance="Invoice 7")
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("account", "DE2"),
        ("currency", "USD"),
        ("direction", "debit"),
        ("amount_minor", 1251),
        ("booking_on", date(2026, 1, 3)),
        ("value_on", date(2026, 1, 2)),
        ("bank_reference", "B"),
        ("end_to_end_id", "B"),
        ("structured_reference", "B"),
        ("counterparty_account", "B"),
        ("remittance", "Invoice 8"),
    ],
)
def test_fingerprint_depends_on(field: str, value: object) -> None:
    assert fingerprint(entry()) != fingerprint(entry(**{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [("status", "pending"), ("line", 7), ("counterparty_name", "B"), ("remittance", "In voice\n7"), ("index", 3)],
)
def test_fingerprint_does_not_depend_on(field: str, value: object) -> None:
    assert fingerprint(entry()) == fingerprint(entry(**{field: value}))


def test_fingerprint_keeps_fields_apart() -> None:
    assert fingerprint(entry(bank_reference="AB")) != fingerprint(entry(bank_reference="A", end_to_end_id="B"))
    assert fingerprint(entry(bank_reference="AB")) != fingerprint(entry(end_to_end_id="AB"))
    assert len(fingerprint(entry())) == 16


def hashed(*parts: str) -> bytes:
    """Return the hash that databases keep of the parts: of other bytes, what comes again would come as new."""
    return blake2b("\x1f".join(parts).encode(), digest_size=16).digest()


def test_what_is_stored_of_content_is_known_again() -> None:
    known = entry(
        direction="debit",
        value_on=date(2026, 1, 3),
        bank_reference="B",
        end_to_end_id="E",
        structured_reference="S",
        counterparty_account="C",
    )
    parts = ("DE1", "EUR", "debit", "1250", "2026-01-02", "2026-01-03", "B", "E", "S", "C", "Invoice7")
    assert fingerprint(known) == hashed(*parts)
    assert fingerprint(entry()) == hashed("DE1", "EUR", "credit", "1250", "2026-01-02", "", "", "", "", "", "Invoice7")
    assert fingerprint(Entry()) == hashed("", "", "credit", "0", "", "", "", "", "", "", "")
    day = date(2026, 1, 2)
    assert fingerprint(Entry(booking_on=day, value_on=day)) == hashed(
        "", "", "credit", "0", "2026-01-02", "2026-01-02", "", "", "", "", ""
    )


def test_what_is_stored_of_a_bank_id_is_known_again() -> None:
    assert bank_key("DE1", "B", 3) == hashed("DE1", "bank", "B", "3")
    assert bank_key(None, "B", 0) == hashed("", "bank", "B", "0")


def test_bank_identity_is_what_the_file_declares_then_the_reference_with_its_ordinal() -> None:
    assert bank_identity(entry()) is None
    assert bank_identity(entry(bank_reference="B")) == "B"
    assert bank_identity(entry(bank_reference="B", ordinal_within_bank_reference=0)) == "B#0"
    assert bank_identity(entry(bank_reference="B", external_id="X")) == "X"


def test_keys_depend_on_every_part() -> None:
    keys = {
        bank_key("A", "1", 0),
        bank_key(None, "1", 0),
        bank_key("A", "2", 0),
        bank_key("A", "1", 1),
        *(content_key(fingerprint(entry()), occurrence) for occurrence in (0, 1, 256, 2**31)),
        content_key(fingerprint(entry(account="DE2")), 0),
    }
    assert len(keys) == 9
    # A database tells by its beginning what is known by its content.
    assert content_key(fingerprint(entry()), 0) == fingerprint(entry())
    assert content_key(fingerprint(entry()), 7)[:16] == fingerprint(entry())


@pytest.mark.parametrize("text", ["a b c", "a  bc", "a\tbc", "a\nb c", "a\u00a0b\u2003c", "a\x1cbc"])
def test_no_blank_of_any_kind_makes_a_difference(text: str) -> None:
    assert fingerprint(entry(remittance=text)) == fingerprint(entry(remittance="abc"))


@settings(max_examples=60)
@given(st.binary(min_size=300, max_size=600), st.sampled_from([1, 64, 4_096, 2**40]))
def test_occurrences_are_those_of_a_dictionary(values: bytes, apart: int) -> None:
    counter, seen = OccurrenceCounter(), Counter[int]()
    for value in values:
        # Where they are so far apart as the table is large, all of them want the same place.
        assert counter.count((1 + value * apart).to_bytes(8, "little")) == seen[value]
        seen[value] += 1


@pytest.mark.parametrize(
    ("count", "slots"),
    [(50, 64), (51, 256), (204, 256), (205, 1_024), (818, 1_024), (819, 4_096), (52_428, 65_536), (52_429, 131_072)],
)
def test_a_table_grows_at_four_fifths_fourfold_while_it_is_small(count: int, slots: int) -> None:
    counter = OccurrenceCounter()
    for number in range(1, count + 1):
        counter.count(number.to_bytes(8, "little"))
    assert len(counter._counts) == slots


@pytest.mark.parametrize("count", [5_000, 120_000])
def test_many_identities_are_all_first_ones_and_many_twins_are_counted_on(count: int) -> None:
    counter = OccurrenceCounter()
    digests = [blake2b(i.to_bytes(4, "big")).digest() for i in range(count)]
    assert {counter.count(d) for d in digests} == {0}
    assert {counter.count(d) for d in digests} == {1}
    assert [counter.count(digests[0]) for _ in range(600)] == list(range(2, 602))


def test_other_content_under_the_same_identity_is_not_counted() -> None:
    counter = OccurrenceCounter()
    digest = b"12345678"
    assert counter.count(digest, check=1) == 0
    assert counter.count(digest, check=2) is None
    assert counter.count(digest, check=1) == 1
    assert counter.count(digest) is None
    assert counter.count(b"abcdefgh", check=0xFFFF) == 0
    assert counter.count(b"abcdefgh", check=0xFFFF) == 1
    assert counter.count(bytes(8)) == 0
    assert counter.count(bytes(8), check=0) == 1
