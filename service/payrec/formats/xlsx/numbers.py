"""Numbers of a workbook as exact texts: amounts without the error of binary fractions, serial numbers as dates.

A workbook stores what its program calculated, in the shortest digits of a double: 0.1 + 0.2 is
``0.30000000000000004``. No currency has more than four decimals, so a number within 1e-6 of one with four is that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from payrec.formats.csv.values import Exact, currency_of_text

_PLAIN: Final = re.compile(r"(?!-0\Z)-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{0,3}[1-9])?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{0,40}\.?[0-9]{0,40}(?:[eE][+-]?[0-9]{1,3})?")
_FOUR: Final = Decimal("0.0001")
_NEAR: Final = Decimal("0.000001")
_LARGEST: Final = Decimal(10) ** 18
_SECONDS_PER_DAY: Final = 86_400
_DAYS_MAX: Final = 2_958_465
"""9999-12-31 in the 1900 system."""
_EPOCH_1900: Final = date(1899, 12, 30)
"""Day 0 from day 61 on: the system has a 29 February 1900, day 60 (ECMA-376 part 1, 18.17.4.1)."""
_EPOCH_1904: Final = date(1904, 1, 1)
_LEAP_DAY_1900: Final = 60

_SHOWN: Final = re.compile(r'\[\$([^\]-]{1,8})|"([^"]{1,8})"|([€£])')
_NOT_DATE: Final = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_DATE_LETTERS: Final = re.compile(r"[dy]|m{3}", re.IGNORECASE)
_BUILT_IN_DATES: Final = frozenset((*range(14, 18), 22, *range(27, 32), *range(34, 37), *range(50, 59)))
"""Formats with a date that need no definition (ECMA-376 part 1, 18.8.30), the East Asian ones included."""


def number_text(text: str) -> str:
    """Return the number without exponent and without binary error, as ``Exact``; what is no number as it stands."""
    if _PLAIN.fullmatch(text) is not None:
        return Exact(text)
    text = text.strip()
    if not text or _NUMBER.fullmatch(text) is None:
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if abs(number) >= _LARGEST:
        return text
    near = number.quantize(_FOUR)
    if abs(near - number) <= _NEAR:
        number = near
    plain = format(number, "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return Exact("0" if plain in ("-0", "") else plain)


def currency_of_format(code: str) -> str | None:
    """Return the one currency that a number format puts beside its numbers without doubt (``#,##0.00 [$€-407]``)."""
    shown = {currency_of_text(text.strip()) for found in _SHOWN.findall(code) for text in found if text.strip()}
    return shown.pop() if len(shown) == 1 else None


def is_date_format(code: str) -> bool:
    """Tell whether a number format shows a date, by the letters of its first section; a time alone is none."""
    section = _NOT_DATE.sub("", code).partition(";")[0]
    return "general" not in section.lower() and _DATE_LETTERS.search(section.strip()) is not None


def is_built_in_date(format_id: int) -> bool:
    """Tell whether the format of that number is a date in every workbook."""
    return format_id in _BUILT_IN_DATES


def date_maker(*, from_1904: bool) -> Callable[[str], str]:
    """Make the function that turns a serial number into an ISO 8601 date, with its time where it has one."""

    def make(text: str) -> str:
        if _NUMBER.fullmatch(text) is None:
            return text
        try:
            number = Decimal(text)
        except InvalidOperation:
            return text
        if not 0 <= number <= _DAYS_MAX:
            return number_text(text)
        # Times are fractions of a day in binary, so the second is the nearest one.
        days, second = divmod(round(number * _SECONDS_PER_DAY), _SECONDS_PER_DAY)
        on = _day(days, from_1904=from_1904)
        if on is None:
            return number_text(text)
        if not second:
            return Exact(on.isoformat())
        return Exact(f"{on.isoformat()} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}")

    return make


def _day(days: int, *, from_1904: bool) -> date | None:
    try:
        if from_1904:
            return _EPOCH_1904 + timedelta(days)
        if days in (0, _LEAP_DAY_1900):
            return None
        return _EPOCH_1900 + timedelta(days + (days < _LEAP_DAY_1900))
    except OverflowError:
        return None
