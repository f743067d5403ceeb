"""Periods that references and texts name, as numbers: what is paid for February is not paid for March.

A month is written as the six digits of month and year, as in ``RENT 03/2026``, or of year and month; a year that is not
said is ``0000``. Quarters, weeks, years and instalments have eight: two that say which of these it is, the number, and
the year, or of how many instalments. So each is a number among those of ``payrec.domain.matching.digits``, and needs no
column of its own.
"""

from __future__ import annotations

import re
from typing import Any, Final

from payrec.domain.matching.tokens import fold

PERIODS_MAX: Final = 2
"""Months of one text that are looked at, and other periods: the first."""

ALONE: Final = b"00"
"""Stands before the digits of a reference's period where it says nothing else."""

_MONTH: Final = 10**6
"""More than a month, and the 1 before the digits of a number that is nothing else."""
_OTHER: Final = 10**8
"""The same of other periods."""
_PLACE: Final = 10**4
_CENTURY: Final = 2000
_YEAR_MIN: Final = 1990
_YEAR_END: Final = 2100

_OF_YEAR: Final = 65
_OF_QUARTER: Final = 76
_OF_WEEK: Final = 87
_OF_INSTALMENT: Final = 98
"""What the first two digits say. Each differs from any other one in both, so that none is another one mistyped."""
_LAST: Final = {_OF_YEAR: 0, _OF_QUARTER: 4, _OF_WEEK: 53, _OF_INSTALMENT: 99}
"""The greatest number of each."""

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
_SHORT: Final = ("JAN", "FEB", "MRZ MAR", "APR", "MAI", "JUN", "JUL", "AUG", "SEP SEPT", "OKT OCT", "NOV", "DEZ DEC")
"""Names that are words or names of people as well mean a month where a year follows, or behind what is paid by it."""

_NUMBERS: Final = {
    name: number for names in (_NAMES, _SHORT) for number, said in enumerate(names, 1) for name in said.split()
}
_ANY_SHORT: Final = "|".join(" ".join(_SHORT).split())
_YEAR: Final = r"(?:(?:19|20)[0-9]{2}|[0-9]{2})(?![0-9])"
_END: Final = r"(?:(?![A-Z0-9])|(?=(?:19|20)[0-9]{2}(?![0-9])))"
_NAMED: Final = re.compile(
    rf"(?<![A-Z0-9])(?:({'|'.join(' '.join(_NAMES).split())}){_END}(?:[ .'/-]{{0,2}}({_YEAR}))?"
    rf"|({_ANY_SHORT})[ .'/-]{{0,2}}({_YEAR}))",
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
    rf"\b(?:{'|'.join(sorted(_BY_THE_MONTH))})[ :.]{{1,2}}"
    rf"(?:(0[1-9]|1[0-2])(?:[.-](2[0-9]))?(?![0-9./-]|,[0-9])|({_ANY_SHORT})(?![A-Z0-9]|[ .'/-]{{1,2}}{_YEAR}))",
    re.ASCII,
)

_BY_DAYS: Final = re.compile(
    r"(?<![0-9.-])(?:0?1\.(?P<month>0?[1-9]|1[0-2])\.(?:(?:20)?[0-9]{2})? {0,2}(?:-|BIS|TO)? {0,2}"
    r"(?:2[89]|3[01])\.(?P=month)\.(?P<year>(?:20)?[0-9]{2})"
    r"|(?P<its>20[0-9]{2})-(?P<of_year>0[1-9]|1[0-2])-01 {0,2}(?:-|/|BIS|TO) {0,2}(?P=its)-(?P=of_year)-"
    r"(?:2[89]|3[01]))(?![0-9.-])",
    re.ASCII,
)
"""All days of a month, from the first to the last."""
_FULL_YEAR: Final = r"(?:19|20)[0-9]{2}(?![0-9])"
_THEN: Final = rf"(?: ?[./-]? ?({_FULL_YEAR}|(?<=[./-])2[0-9](?![0-9.,])))?"
_TH: Final = r"(?:\.|ST|ND|RD|TH|ER|E|EME)?"
_QUARTERS: Final = "QUARTAL|QUARTER|TRIMESTRE|TRIMESTER|KWARTAAL|QTR"
_WEEKS: Final = "KW|CW|WEEK|WK|WOCHE|KALENDERWOCHE|SEMAINE|SEMANA"
_INSTALMENTS: Final = "RATE|TEILRATE|KAUFPREISRATE|INSTALMENT|INSTALLMENT|ECHEANCE|MENSUALITE|RATA|CUOTA|TERMIJN"
_OF_HOW_MANY: Final = r" ?(?:VON|OF|DE|DI|SUR|VAN) ?([0-9]{1,2})(?![0-9./]|,[0-9])"
_YEARLY: Final = (
    "JAHR|JAHRESBEITRAG|MITGLIEDSBEITRAG|BEITRAG|GRUNDSTEUER|NEBENKOSTEN|NEBENKOSTENABRECHNUNG|BETRIEBSKOSTEN|"
    "BETRIEBSKOSTENABRECHNUNG|HEIZKOSTEN|HEIZKOSTENABRECHNUNG|YEAR|MEMBERSHIP|DUES|COTISATION"
)
_PATTERNS: Final = (
    (_OF_QUARTER, f"Q|{_QUARTERS}", rf"(?<![A-Z0-9])(?:Q|{_QUARTERS}) ?([1-4])(?![0-9]|[.,][0-9]{{1,2}}\b){_THEN}"),
    (_OF_QUARTER, _QUARTERS, rf"(?<![A-Z0-9.,])([1-4]){_TH} ?(?:{_QUARTERS})(?![A-Z]){_THEN}"),
    (
        _OF_WEEK,
        _WEEKS,
        rf"(?<![A-Z0-9])(?:{_WEEKS})[ .]{{0,2}}(0?[1-9]|[1-4][0-9]|5[0-3])(?![0-9]|,[0-9]){_THEN}",
    ),
    (
        _OF_INSTALMENT,
        _INSTALMENTS,
        (
            rf"(?<![A-Z])(?:{_INSTALMENTS}) ?(?:NR|NO|N)?[. :#]{{0,3}}(0?[1-9]|[1-9][0-9])(?![0-9]|[.,][0-9]| ?%)"
            rf"(?:{_OF_HOW_MANY.replace('VON', '/|VON')})?(?! ?/ ?[0-9])"
        ),
    ),
    (
        _OF_INSTALMENT,
        _INSTALMENTS,
        rf"(?<![A-Z0-9.,/])(0?[1-9]|[1-9][0-9]){_TH} ?(?:{_INSTALMENTS})(?![A-Z0-9])(?:{_OF_HOW_MANY})?",
    ),
    (
        _OF_YEAR,
        _YEARLY,
        rf"(?<![A-Z])(?:{_YEARLY})[ :.]{{1,2}}()({_FULL_YEAR})(?![./-][0-9]|,[0-9])",
    ),
)
_OTHERS: Final = tuple(
    (kind, frozenset(words.split("|")), re.compile(pattern, re.ASCII)) for kind, words, pattern in _PATTERNS
)
"""Periods that are no months: what they are, the words of which a text has one, and where their numbers stand."""

_OF_OTHERS: Final = frozenset().union(*(words for _, words, _ in _OTHERS))
_OF_MONTHS: Final = (_BY_THE_MONTH | _NUMBERS.keys()) - _OF_OTHERS
_SAID: Final = _OF_MONTHS | _OF_OTHERS
"""Words without which a text has no period but a month before a slash."""

_BESIDE: Final = (
    "FUR FOR FUER DE DU DER DIE DAS DEN DES THE OF IM IN VOM VON PRO PER UND AND NR NO ST ND RD TH ER LOHN GEHALT "
    "SALAR SALARY SALAIRE WAGE WAGES PAYROLL SUBSCRIPTION ABO ABONNEMENT LEASING LEASE STROM GAS WASSER HEIZUNG "
    "VERSICHERUNG INSURANCE PRAMIE PREMIUM KITA ZAHLUNG PAYMENT MIETZAHLUNG"
)
_WHEN: Final = _SAID | frozenset(_BESIDE.split())
"""Words that beside a period say nothing of who pays."""

_LETTERS_ALONE: Final = bytes(at if chr(at).isalpha() and at < 128 else 32 for at in range(256))
"""Of ``bytes.translate``."""


def _number(month: int, year: str | None) -> int:
    return _MONTH + month * _PLACE + _in_full(year)


def _in_full(year: str | None) -> int:
    said = int(year) if year else 0
    return said + _CENTURY if year and len(year) == len("26") else said


def _folded(text: str) -> str:
    return fold(text) if text.isascii() else fold(text).encode("ascii", "ignore").decode()


def _words(text: str) -> list[str]:
    """Return the words of a text in capitals."""
    return _folded(text).encode().translate(_LETTERS_ALONE).decode().split()


def said_in(text: str) -> frozenset[str]:
    """Return the words of a text without which it has no period but a month as numbers; nearly no text has any."""
    return _SAID.intersection(_words(text))


def _named(folded: str) -> list[int]:
    found = _NAMED.findall(folded)
    return [_number(_NUMBERS[name or short], year or its) for name, year, short, its in found]


def _others(folded: str, said: frozenset[str]) -> tuple[list[int], str]:
    """Return the periods of a text that are no months, and the text without them."""
    found: list[int] = []
    if said <= _OF_MONTHS:
        return found, folded
    for kind, words, pattern in _OTHERS:
        if words.isdisjoint(said):
            continue
        for first, then in pattern.findall(folded):
            year = int(then or 0) if kind == _OF_INSTALMENT else _in_full(then)
            period = 0 if kind == _OF_YEAR else int(first)
            found.append(_OTHER + kind * _MONTH + period * _PLACE + year)
        folded = pattern.sub(" ", folded)
    return list(dict.fromkeys(found))[:PERIODS_MAX], folded


def named_periods(text: str) -> tuple[list[int], str]:
    """Return the periods that a text names by words, and the text without them: folded if it has any."""
    said = said_in(text)
    if not said:
        return [], text
    others, rest = _others(_folded(text), said)
    months = _named(rest)
    return [*others, *months], _NAMED.sub(" ", rest) if others or months else text


def without_others(text: str, said: frozenset[str]) -> str:
    """Return a text without its periods that are no months: their numbers are none of what is paid.

    ``said`` are its words as ``said_in`` has them.
    """
    others, rest = _others(_folded(text), said) if said else ([], text)
    return rest if others else text


def periods_of(text: str, said: frozenset[str] | None = None) -> list[int]:
    """Return the first periods that a text names, by words or as numbers, unique; ``said`` as ``said_in`` has it."""
    if said is None:
        said = said_in(text)
    others, folded = _others(_folded(text), said)
    months = _named(folded) if said else []
    if "/" in folded:
        months += [_number(int(month), year) for month, year in _BY_SLASH.findall(folded)]
    if "1." in folded or "-01" in folded:
        days = (found.group("month", "year", "of_year", "its") for found in _BY_DAYS.finditer(folded))
        months += [_number(int(month or of_year), year or its) for month, year, of_year, its in days]
    if said:
        months += [
            _number(int(month) if month else _NUMBERS[short], year) for month, year, short in _BEHIND.findall(folded)
        ]
    return [*others, *list(dict.fromkeys(months))[:PERIODS_MAX]]


def says_when(text: str) -> bool:
    """Tell whether a text has no words but those that say beside a period nothing of who pays."""
    return _WHEN.issuperset(_words(text))


def has_year(period: int) -> bool:
    """Tell whether a period has a year, or an instalment of how many it is one."""
    return period % _PLACE > 0


def _read(number: Any) -> tuple[Any, Any, Any]:
    """Return kind, period and year of the last digits of numbers, or of columns of them; noughts where they are none.

    A month has no kind.
    """
    rest = number % _MONTH
    first, last = rest // _PLACE, rest % _PLACE
    begin, end = rest // 100, rest % 100
    kind = number // _MONTH % 100
    is_year = (last == 0) | ((last >= _YEAR_MIN) & (last < _YEAR_END))
    is_other = number < 0
    for its, most in _LAST.items():
        years = (last < 100) if its == _OF_INSTALMENT else is_year
        is_other = is_other | ((kind == its) & (first <= most) & ((first > 0) | (most == 0)) & years)
    is_other = is_other & (number >= _OTHER)
    long = (number >= _MONTH) & (is_other ^ True)
    forth = long & (first >= 1) & (first <= len(_NAMES)) & is_year
    back = long & (end >= 1) & (end <= len(_NAMES)) & (begin >= _YEAR_MIN) & (begin < _YEAR_END)
    return is_other * kind, (forth | is_other) * first + back * end, (forth | is_other) * last + back * begin


def is_period(number: Any) -> Any:
    """Tell of numbers, or of columns of them, whether they end with a period."""
    kind, period, _ = _read(number)
    return (kind > 0) | (period > 0)


def is_alone(number: Any) -> Any:
    """Tell of the digits of references, or of columns of them, whether they say nothing but a period."""
    kind, period, _ = _read(number)
    return ((kind > 0) & (number // _OTHER == 100)) | ((kind == 0) & (period > 0) & (number // _MONTH == 100))


def _compared(asked: Any, quoted: Any) -> tuple[Any, Any]:
    """Tell whether two numbers both say a period of one kind and of the same thing, and whether it is the same."""
    (kind, period, year), (its_kind, its, its_year) = _read(asked), _read(quoted)
    size = _MONTH + (kind > 0) * (_OTHER - _MONTH)
    # Who says a period and nothing else says it of whatever the item is.
    of_it = (quoted // size == 1) | (quoted // size == asked // size)
    same = (period == its) & ((year == its_year) | (year == 0) | (its_year == 0))
    both = (kind == its_kind) & ((kind > 0) | ((period > 0) & (its > 0)))
    return both & of_it, same


def other_period(asked: Any, quoted: Any) -> Any:
    """Tell of two numbers, or of columns of them, whether the second says another period than the first."""
    both, same = _compared(asked, quoted)
    return both & (both ^ same)


def same_period(asked: Any, quoted: Any) -> Any:
    """Tell of two numbers, or of columns of them, whether the second says the period of the first."""
    both, same = _compared(asked, quoted)
    return both & same
