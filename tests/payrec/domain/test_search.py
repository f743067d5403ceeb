"""What is typed to find something: amounts as countries write them, ids, and that nothing that is typed is an error."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.money import MoneyError, parse_decimal
from payrec.domain.search import read_decimal, sought

SEPARATORS = [(".", ","), (",", "."), (",", "\u00a0"), (",", "\u202f"), (".", "\u2019"), (".", "'"), (",", " ")]
"""Decimal separator and separator of thousands, as countries have them."""

DECIMALS = st.sampled_from([".", ","])


def written(minor: int, places: int, decimal: str, thousands: str) -> str:
    """Return an amount with all of its currency's digits."""
    whole, rest = divmod(minor, 10**places)
    fraction = f"{decimal}{rest:0{places}}" if places else ""
    return f"{whole:,}".replace(",", thousands) + fraction


NUMBERS = st.one_of(
    st.builds(
        lambda minor, places, separators: written(minor, places, *separators),
        st.integers(0, 10**12) | st.integers(AMOUNT_MINOR_MAX - 1, 10**16 - 1),
        st.integers(0, 4),
        st.sampled_from(SEPARATORS),
    ),
    st.builds(
        str.join,
        st.sampled_from(".,' "),
        st.lists(st.text("0123456789", min_size=1, max_size=4), min_size=1, max_size=5),
    ),
)
TYPED = st.builds("{}{}{}".format, st.sampled_from(["", "-", "+", " "]), NUMBERS, st.sampled_from(["", "-", " EUR"]))
"""What mostly is an amount, some of them greater than any that there can be."""


@given(
    minor=st.integers(0, AMOUNT_MINOR_MAX),
    currency=st.sampled_from(["EUR", "JPY", "KWD", "CLF"]),
    separators=st.sampled_from(SEPARATORS),
    sign=st.sampled_from(["", "-", "+", "\u2212"]),
    place=st.sampled_from(["before", "after"]),
)
def test_an_amount_is_read_as_its_locale_writes_it(
    minor: int, currency: str, separators: tuple[str, str], sign: str, place: str
) -> None:
    decimal, thousands = separators
    text = written(minor, MINOR_UNITS[currency], decimal, thousands)
    text = text + sign if place == "after" else sign + text
    found = sought(text, decimal=decimal).amount
    assert found is not None
    assert found.minor(MINOR_UNITS[currency]) == minor
    assert found.direction == {"": None, "+": "credit"}.get(sign, "debit")


@given(minor=st.integers(100_000, AMOUNT_MINOR_MAX), separators=st.sampled_from(SEPARATORS), decimal=DECIMALS)
def test_both_separators_tell_an_amount_whatever_the_locale(
    minor: int, separators: tuple[str, str], decimal: str
) -> None:
    found = sought(written(minor, 2, *separators), decimal=decimal).amount
    assert found is not None
    assert found.minors()["EUR"] == minor


@given(minor=st.integers(0, AMOUNT_MINOR_MAX), currency=st.sampled_from(sorted(MINOR_UNITS)), decimal=DECIMALS)
def test_a_named_currency_is_the_only_one(minor: int, currency: str, decimal: str) -> None:
    text = written(minor, MINOR_UNITS[currency], decimal, "")
    for typed in (f"{currency} {text}", f"{text} {currency.lower()}", f"{text}\u00a0{currency}"):
        found = sought(typed, decimal=decimal).amount
        assert found is not None
        assert found.minors() == {currency: minor}


@given(
    typed=TYPED | st.text(alphabet=st.characters() | st.sampled_from("0123456789.,-+' "), max_size=60), decimal=DECIMALS
)
def test_anything_can_be_typed(typed: str, decimal: str) -> None:
    found = sought(typed, decimal=decimal)
    assert found.text == typed.strip()
    if found.amount is not None:
        assert all(0 <= minor <= AMOUNT_MINOR_MAX for minor in found.amount.minors().values())


@given(typed=TYPED | st.text(alphabet="0123456789.,-+' ", max_size=30), decimal=DECIMALS)
def test_what_is_read_for_a_filter_is_an_amount_of_the_interface(typed: str, decimal: str) -> None:
    found, told = read_decimal(typed, decimal=decimal), sought(typed, decimal=decimal).amount
    assert (found is not None) is (told is not None and (told.sign, told.currency) == (0, None))
    if found is None or told is None:
        return
    minor = told.minor(4)
    if minor is None:
        with pytest.raises(MoneyError, match="must be at most"):
            parse_decimal(found, "CLF")
    else:
        assert parse_decimal(found, "CLF") == minor


@pytest.mark.parametrize(
    ("typed", "decimal", "euros"),
    [
        ("1.234", ",", 123_400),
        ("1.234", ".", None),
        ("1,234", ".", 123_400),
        ("1234.5", ",", 123_450),
        ("1234,5", ".", 123_450),
        ("12,34,567.89", ".", 123_456_789),
        ("0,123", ".", None),
        ("0,50", ".", 50),
        ("12.500", ".", 1_250),
        ("5", ".", 500),
    ],
)
def test_where_two_readings_are_possible_the_locale_decides(typed: str, decimal: str, euros: int | None) -> None:
    found = sought(typed, decimal=decimal).amount
    assert found is not None
    assert found.minor(2) == euros


@pytest.mark.parametrize(
    "typed",
    [
        "", "-", "1.2.3", "1,2,3", "1.234.56", "1,2,345", "1,23,456,789", "1,234,56,789", "5 ABC", "EUR 5 USD", "+5-",
        "RE-2026-1", "1e5", "9" * 17, "٣",
    ],
)  # fmt: skip
def test_other_text_is_no_amount(typed: str) -> None:
    assert sought(typed, decimal=".").amount is None


@pytest.mark.parametrize(
    ("typed", "euros", "yen"),
    [
        ("9999999999999.99", AMOUNT_MINOR_MAX, None),
        ("10000000000000.00", None, 10**13),
        ("999999999999999", None, AMOUNT_MINOR_MAX),
        ("1000000000000000", None, None),
        ("9999999999999999", None, None),
    ],
)
def test_an_amount_is_one_of_the_currencies_in_which_it_is_not_too_great(
    typed: str, euros: int | None, yen: int | None
) -> None:
    found = sought(typed, decimal=".").amount
    assert found is not None
    assert [found.minors().get(currency) for currency in ("EUR", "JPY")] == [euros, yen]


def test_an_id_is_known_by_its_form() -> None:
    text = "0192F0C1-2345-7000-8000-000000000000"
    assert sought(f" {text} ", decimal=".").id == UUID(text)
    assert sought(text[:-1], decimal=".").id is None


def test_a_filter_takes_an_amount_as_it_is_typed() -> None:
    assert read_decimal(" 1.234,5 ", decimal=",") == "1234.5"
    assert read_decimal("1,234.50", decimal=".") == "1234.50"
    assert read_decimal("7", decimal=".") == "7"
    assert read_decimal("1.234", decimal=".") == "1.234"
    assert read_decimal("1.234", decimal=",") == "1234"


@pytest.mark.parametrize("typed", ["1,234.50\u00a0EUR", " eur 1,234.50", "1,234.50 EUR\n"])
def test_a_filter_takes_an_amount_with_the_currency_that_it_is_of(typed: str) -> None:
    """So amounts stand in lists, and are copied."""
    assert read_decimal(typed, decimal=".", currency="EUR") == "1234.50"
    assert read_decimal(typed, decimal=".", currency="USD") is None


@pytest.mark.parametrize("typed", ["-5", "5 EUR", "five"])
def test_a_filter_takes_neither_sign_nor_another_currency(typed: str) -> None:
    assert read_decimal(typed, decimal=".") is None
