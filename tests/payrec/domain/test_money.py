"""Amounts as the interface takes and gives them: exact, within the currency's digits, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.money import MoneyError, exponent, format_minor, parse_decimal


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("0", "EUR", 0),
        ("12", "EUR", 1_200),
        ("12.3", "EUR", 1_230),
        ("12.34", "EUR", 1_234),
        ("0012.34", "EUR", 1_234),
        ("12", "JPY", 12),
        ("1.234", "KWD", 1_234),
        ("9999999999999.99", "EUR", AMOUNT_MINOR_MAX),
        ("0" * 40 + "9999999999999.99", "EUR", AMOUNT_MINOR_MAX),
        ("0" * 5_000, "EUR", 0),
        ("0" * 5_000, "JPY", 0),
        ("999999999999999", "JPY", AMOUNT_MINOR_MAX),
    ],
)
def test_a_decimal_is_minor_units(text: str, currency: str, minor: int) -> None:
    assert parse_decimal(text, currency) == minor


@pytest.mark.parametrize(
    ("text", "currency", "code", "detail"),
    [
        ("1", "XXY", "unknown_currency", "not an ISO 4217 currency code"),
        ("1", "eur", "unknown_currency", "not an ISO 4217 currency code"),
        ("1.234", "EUR", "decimal_max_places", "EUR has 2 decimal places"),
        ("1.000", "EUR", "decimal_max_places", "EUR has 2 decimal places"),
        ("1.0", "JPY", "decimal_max_places", "JPY has no decimal places"),
        ("10000000000000.00", "EUR", "amount_out_of_range", "must be at most 999999999999999 minor units"),
        (
            "1000000000000000000000000000.00",
            "EUR",
            "amount_out_of_range",
            "must be at most 999999999999999 minor units",
        ),
        ("1" * 17, "JPY", "amount_out_of_range", "must be at most 999999999999999 minor units"),
        ("1" * 5_000, "JPY", "amount_out_of_range", "must be at most 999999999999999 minor units"),
        ("1000000000000000", "JPY", "amount_out_of_range", "must be at most 999999999999999 minor units"),
    ],
)
def test_what_is_no_amount_of_the_currency_says_why(text: str, currency: str, code: str, detail: str) -> None:
    with pytest.raises(MoneyError) as refused:
        parse_decimal(text, currency)
    assert (refused.value.code, refused.value.detail, str(refused.value)) == (code, detail, detail)


@pytest.mark.parametrize(
    "text", ["", ".", "1.", ".5", "-1", "+1", " 1", "1\n", "1,5", "1e3", "٣", "1.123456789", "NaN"]
)
def test_what_is_no_decimal_is_malformed(text: str) -> None:
    with pytest.raises(MoneyError) as refused:
        parse_decimal(text, "CLF")
    assert refused.value.code == "decimal_malformed"
    assert refused.value.detail == 'must be a decimal string such as "123.45", without sign or exponent'


@pytest.mark.parametrize(
    ("minor", "currency", "text"),
    [
        (0, "EUR", "0.00"),
        (5, "EUR", "0.05"),
        (-5, "EUR", "-0.05"),
        (1_234, "EUR", "12.34"),
        (-1_234, "JPY", "-1234"),
        (0, "JPY", "0"),
        (1_234, "KWD", "1.234"),
        (1_234, "of no list", "12.34"),
    ],
)
def test_minor_units_are_written_with_all_digits(minor: int, currency: str, text: str) -> None:
    assert format_minor(minor, currency) == text


@given(st.integers(0, AMOUNT_MINOR_MAX), st.sampled_from(sorted(MINOR_UNITS)))
def test_what_is_written_is_read_again(minor: int, currency: str) -> None:
    assert parse_decimal(format_minor(minor, currency), currency) == minor
    assert exponent(currency) == MINOR_UNITS[currency]
    assert exponent(currency) != 1, "texts have no singular"
