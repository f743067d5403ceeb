"""Exchange rates: exact decimals, read, written, turned round and multiplied without a float.

A rate is a whole number of at most ``FX_RATE_DIGITS_MAX`` digits and the places of its decimal point. What is derived
from others (the other way round, or through a third currency) is rounded once, to ``DERIVED_DIGITS`` digits, and from
then on is as exact as one that somebody gave: whoever sees the rate computes the same amount to the minor unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from payrec.constants import AMOUNT_MINOR_MAX, FX_RATE_DIGITS_MAX, FX_RATE_PLACES_MAX
from payrec.domain.money import exponent

DERIVED_DIGITS: Final = 12
"""Significant digits of a derived rate: an amount of a billion is right to the cent."""

DERIVED_PLACES_MAX: Final = FX_RATE_DIGITS_MAX + DERIVED_DIGITS
"""Digits after the point of a derived rate: as many as the other way round of the greatest rate needs."""

_DECIMAL: Final = re.compile(r"(?P<whole>0|[1-9][0-9]*)(?:\.(?P<fraction>[0-9]+))?", re.ASCII)


class FxRateError(ValueError):
    """A text that is no rate; ``code`` is the interface's field-error code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class FxRate:
    """How many units of one currency a unit of another is worth: ``mantissa`` by 10 to the power of ``places``."""

    mantissa: int
    """Greater than zero, without zeros at its end where there are places."""
    places: int
    """Digits after the point."""

    def __str__(self) -> str:
        """Return the decimal string."""
        if not self.places:
            return str(self.mantissa)
        digits = str(self.mantissa).rjust(self.places + 1, "0")
        return f"{digits[: -self.places]}.{digits[-self.places :]}"

    @property
    def inverse(self) -> FxRate | None:
        """The rate the other way round; None where it is too great to be one."""
        return ratio(10**self.places, self.mantissa)

    def times(self, other: FxRate) -> FxRate | None:
        """Return the rate through the currency between both; None where it is too great or too small to be one."""
        return ratio(self.mantissa * other.mantissa, 10 ** (self.places + other.places))


def parse_rate(text: str) -> FxRate:
    """Read a decimal string such as ``"1.0856"``.

    Raises
    ------
    FxRateError
        ``rate_malformed``, ``rate_max_digits``, ``rate_max_places`` or ``rate_not_positive``.
    """
    found = _DECIMAL.fullmatch(text) if len(text) <= FX_RATE_DIGITS_MAX + FX_RATE_PLACES_MAX else None
    if found is None:
        raise FxRateError("rate_malformed", 'must be a decimal string such as "1.0856", without sign or exponent')
    fraction = found["fraction"] or ""
    if len(fraction) > FX_RATE_PLACES_MAX:
        raise FxRateError("rate_max_places", f"must have at most {FX_RATE_PLACES_MAX} decimal places")
    rate = _shortest(int(found["whole"] + fraction), len(fraction))
    if not rate.mantissa:
        raise FxRateError("rate_not_positive", "must be more than zero")
    if rate.mantissa >= 10**FX_RATE_DIGITS_MAX:
        raise FxRateError("rate_max_digits", f"must have at most {FX_RATE_DIGITS_MAX} significant digits")
    return rate


def parse_derived_rate(text: str) -> FxRate:
    """Read what ``str`` of a rate has written, which may have more places than a given one.

    Raises
    ------
    FxRateError
        ``rate_malformed``.
    """
    found = _DECIMAL.fullmatch(text) if len(text) <= FX_RATE_DIGITS_MAX + DERIVED_PLACES_MAX else None
    mantissa = int(found["whole"] + (found["fraction"] or "")) if found is not None else 0
    if found is None or not 0 < mantissa < 10**FX_RATE_DIGITS_MAX or len(found["fraction"] or "") > DERIVED_PLACES_MAX:
        raise FxRateError("rate_malformed", "is no rate that was written")
    return _shortest(mantissa, len(found["fraction"] or ""))


def _shortest(mantissa: int, places: int) -> FxRate:
    while places and mantissa % 10 == 0:
        mantissa, places = mantissa // 10, places - 1
    return FxRate(mantissa, places)


def ratio(numerator: int, denominator: int) -> FxRate | None:
    """Return a quotient of whole numbers as a rate of ``DERIVED_DIGITS`` digits, rounded half up.

    None where it has more digits before its point than a rate may have, or nothing is left of it.
    """
    places = min(max(DERIVED_DIGITS - _whole_digits(numerator, denominator), 0), DERIVED_PLACES_MAX)
    mantissa = rounded(numerator * 10**places, denominator)
    return _shortest(mantissa, places) if 0 < mantissa < 10**FX_RATE_DIGITS_MAX else None


def _whole_digits(numerator: int, denominator: int) -> int:
    """Return the digits before the point of a quotient; less than zero where zeros follow the point."""
    if numerator >= denominator:
        return len(str(numerator // denominator))
    return 1 - len(str((denominator - 1) // numerator))


def rounded(numerator: int, denominator: int) -> int:
    """Return a quotient of whole numbers that are not negative, rounded half up."""
    return (2 * numerator + denominator) // (2 * denominator)


def converted(amount_minor: int, currency: str, rate: FxRate, into: str) -> int:
    """Return what an amount is in another currency at a rate of ``into`` for one of ``currency``, in minor units.

    Rounded half up, once, at the end.

    Raises
    ------
    FxRateError
        ``amount_out_of_range``.
    MoneyError
        A currency is not known.
    """
    digits = exponent(into) - exponent(currency)
    minor = rounded(amount_minor * rate.mantissa * 10 ** max(digits, 0), 10 ** (rate.places + max(-digits, 0)))
    if minor > AMOUNT_MINOR_MAX:
        raise FxRateError("amount_out_of_range", f"must be at most {AMOUNT_MINOR_MAX} minor units")
    return minor
