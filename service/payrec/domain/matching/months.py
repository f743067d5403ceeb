"""Months that references and texts name, as numbers: what is paid for February is not paid for March.

A month is written as the six digits of month and year, as in ``RENT 03/2026``, or of year and month; a year that is not
said is ``0000``. So it is a number among those of ``payrec.domain.matching.digits``, and needs no column of its own.
"""

from __future__ import annotations

import re
from typing import Any, Final

from payrec.domain.matching.tokens import fold

MONTHS_MAX: Final = 2
"""Months of one text that are looked at: the first."""

_MONTH: Final = 10**6
"""More than a month, and the 1 before the digits of a number that is nothing else."""
_PLACE: Final = 10**4
_CENTURY: Final = 2000
_YEAR_MIN: Final = 1990
_YEAR_END: Final = 2100

_NAMES: Final = (
    "JANUAR JANUARY JANNER JANVIER ENERO GENNAIO JANUARI",
    "FEBRUAR FEBRUARY FEVRIER FEBRERO FEBBRAIO FEBRUARI",
    "MARZ MAERZ MARCH MARS MARZO MAART",
    "APRIL AVRIL ABRIL APRILE",
    "MAI MAY MAYO MAGGIO MEI",
    "JUNI JUNE JUIN JUNIO GIUGNO",
    "JULI JULY JUILLET JULIO LUGLIO",
    "AUGUST AOUT AGOSTO AUGUSTUS",
    "SEPTEMBER SEPTEMBRE SEPTIEMBRE SETTEMBRE",
    "OKTOBER OCTOBER OCTOBRE OCTUBRE OTTOBRE",
    "NOVEMBER NOVEMBRE NOVIEMBRE",
    "DEZEMBER DECEMBER DECEMBRE DICIEMBRE DICEMBRE",
)
_SHORT: Final = ("JAN", "FEB", "MRZ", "APR", "MAI", "JUN", "JUL", "AUG", "SEP SEPT", "OKT OCT", "NOV", "DEZ DEC")
"""Names that are words or names of people as well mean a month where a year follows."""

_NUMBERS: Final = {
    name: number for names in (_NAMES, _SHORT) for number, said in enumerate(names, 1) for name in said.split()
}
_YEAR: Final = r"(?:(?:19|20)[0-9]{2}|[0-9]{2})(?![0-9])"
_NAMED: Final = re.compile(
    rf"\b(?:({'|'.join(' '.join(_NAMES).split())})\b(?:[ .'/-]{{0,2}}({_YEAR}))?"
    rf"|({'|'.join(' '.join(_SHORT).split())})[ .'/-]{{0,2}}({_YEAR}))",
    re.ASCII,
)
_BY_SLASH: Final = re.compile(
    r"(?<![0-9A-Z./,-])(0?[1-9]|1[0-2]) ?/ ?((?:19|20)[0-9]{2}|2[0-9])(?![0-9./-]|,[0-9])", re.ASCII
)
_RENTS: Final = (
    "MIETE KALTMIETE WARMMIETE MONATSMIETE PACHT RENT LOYER HUUR HAUSGELD ABSCHLAG BEITRAG MONATSBEITRAG MONAT MONTH"
)
_BY_THE_MONTH: Final = frozenset(_RENTS.split())
"""What is paid by the month: a number of two digits behind it is one."""
_BEHIND: Final = re.compile(
    rf"\b(?:{'|'.join(sorted(_BY_THE_MONTH))})[ :.]{{1,2}}(0[1-9]|1[0-2])(?![0-9./-]|,[0-9])", re.ASCII
)
_SAID: Final = _BY_THE_MONTH | _NUMBERS.keys()
"""Words without which a text has no month but one before a slash."""
_LETTERS_ALONE: Final = bytes(at if chr(at).isalpha() and at < 128 else 32 for at in range(256))
"""Of ``bytes.translate``."""


def _number(month: int, year: str | None) -> int:
    said = int(year) if year else 0
    if year and len(year) == len("26"):
        said += _CENTURY
    return _MONTH + month * _PLACE + said


def _folded(text: str) -> tuple[str, bool]:
    """Return a text folded, and whether it has a word of ``_SAID``.

    Nearly no text has any, and to look at its words takes a tenth of the time.
    """
    folded = fold(text) if text.isascii() else fold(text).encode("ascii", "ignore").decode()
    return folded, not _SAID.isdisjoint(folded.encode().translate(_LETTERS_ALONE).decode().split())


def _named(folded: str) -> list[int]:
    found = _NAMED.findall(folded)
    return [_number(_NUMBERS[name or short], year or its) for name, year, short, its in found]


def named_months(text: str) -> tuple[list[int], str]:
    """Return the months that a text names by their names, and the text without them: folded if it has any."""
    folded, are_said = _folded(text)
    months = _named(folded) if are_said else []
    return months, _NAMED.sub(" ", folded) if months else text


def months_of(text: str) -> list[int]:
    """Return the first months that a text names, by name or as numbers, unique."""
    folded, are_said = _folded(text)
    months = _named(folded) if are_said else []
    if "/" in folded:
        months += [_number(int(month), year) for month, year in _BY_SLASH.findall(folded)]
    if are_said:
        months += [_number(int(month), None) for month in _BEHIND.findall(folded)]
    return list(dict.fromkeys(months))[:MONTHS_MAX]


def has_year(month: int) -> bool:
    """Tell whether a month has a year."""
    return month % _PLACE > 0


def _read(number: Any) -> tuple[Any, Any]:
    """Return month and year of the last digits of numbers, or of columns of them; 0 and 0 where they are none."""
    rest = number % _MONTH
    first, last = rest // _PLACE, rest % _PLACE
    begin, end = rest // 100, rest % 100
    long = number >= _MONTH
    forth = long & (first >= 1) & (first <= len(_NAMES)) & ((last == 0) | ((last >= _YEAR_MIN) & (last < _YEAR_END)))
    back = long & (end >= 1) & (end <= len(_NAMES)) & (begin >= _YEAR_MIN) & (begin < _YEAR_END)
    return forth * first + back * end, forth * last + back * begin


def is_month(number: Any) -> Any:
    """Tell of numbers, or of columns of them, whether they end with a month."""
    return _read(number)[0] > 0


def _compared(asked: Any, quoted: Any) -> tuple[Any, Any]:
    """Tell whether two numbers both say a month of the same thing, and whether it is the same."""
    (month, year), (its, its_year) = _read(asked), _read(quoted)
    # Who says a month and nothing else says it of whatever the item is.
    of_it = (quoted // _MONTH == 1) | (quoted // _MONTH == asked // _MONTH)
    same = (month == its) & ((year == its_year) | (year == 0) | (its_year == 0))
    return (month > 0) & (its > 0) & of_it, same


def other_month(asked: Any, quoted: Any) -> Any:
    """Tell of two numbers, or of columns of them, whether the second says another month than the first."""
    both, same = _compared(asked, quoted)
    return both & (both ^ same)


def same_month(asked: Any, quoted: Any) -> Any:
    """Tell of two numbers, or of columns of them, whether the second says the month of the first."""
    both, same = _compared(asked, quoted)
    return both & same
