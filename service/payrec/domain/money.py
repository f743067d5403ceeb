"""Money as integers: text to minor units and back, by the currency's ISO 4217 exponent.

No float and no Decimal anywhere: a decimal string is split at its point, and digits beyond the currency's exponent
are an error, not a rounding.
"""

from __future__ import annotations

import re
from typing import Final

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.currencies import MINOR_UNITS

_WHOLE_DIGITS_MAX: Final = len(str(AMOUNT_MINOR_MAX))
"""Digits before the point, beyond which it is out of range in any currency."""

_DECIMAL: Final = re.compile(r"(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]{1,8}))?", re.ASCII)


class MoneyError(ValueError):
    """An amount or currency that is not one; ``code`` is the interface's field-error code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def exponent(currency: str) -> int:
    """Return the decimal digits of the currency's minor unit.

    Raises
    ------
    MoneyError
        ``unknown_currency`` when ISO 4217 does not list the code.
    """
    try:
        return MINOR_UNITS[currency]
    except KeyError:
        raise MoneyError("unknown_currency", "not an ISO 4217 currency code") from None


def parse_decimal(text: str, currency: str) -> int:
    """Turn a decimal string of the interface (``"123.45"``) into minor units of the currency.

    Stricter than the readers of bank files: no sign, no exponent, no grouping, and not one digit more than the
    currency has, zeros included.

    Raises
    ------
    MoneyError
        ``unknown_currency``, ``decimal_malformed``, ``decimal_max_places`` or ``amount_out_of_range``.
    """
    digits = exponent(currency)
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise MoneyError("decimal_malformed", 'must be a decimal string such as "123.45", without sign or exponent')
    fraction = found["fraction"] or ""
    if len(fraction) > digits:
        # None has one digit.
        places = f"{digits} decimal places" if digits else "no decimal places"
        raise MoneyError("decimal_max_places", f"{currency} has {places}")
    # Python reads no number of thousands of digits.
    whole = found["whole"].lstrip("0")
    if len(whole) <= _WHOLE_DIGITS_MAX:
        minor = int(whole + fraction.ljust(digits, "0") or "0")
        if minor <= AMOUNT_MINOR_MAX:
            return minor
    raise MoneyError("amount_out_of_range", f"must be at most {AMOUNT_MINOR_MAX} minor units")


def format_minor(amount_minor: int, currency: str) -> str:
    """Turn minor units into the decimal string of the interface, always with all of the currency's digits."""
    digits = MINOR_UNITS.get(currency, 2)
    sign, value = ("-", -amount_minor) if amount_minor < 0 else ("", amount_minor)
    if digits == 0:
        return f"{sign}{value}"
    text = str(value).rjust(digits + 1, "0")
    return f"{sign}{text[:-digits]}.{text[-digits:]}"
