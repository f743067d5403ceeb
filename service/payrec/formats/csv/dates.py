"""Dates as banks write them in tables: which part is the day, and text to dates.

A value proves an order when its parts allow only one: ``2026-01-02``, ``31/01/2026``, ``1 Feb 2026``. ``01/02/2026``
proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final, Literal

from payrec.constants import DATE_TEXT_LENGTH_MAX, PROFILE_DATE_FORMAT_LENGTH_MAX
from payrec.formats.base import DateOrder, RecordError

DateReader = Callable[[str], date]
"""Text to a date; raises ``RecordError``."""

_MONTHS: Final = (
    "jan januar january januari janvier janv enero ene gennaio gen janeiro styczen sty leden led tammi;"
    "feb februar february februari fevrier fevr fev febrero febbraio fevereiro luty lut unor uno;"
    "mar march marz maerz mrz maart mrt mars marzo marco marzec bre brezen;"
    "apr april avril avr abril abr aprile kwiecien kwi duben dub;"
    "may mai mei maj mayo maggio mag maio kveten kve;"
    "jun june juni juin junio giugno giu junho czerwiec cze cerven cvn;"
    "jul july juli juillet juil julio luglio lug julho lipiec lip cervenec cvc;"
    "aug august augustus augusti aout agosto ago sierpien sie srpen srp;"
    "sep sept september septembre septiembre settembre set setembro wrzesien wrz zari zar;"
    "oct okt october oktober octobre octubre ottobre ott outubro out pazdziernik paz rijen rij;"
    "nov november novembre noviembre novembro listopad lis;"
    "dec dez december dezember decembre diciembre dic dicembre dezembro grudzien gru prosinec pro"
)
MONTH_NUMBERS: Final = {
    name: number for number, names in enumerate(_MONTHS.split(";"), start=1) for name in names.split()
}
"""Folded month names and their abbreviations, the first language to claim a word keeps it."""

_AFTER: Final = r"(?:[T ,]+[0-9]{1,2}[:.][0-9]{2}.*)?"
_YEAR_FIRST: Final = re.compile(r"([0-9]{4})([-/. ])([0-9]{1,2})\2 ?([0-9]{1,2})\.?" + _AFTER)
_COMPACT: Final = re.compile(r"((?:19|20)[0-9]{2})([0-9]{2})([0-9]{2})(?:[T ]?[0-9]{4,6})?")
_YEAR_LAST: Final = re.compile(r"([0-9]{1,2})([-/. ]) ?([0-9]{1,2})\2 ?([0-9]{4}|[0-9]{2})\.?" + _AFTER)
_THREE_SHORT: Final = re.compile(r"([0-9]{2})([-/. ])([0-9]{2})\2([0-9]{2})\.?" + _AFTER)
_DAY_NAME: Final = re.compile(r"([0-9]{1,2})[-/. ]+([a-z]{3,12})[-/., ]*([0-9]{4}|[0-9]{2})" + _AFTER)
_NAME_DAY: Final = re.compile(r"([a-z]{3,12})[-/. ]+([0-9]{1,2})(?:st|nd|rd|th)?[-/., ]+([0-9]{4})" + _AFTER)
_WEEKDAY: Final = re.compile(r"^[^\W\d_]{2,12}[.,]+\s+|^(?:mon|tue|wed|thu|fri|sat|sun)\s+")
_ACCENTS: Final = str.maketrans("äáàâéèêëíîóôõöúûüçčřžšńśźłýěů", "aaaaeeeeiioooouuuccrzsnszlyeu")

Evidence = Literal["ymd", "dmy", "mdy", "dotted", "doubt"]
"""What a date proves of day and month; ``dotted``: both fit, but a point separates; ``doubt``: both fit."""


def _full_year(text: str) -> int:
    year = int(text)
    if len(text) == 4:
        return year
    return year + (1900 if year >= 80 else 2000)


def _unambiguous(text: str) -> tuple[int, int, int] | None:
    """Year, month and day of a text that says itself which is which."""
    found = _YEAR_FIRST.fullmatch(text)
    if found is not None:
        return int(found[1]), int(found[3]), int(found[4])
    found = _COMPACT.fullmatch(text)
    if found is not None:
        return int(found[1]), int(found[2]), int(found[3])
    folded = _WEEKDAY.sub("", text.lower().translate(_ACCENTS))
    found = _DAY_NAME.fullmatch(folded)
    if found is not None and (month := MONTH_NUMBERS.get(found[2])) is not None:
        return _full_year(found[3]), month, int(found[1])
    found = _NAME_DAY.fullmatch(folded)
    if found is not None and (month := MONTH_NUMBERS.get(found[1])) is not None:
        return _full_year(found[3]), month, int(found[2])
    return None


def date_evidence(text: str) -> Evidence | None:
    """Say what the text proves about the order of day and month; None: it is no date."""
    if len(text) > DATE_TEXT_LENGTH_MAX:
        return None
    stripped = text.strip()
    if _unambiguous(stripped) is not None:
        return "ymd"
    found = _YEAR_LAST.fullmatch(_WEEKDAY.sub("", stripped))
    if found is None:
        return None
    first, second = int(found[1]), int(found[3])
    if not (1 <= first <= 31 and 1 <= second <= 31) or (first > 12 and second > 12):
        return None
    if first > 12:
        return "dmy"
    if second > 12:
        return "mdy"
    return "dotted" if found[2] == "." else "doubt"


def short_years(text: str) -> tuple[int, int] | None:
    """Return the first and the last part of a date such as ``26-01-15``, either of which may be the year; else None."""
    found = _THREE_SHORT.fullmatch(text.strip()) if len(text) <= DATE_TEXT_LENGTH_MAX else None
    if found is None or int(found[3]) > 12 or not 1 <= int(found[4]) <= 31:
        return None
    return int(found[1]), int(found[4])


def date_reader(order: DateOrder | None, date_format: str | None = None) -> DateReader:
    """Make the function that reads the dates of a file.

    ``order`` None: only texts that say themselves which part is what. With ``ymd``, ``26-01-02`` has its year first.
    """
    shape = compile_format(date_format) if date_format is not None else None

    def parts(text: str) -> tuple[int, int, int] | None:
        if shape is not None:
            return _by_format(shape, text)
        plain = _unambiguous(text)
        if plain is not None or order is None:
            return plain
        found = (_THREE_SHORT if order == "ymd" else _YEAR_LAST).fullmatch(_WEEKDAY.sub("", text))
        if found is None:
            return None
        if order == "ymd":
            return _full_year(found[1]), int(found[3]), int(found[4])
        day, month = (found[1], found[3]) if order == "dmy" else (found[3], found[1])
        return _full_year(found[4]), int(month), int(day)

    def read(text: str) -> date:
        numbers = parts(text.strip()) if len(text) <= DATE_TEXT_LENGTH_MAX else None
        if numbers is None:
            raise RecordError("invalid_date", "the date does not have the form of the file's dates")
        try:
            return date(*numbers)
        except ValueError:
            raise RecordError("invalid_date", "there is no such day") from None

    return read


_FORMAT_TOKEN: Final = re.compile(r"%[YymdbBHMSf]|yyyy|yy|MMMM?|MM?|dd?|HH?|mm|ss|[^A-Za-z%]")
_FORMAT_SHAPES: Final = {
    **dict.fromkeys(("%Y", "yyyy"), r"(?P<year>[0-9]{4})"),
    **dict.fromkeys(("%y", "yy"), r"(?P<year>[0-9]{2})"),
    **dict.fromkeys(("%m", "MM", "M"), r"(?P<month>[0-9]{1,2})"),
    **dict.fromkeys(("%b", "%B", "MMM", "MMMM"), r"(?P<name>[a-z]{3,12})"),
    **dict.fromkeys(("%d", "dd", "d"), r"(?P<day>[0-9]{1,2})"),
    **dict.fromkeys(("%H", "%M", "%S", "HH", "H", "mm", "ss"), r"[0-9]{1,2}"),
    "%f": r"[0-9]{1,6}",
}


def compile_format(date_format: str) -> re.Pattern[str]:
    """Turn ``%d.%m.%Y`` or ``dd.MM.yyyy`` into a pattern over the folded text.

    Raises
    ------
    ValueError
        When it does not name year, month and day once each, or has an unknown letter.

    """
    if len(date_format) > PROFILE_DATE_FORMAT_LENGTH_MAX:
        raise ValueError(f"must have at most {PROFILE_DATE_FORMAT_LENGTH_MAX} characters")
    shapes: list[str] = []
    position = 0
    while position < len(date_format):
        found = _FORMAT_TOKEN.match(date_format, position)
        if found is None:
            raise ValueError("has a letter that is no part of a date")
        token = found[0]
        shapes.append(_FORMAT_SHAPES.get(token) or re.escape(token))
        position = found.end()
    text = "".join(shapes)
    if text.count("<year>") != 1 or text.count("<day>") != 1 or text.count("<month>") + text.count("<name>") != 1:
        raise ValueError("must name year, month and day once each")
    return re.compile(text)


def _by_format(shape: re.Pattern[str], text: str) -> tuple[int, int, int] | None:
    found = shape.fullmatch(text.lower().translate(_ACCENTS))
    if found is None:
        return None
    groups = found.groupdict()
    month = MONTH_NUMBERS.get(groups["name"]) if groups.get("name") else int(groups["month"])
    return None if month is None else (_full_year(groups["year"]), month, int(groups["day"]))
