from __future__ import annotations

import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from payrec.domain.references import (
    account_identifier,
    find_creditor_reference,
    is_creditor_reference,
    is_iban,
)
from payrec.formats.text import account, clean

ALPHANUMERIC = string.ascii_uppercase + string.digits


def with_check_digits(prefix: str, rest: str) -> str:
    """Return prefix, check digits and rest, computed the way the standard writes it and not the way the code does."""
    digits = "".join(str(ALPHANUMERIC.index(c) + 10) if c.isalpha() else c for c in (rest + prefix + "00").upper())
    remainder = 0
    for digit in digits.translate(str.maketrans("", "", "")):
        remainder = (remainder * 10 + int(digit)) % 97
    return f"{prefix}{98 - remainder:02d}{rest}"


def in_groups(reference: str) -> str:
    """Return it as it is printed."""
    return " ".join(reference[at : at + 4] for at in range(0, len(reference), 4))


def references() -> st.SearchStrategy[str]:
    return st.text(ALPHANUMERIC, min_size=1, max_size=21).map(lambda rest: with_check_digits("RF", rest))


@pytest.mark.parametrize("iban", ["DE89370400440532013000", "GB29 NWBK 6016 1331 9268 19", "no9386011117947"])
def test_iban_of_the_registry_is_one(iban: str) -> None:
    assert is_iban(iban)


@pytest.mark.parametrize("text", ["", "DE8937040044053201300", "DE89370400440532013001", "12345", "DE89", "ＤE" * 10])
def test_anything_else_is_no_iban(text: str) -> None:
    assert not is_iban(text)


@settings(max_examples=100)
@given(st.text(ALPHANUMERIC, min_size=11, max_size=30), st.data())
def test_iban_notices_one_wrong_character(rest: str, data: st.DataObject) -> None:
    iban = with_check_digits("XY", rest)
    assert is_iban(iban)
    at = data.draw(st.integers(4, len(iban) - 1))
    pool = string.digits if iban[at].isdigit() else string.ascii_uppercase
    other = data.draw(st.sampled_from([c for c in pool if c != iban[at]]))
    assert not is_iban(iban[:at] + other + iban[at + 1 :])


def test_a_number_may_have_64_characters_with_its_blanks() -> None:
    for tell, number in (
        (is_iban, "DE89370400440532013000"),
        (is_creditor_reference, "RF18539007547034"),
    ):
        assert tell(number.ljust(64))
        assert not tell(number.ljust(65))


def test_letters_and_digits_of_other_scripts_are_none_of_a_number() -> None:
    # Long s becomes an S in capitals.
    assert is_creditor_reference(with_check_digits("RF", "1s"))
    assert not is_creditor_reference(with_check_digits("RF", "1s").replace("s", "\N{LATIN SMALL LETTER LONG S}"))


@settings(max_examples=100)
@given(references())
def test_creditor_reference_is_found_in_text(reference: str) -> None:
    groups = in_groups(reference)
    assert is_creditor_reference(reference)
    assert is_creditor_reference(groups.lower())
    assert find_creditor_reference(f"Invoice 7, ref. {reference}.") == reference
    # Where the last group has no digit, it may be the word after another valid one.
    assume(not groups.rsplit(" ", 1)[-1].isalpha())
    assert find_creditor_reference(f"{groups}/ thank-you") == reference


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        # The check digits are right with the word and without it.
        ("RF88 1498 6785 8375 6922 due thanks", "RF881498678583756922"),
        # They are right with the number behind, but it is no group of four that goes on.
        ("RF18539007547034 19", "RF18539007547034"),
        ("RF55 5390 0754 703 044", "RF5553900754703"),
        # They are right with the last group alone.
        (in_groups(with_check_digits("RF", "539007547ABC")), with_check_digits("RF", "539007547ABC")),
    ],
)
def test_the_word_behind_a_creditor_reference_is_none_of_it(text: str, reference: str) -> None:
    assert find_creditor_reference(text) == reference


@pytest.mark.parametrize("begins", ["RF", "Rf", "rF", "rf"])
def test_a_creditor_reference_is_found_in_whatever_case(begins: str) -> None:
    assert find_creditor_reference(f"invoice 7: {begins}18 5390 0754 7034, thanks") == "RF18539007547034"


PIECES = st.one_of(
    references(),
    references().map(in_groups),
    references().map(str.lower),
    references().map(lambda reference: in_groups(reference[:-1])),
    st.sampled_from(["RF18", "RF", "thanks", "2024", "Rechnung", "Müller", "INV-7", "/", "\n"]),
    st.text(max_size=50),
)


@settings(max_examples=200)
@given(st.lists(PIECES, min_size=1, max_size=4).map(" ".join))
def test_found_reference_is_valid_and_what_the_text_says(text: str) -> None:
    found = find_creditor_reference(text)
    if found is None:
        assert not any(map(is_creditor_reference, text.split()))
    else:
        assert is_creditor_reference(found)
        assert found in "".join(text.split()).upper()


# Its last letter was S in capitals.
OTHER_LETTER = with_check_digits("RF", "S")[:-1] + "ſ"


@pytest.mark.parametrize(
    "text", ["RF19 5390 0754 7034", "RF", "surf18539007547034", "XRF18539007547034", "RF18", OTHER_LETTER]
)
def test_what_looks_like_a_creditor_reference_is_none(text: str) -> None:
    assert find_creditor_reference(text) is None


@pytest.mark.parametrize(
    ("given", "identifier"),
    [
        ("de89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("\u00a0DE89\u00a03704\t0044 0532 0130 00\x80", "DE89370400440532013000"),
        ("de88 3704 0044 0532 0130 00", "de88 3704 0044 0532 0130 00"),
        ("  the   till\n", "the till"),
        ("Cafe\u0301", "Caf\u00e9"),
        (" ", " "),
    ],
)
def test_an_account_is_called_as_lines_have_it(given: str, identifier: str) -> None:
    assert account_identifier(given) == identifier
    assert account_identifier(identifier) == identifier
    assert identifier in (clean(given) or given, account(given)), "as readers of files do it"
