"""Numbers in a text that are built like a reference, and are another one."""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from payrec.constants import REMITTANCE_LENGTH_MAX
from payrec.domain.matching.other_numbers import BARE_DIGITS_MIN, ends_in_another_letter, quotes_another
from payrec.domain.references import creditor_reference

REFERENCE = "INV-2026-00141"
RF, OTHER_RF = creditor_reference("10000141"), creditor_reference("ACME20000777")
QR = "210000000003139471430009017"


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (REFERENCE, "INV-2026-00199"),
        (REFERENCE, "payment of inv 2026 00199, thanks"),
        (REFERENCE, "RG/INV202600199"),
        (REFERENCE, "INV-2025-00141"),
        ("R26A0141", "r26a0142"),
        ("RENT-2026-07", "Rent 08/2026"),
        ("K-1-2-3-4-5", "K 1 2 3 5 4"),
        ("2026-00141", "2026/00199"),
        ("202600141", "2026-00199"),
        (RF, OTHER_RF),
        (RF, "RF44 2000 0777"),
        (QR, "21 00000 00003 13947 14300 10010"),
    ],
)
def test_what_is_built_alike_is_another_number(reference: str, text: str) -> None:
    assert quotes_another(reference, [text])


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (REFERENCE, ""),
        (REFERENCE, "thank you"),
        (REFERENCE, REFERENCE),
        # Who pays several says so.
        (REFERENCE, "INV-2026-00141 and INV-2026-00142"),
        (REFERENCE, "inv 2026.00141 INV-2026-00142"),
        # Nor is another order of its groups another number.
        (REFERENCE, "INV 00141/2026"),
        ("RENT-2026-07", "Rent 07/2026"),
        ("RENT202607", "rent 07.2026"),
        ("2026-00141", "00141/2026"),
        ("K-1-2-3-4-5", "K 1 2 3 4 5"),
        (REFERENCE, "PO-2026-00199"),
        (REFERENCE, "customer 10023"),
        # Longer or shorter, or a part of something else.
        (REFERENCE, "INV-2026-0199"),
        (REFERENCE, "INV-2026-001990"),
        (REFERENCE, "REINV-2026-00199"),
        (REFERENCE, "INV-2026-00199A"),
        (REFERENCE, OTHER_RF),
        # Of digits alone, another row of numbers, a telephone number or a day.
        ("202600141", "100300199"),
        ("20260141", "20260310"),
        ("20260141", "2026-03-10"),
        ("20260141", "10.03.2026"),
        ("41414", "41415"),
        # What is no number.
        ("RENT", "RENT JULY"),
        ("A7", "A8"),
        ("", "INV-2026-00199"),
    ],
)
def test_what_says_nothing_of_another_one(reference: str, text: str) -> None:
    assert not quotes_another(reference, [text])


def test_any_text_may_quote_it() -> None:
    assert quotes_another(REFERENCE, ["thanks", "INV-2026-00199"])
    assert not quotes_another(REFERENCE, ["INV-2026-00199", REFERENCE])
    assert not quotes_another(REFERENCE, [])


def test_no_more_of_a_text_is_read_than_a_line_has() -> None:
    assert not quotes_another(REFERENCE, [" " * REMITTANCE_LENGTH_MAX + "INV-2026-00199"])


LETTERS = st.text(string.ascii_uppercase, min_size=1, max_size=5)
DIGITS = st.integers(0, 10**6 - 1).map(lambda number: f"{number:06}")
MARKS = st.sampled_from(["", "-", " ", "/", "."])


@settings(max_examples=200)
@given(letters=LETTERS, one=DIGITS, other=DIGITS, mark=MARKS, before=st.sampled_from(["", "paid: ", "("]))
def test_another_number_of_the_letters_is_always_found(
    letters: str, one: str, other: str, mark: str, before: str
) -> None:
    assume(letters != "RF")
    text = f"{before}{letters}{mark}{other}"
    assert quotes_another(f"{letters}{one}", [text]) == (one != other)
    # What the reference looks like makes no difference, nor does what is not built like it.
    assert quotes_another(f"{letters.lower()} {one}", [text, "x" * 20]) == (one != other)


@settings(max_examples=200)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts_have_an_answer_and_the_reference_itself_is_none(reference: str, text: str) -> None:
    quotes_another(reference, [text])
    assert not quotes_another(reference, [reference])


@settings(max_examples=50)
@given(st.integers(10 ** (BARE_DIGITS_MIN - 1), 10**12))
def test_numbers_of_other_rows_are_others(number: int) -> None:
    begins = str(number)[0]
    other = str((int(begins) % 9) + 1) + str(number)[1:]
    assert not quotes_another(str(number), [other])


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("INV-1001-A", "INV-1001-B"),
        ("INV-1001A", "inv 1001b, thanks"),
        ("INV-1001", "INV-1001-B"),
        ("2026-00141/A", "2026 00141.B"),
    ],
)
def test_the_digits_with_another_letter_behind_them_are_another_number(reference: str, text: str) -> None:
    assert ends_in_another_letter(reference, ["thanks", text])
    assert not ends_in_another_letter(reference, [reference])


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("INV-1001-A", "INV-1001"),
        ("INV-1001-A", "1001a"),
        # Whose word it is that comes next, nobody knows.
        ("INV-1001", "INV 1001 B Works"),
        ("INV-1001", "INV1001VOM"),
        ("INV-1001", "INV-21001-B"),
        ("INV-1001", "INV-1002-B"),
        ("RENT", "RENT-B"),
        ("INV-1001", ""),
    ],
)
def test_nothing_else_is(reference: str, text: str) -> None:
    assert not ends_in_another_letter(reference, [text])
    assert not ends_in_another_letter(reference, [])


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts_have_an_answer_to_that_as_well(reference: str, text: str) -> None:
    ends_in_another_letter(reference, [text])
