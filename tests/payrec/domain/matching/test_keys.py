from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants import REMITTANCE_KEYS_MAX
from payrec.domain.matching.keys import (
    NAME_WORDS_MAX,
    TEXT_WORDS_MAX,
    account_key,
    end_to_end_key,
    expected_keys,
    incoming_keys,
    is_proving,
    name_key,
    normalise_name,
    normalise_reference,
    reference_key,
    remittance_keys,
    text_name_keys,
    tie_key,
)

TEXTS = st.text(max_size=200)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("inv-2024/17", "INV202417"),
        ("Größe 5", "GROSSE5"),
        ("ＩＮＶ １７", "INV17"),
        ("Ⅳ½", "IV12"),
        ("\x00\u200b", ""),
    ],
)
def test_references_are_folded(text: str, normal: str) -> None:
    assert normalise_reference(text) == normal


def test_too_little_text_has_no_key() -> None:
    assert [reference_key(t) for t in (None, "", "  ", "A1", "-A-1-", "\x00\x01\x02")] == [None] * 6
    assert [end_to_end_key(t) for t in ("NOTPROVIDED", "not provided", "NONREF", None)] == [None] * 4
    assert [name_key(t) for t in (None, "", "...")] == [None] * 3
    assert [account_key(t) for t in (None, "", " - ")] == [None] * 3
    assert reference_key("771") is not None


def test_the_stored_values_never_change() -> None:
    # Keys are stored: another value would part old rows from new ones.
    assert reference_key("INV-17") == reference_key("inv 17") == -8478565093227089393
    assert name_key("Müller GmbH") == 6204697340004594755
    assert account_key("DE89 3704 0044 0532 0130 00") == 1090658655719751796
    assert tie_key("a", 1, None) == -8950352124150246116


@pytest.mark.parametrize(
    ("text", "proving"),
    [("INV17", True), ("12345", True), ("INV1", False), ("RENTAL", False), ("A-1-B-C", False), ("INV-17", True)],
)
def test_the_key_knows_whether_it_could_prove(text: str, proving: bool) -> None:  # noqa: FBT001 - a parameter's value
    key = reference_key(text)
    assert key is not None
    assert is_proving(key) is proving


@pytest.mark.parametrize(
    "names",
    [
        ("Müller & Söhne GmbH", "MUELLER UND SOEHNE", "Soehne Mueller"),
        ("Smith John", "john SMITH", "Smith, John Ltd."),
        ("Acme S.p.A.", "ACME SPA", "Acme"),
        ("G.m.b.H. Meier", "Meier gmbh & Co. KG"),
        ("Ελληνική Α.Ε.", "ελληνικη αε"),
    ],
)
def test_names_of_one_party_have_one_key(names: tuple[str, ...]) -> None:
    normal = {normalise_name(name.replace(" UND ", " ")) for name in names}
    assert len(normal) == 1


def test_other_names_have_other_keys() -> None:
    assert name_key("Alpha GmbH") != name_key("Beta GmbH")
    assert normalise_name("SA") == "SA"


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("Payment INV-17017 thanks", "INV17017"),
        ("SVWZ+INV-17017", "INV17017"),
        ("/INV/17017/2024", "INV-17017-2024"),
        ("Rechnung 2024 00 17 A", "2024-0017A"),
        ("RE 2024 11 17", "RE20241117"),
        ("no.INV17017.", "no INV17017"),
        ("Kd123456x", "123456"),
        ("pay RF18 5390 0754 7034 now", "RF18539007547034"),
        ("RF95 2348 2000 0000 0000 0000 0 x", "RF95234820000000000000000"),
        ("ＩＮＶ－１７０１７", "INV-17017"),
        ("a\nb\tINV\x0017017", "INV17017"),
    ],
)
def test_what_a_remittance_text_quotes(text: str, reference: str) -> None:
    assert reference_key(reference) in remittance_keys(text)


def test_what_it_does_not_quote() -> None:
    assert remittance_keys("thank you very much") == []
    assert remittance_keys("a1 b") == []
    assert remittance_keys(None, None) == []
    assert reference_key("INV17") not in remittance_keys("INV 999 17")


def test_structured_references_come_first_and_lists_lose_joins_first() -> None:
    many = " ".join(f"INV{at:05d}" for at in range(60))
    keys = remittance_keys(many, "RF18539007547034", end_to_end_id="E2E-1")
    assert keys[:2] == [reference_key("RF18539007547034"), reference_key("E2E-1")]
    assert len(keys) == REMITTANCE_KEYS_MAX
    assert {reference_key(f"INV{at:05d}") for at in range(60)} <= set(keys)


def test_what_is_structured_is_quoted_without_a_text() -> None:
    structured, end_to_end = reference_key("INV-17017"), reference_key("E2E-1")
    assert remittance_keys(None, "INV-17017") == [structured]
    assert remittance_keys("", end_to_end_id="E2E-1") == [end_to_end]
    line = incoming_keys(structured_reference="INV-17017", end_to_end_id="E2E-1")
    assert line.reference_keys == [structured, end_to_end]
    assert line.quoted_digits == [expected_keys(reference="INV-17017").reference_digits]


def test_long_lists_have_as_many_keys_as_there_may_be() -> None:
    short = [f"A{at:03d}" for at in range(60)]
    keys = remittance_keys(" ".join(short), "A007")
    assert len(keys) == REMITTANCE_KEYS_MAX
    assert {reference_key(word) for word in short} <= set(keys)
    # 17 words, two runs of digits and 45 joins.
    full = " ".join([*short[:15], "INV17017", "INV17018"])
    assert len(remittance_keys(full)) == REMITTANCE_KEYS_MAX
    assert len(remittance_keys(full, "R-1001", end_to_end_id="E2E-1")) == REMITTANCE_KEYS_MAX


def test_long_texts_are_bounded() -> None:
    assert len(remittance_keys("a1b2 " * 1_000_000)) <= REMITTANCE_KEYS_MAX
    assert len(remittance_keys("1" * 1_000_000)) <= REMITTANCE_KEYS_MAX
    assert len(remittance_keys("\ufdfa1 " * 100_000)) <= REMITTANCE_KEYS_MAX
    assert len(remittance_keys("RF18 " * 100_000)) <= REMITTANCE_KEYS_MAX


def test_keys_of_both_sides_agree() -> None:
    item = expected_keys(
        reference="INV-17017",
        end_to_end_id="E2E-1",
        counterparty_name="A B",
        counterparty_account="DE1",
        account="NL 2",
        group="P1-9",
    )
    line = incoming_keys(
        remittance="INV-17017",
        end_to_end_id="E2E-1",
        counterparty_name="b a",
        counterparty_account="de 1",
        account="nl2",
        group="p19",
    )
    assert item.reference_key in line.reference_keys
    assert item[1:-1] == line[1:-4]
    assert [item.reference_digits] == line.quoted_digits
    assert None not in item
    assert set(expected_keys()) == {None}


def test_tie_keys_keep_their_parts_apart() -> None:
    different = (("ab", "c"), ("a", "bc"), ("abc",), ("1",), (1,), (None,), ("",), ("\ud800",))
    assert len({tie_key(*parts) for parts in different}) == len(different)


def test_the_modules_of_the_interface_load_no_columns() -> None:
    code = (
        "import sys; import payrec.domain.matching.keys, payrec.domain.matching.rules, payrec.domain.matching.explain;"
        "sys.exit(any(m in sys.modules for m in ('polars', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0  # noqa: S603 - own code


@settings(max_examples=100)
@given(TEXTS)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise_reference(normalise_reference(text)) == normalise_reference(text)
    assert normalise_name(normalise_name(text)) == normalise_name(text)


@settings(max_examples=100)
@given(TEXTS, TEXTS)
def test_keys_are_signed_64_bit_and_unique(text: str, structured: str) -> None:
    keys = remittance_keys(text, structured)
    assert len(keys) == len(set(keys)) <= REMITTANCE_KEYS_MAX
    names = text_name_keys(text) or []
    assert len(names) <= TEXT_WORDS_MAX * NAME_WORDS_MAX
    for key in [*keys, *names, name_key(text), account_key(text), reference_key(text)]:
        assert key is None or -(2**63) <= key < 2**63


@settings(max_examples=100)
@given(
    st.from_regex(r"[A-Z]{0,4}-?[0-9]{4,8}", fullmatch=True),
    st.lists(st.sampled_from(["pay", "Rechnung", "2024", "vom", "01.05.", "//", "danke"]), max_size=6),
    st.integers(0, 6),
)
def test_a_quoted_reference_is_found_wherever_it_stands(reference: str, words: list[str], place: int) -> None:
    words.insert(place, reference)
    assert reference_key(reference) in remittance_keys(" ".join(words))


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["Zangra", "Müller", "& Söhne", "Quentlin", "GmbH", "4711"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["pay", "Rechnung", "2024", "vom", "01.05.", "//", "LLC"]), max_size=4),
    st.integers(0, 4),
)
def test_a_name_is_found_wherever_it_stands(name: list[str], words: list[str], place: int) -> None:
    # What is a number or a legal form, here and there, is passed over in a text, and a name is without legal forms.
    called = " ".join(word for word in name if word != "4711")
    words.insert(place, " ".join(name).upper())
    if set(name) - {"GmbH", "4711"}:
        assert name_key(called) in (text_name_keys(" ".join(words)) or [])
