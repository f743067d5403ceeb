"""Digits of references as numbers: which texts have one, and how near two of them are."""

from __future__ import annotations

import pytest

from payrec.domain.matching.digits import QUOTED_DIGITS_MAX, is_alike, quoted_digits, reference_digits


@pytest.mark.parametrize(
    ("reference", "number"),
    [
        ("12345", 1_12345),
        ("1234", None),
        ("00123", 1_00123),
        ("RE-2026/014 1", 1_20260141),
        ("RE.2026_0141", 1_20260141),
        ("RE\u00c92026\u20ac0141", 1_20260141),
        ("1" + "234567890" * 2, 1_234567890234567890),
        ("", None),
        (None, None),
    ],
)
def test_a_reference_is_the_number_of_its_last_digits(reference: str | None, number: int | None) -> None:
    assert reference_digits(reference) == number


@pytest.mark.parametrize(
    ("text", "structured", "numbers"),
    [
        ("pays 12345 and 1234", None, [1_12345]),
        ("12345/67890", None, [1_1234567890, 1_12345, 1_67890]),
        ("12345/678", None, [1_12345678, 1_12345]),
        ("123/45", None, [1_12345]),
        ("67890", "RF18 12345", [1_1812345, 1_67890]),
        ("12345", "12345", [1_12345]),
        (None, "12345", [1_12345]),
        (None, "1234", None),
        ("thanks", None, None),
        ("", None, None),
        ("11111 22222 33333 44444 55555", None, [1_11111, 1_22222, 1_33333, 1_44444]),
        ("Kunde 10023", None, None),
        ("Kd.-Nr.: 10023, RE-20555", None, [1_20555]),
        ("KDNR10023", None, None),
        ("customer no. 10023", None, None),
        ("Pat.-Nr. 10023", None, None),
        ("Patientennummer: 10023", None, None),
        ("Debitor 10023, Personalnr. 10024", None, None),
        ("Patent 10023", None, [1_10023]),
        ("Mandatsref. 10023 Mitglied 10024", None, None),
        ("RE-10023 Kunde 7", None, [1_10023]),
        ("Kunde Meier 10023", None, [1_10023]),
    ],
)
def test_what_is_quoted_are_the_first_numbers(
    text: str | None, structured: str | None, numbers: list[int] | None
) -> None:
    assert len(numbers or ()) <= QUOTED_DIGITS_MAX
    assert quoted_digits(text, structured) == numbers


LONG = 1_123456789012345678
ALIKE = {
    "its end": (1_20260141, 1_60141, True),
    "less than five of its end": (1_20260141, 1_0141, False),
    "one digit cut off": (1_20260141, 1_2026014, True),
    "two digits cut off": (1_20260141, 1_202601, True),
    "three digits cut off": (1_20260141, 1_20260, False),
    "one digit wrong": (1_20260141, 1_20250141, True),
    "two digits wrong": (1_20260141, 1_20250142, False),
    "one digit missing": (1_20260141, 1_2026141, True),
    "one digit too much": (1_20260141, 1_202600141, True),
    "one digit before it too much": (1_20260141, 1_920260141, True),
    "neighbours that changed places": (1_20260141, 1_20206141, True),
    "others that changed places": (1_20260141, 1_20160142, False),
    "five digits, one wrong": (1_12345, 1_12346, False),
    "six digits, one wrong": (1_123456, 1_123457, True),
    "the last two of many changed places": (LONG, LONG + 9, True),
    "the last digit of many is wrong": (LONG, LONG - 1, True),
    "the first two of many changed places": (LONG, 1_213456789012345678, True),
    "the first digit of many is wrong": (LONG, 1_923456789012345678, True),
    "the last two of many changed places beside a wrong one": (LONG, LONG + 9 + 10**4, False),
    "two of many changed places in a number that is near": (LONG, LONG + 9 + 10**3, False),
}


@pytest.mark.parametrize(("asked", "quoted", "near"), ALIKE.values(), ids=ALIKE)
def test_a_part_or_all_but_a_digit_is_near(asked: int, quoted: int, *, near: bool) -> None:
    assert is_alike(asked, quoted) is near
