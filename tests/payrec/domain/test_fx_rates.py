"""Exchange rates: exact, and the same however they are written."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.constants import AMOUNT_MINOR_MAX, FX_RATE_DIGITS_MAX, FX_RATE_PLACES_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.fx_rates import DERIVED_DIGITS, FxRate, FxRateError, converted, parse_rate, ratio

MANTISSAS = st.integers(1, 10**FX_RATE_DIGITS_MAX - 1)
PLACES = st.integers(0, FX_RATE_PLACES_MAX)
CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD", "CLF", "USD"])


def value(rate: FxRate) -> Fraction:
    return Fraction(rate.mantissa, 10**rate.places)


@given(MANTISSAS, PLACES)
def test_what_is_written_is_read_again(mantissa: int, places: int) -> None:
    written = str(FxRate(mantissa, places))
    read = parse_rate(written)
    assert value(read) == Fraction(mantissa, 10**places)
    assert parse_rate(str(read)) == read
    assert not (read.places and read.mantissa % 10 == 0)


@pytest.mark.parametrize("text", ["", ".", "1.", ".5", "+1", "-1", " 1", "1 ", "1,5", "1e3", "00", "01", "٣", "1.5.2"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(FxRateError) as refused:
        parse_rate(text)
    assert refused.value.code == "rate_malformed"


@pytest.mark.parametrize(
    ("text", "code", "detail"),
    [
        ("x", "rate_malformed", 'must be a decimal string such as "1.0856", without sign or exponent'),
        ("1" * 28, "rate_malformed", 'must be a decimal string such as "1.0856", without sign or exponent'),
        ("0.0000000000001", "rate_max_places", "must have at most 12 decimal places"),
        ("0", "rate_not_positive", "must be more than zero"),
        ("0.000000000000", "rate_not_positive", "must be more than zero"),
        ("1000000000000000", "rate_max_digits", "must have at most 15 significant digits"),
    ],
)
def test_a_rate_beyond_its_limits_says_which(text: str, code: str, detail: str) -> None:
    with pytest.raises(FxRateError) as refused:
        parse_rate(text)
    assert (refused.value.code, refused.value.detail, str(refused.value)) == (code, detail, detail)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("999999999999999", FxRate(10**15 - 1, 0)),
        ("0.000000000001", FxRate(1, 12)),
        ("12345678901234.000000000000", FxRate(12345678901234, 0)),
        ("1.0", FxRate(1, 0)),
        ("10", FxRate(10, 0)),
    ],
)
def test_a_rate_at_its_limits_is_read(text: str, rate: FxRate) -> None:
    assert parse_rate(text) == rate


@given(MANTISSAS, PLACES)
def test_the_other_way_round_is_right_to_its_digits(mantissa: int, places: int) -> None:
    exact = Fraction(10**places, mantissa)
    rate = FxRate(mantissa, places).inverse
    assert rate is not None
    assert abs(value(rate) - exact) <= exact * Fraction(1, 10 ** (DERIVED_DIGITS - 1))


@given(st.integers(1, 10**30), st.integers(1, 10**30))
def test_a_quotient_is_rounded_or_none(numerator: int, denominator: int) -> None:
    exact, rate = Fraction(numerator, denominator), ratio(numerator, denominator)
    if rate is None:
        assert exact >= 10**FX_RATE_DIGITS_MAX - 1 or exact < Fraction(1, 10**26)
    else:
        assert abs(value(rate) - exact) <= max(exact * Fraction(1, 10 ** (DERIVED_DIGITS - 1)), Fraction(1, 10**27))


@pytest.mark.parametrize(
    ("numerator", "denominator", "rate"),
    [
        (10**15 - 1, 1, FxRate(10**15 - 1, 0)),
        (10**15, 1, None),
        (1, 10**27, FxRate(1, 27)),
        (1, 3 * 10**27, None),
    ],
)
def test_a_quotient_at_its_limits(numerator: int, denominator: int, rate: FxRate | None) -> None:
    assert ratio(numerator, denominator) == rate


@given(MANTISSAS, PLACES, MANTISSAS, PLACES)
def test_a_rate_through_another_currency_is_the_product_of_both(
    mantissa: int, places: int, other: int, digits: int
) -> None:
    exact = Fraction(mantissa, 10**places) * Fraction(other, 10**digits)
    rate = FxRate(mantissa, places).times(FxRate(other, digits))
    if rate is None:
        assert exact >= 10**FX_RATE_DIGITS_MAX - 1
    else:
        assert abs(value(rate) - exact) <= max(exact * Fraction(1, 10 ** (DERIVED_DIGITS - 1)), Fraction(1, 10**27))
    assert FxRate(125, 2).times(FxRate(4, 1)) == FxRate(5, 1)


def test_the_greatest_amount_can_be_converted_and_nothing_beyond_it() -> None:
    assert converted(AMOUNT_MINOR_MAX, "EUR", FxRate(1, 0), "USD") == AMOUNT_MINOR_MAX
    with pytest.raises(FxRateError) as refused:
        converted(AMOUNT_MINOR_MAX, "EUR", FxRate(1_000_001, 6), "USD")
    assert refused.value.code == "amount_out_of_range"


@given(st.integers(1, AMOUNT_MINOR_MAX), CURRENCIES, MANTISSAS, PLACES, CURRENCIES)
def test_an_amount_is_converted_exactly_or_refused(
    minor: int, source: str, mantissa: int, places: int, into: str
) -> None:
    exact = Fraction(minor, 10 ** MINOR_UNITS[source]) * Fraction(mantissa, 10**places) * 10 ** MINOR_UNITS[into]
    rate = FxRate(mantissa, places)
    if exact >= AMOUNT_MINOR_MAX + Fraction(1, 2):
        with pytest.raises(FxRateError, match="at most"):
            converted(minor, source, rate, into)
    else:
        assert -Fraction(1, 2) < converted(minor, source, rate, into) - exact <= Fraction(1, 2)
