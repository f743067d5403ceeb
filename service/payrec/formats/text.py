"""Text of bank files to clean values: names, references, accounts, amounts and dates.

Everything here is pure and raises ``RecordError`` alone, so that a wrong value costs its own record and no other.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from datetime import date
from functools import lru_cache
from typing import Final

from payrec.constants import AMOUNT_MINOR_MAX, AMOUNT_TEXT_LENGTH_MAX
from payrec.domain.references import account_identifier
from payrec.formats.base import RecordError

_NO_REFERENCE: Final = frozenset({"NOTPROVIDED", "NOT PROVIDED", "NONREF", "-"})
"""What banks write where there is no reference (NOTPROVIDED: ISO 20022 usage guidelines; NONREF: SWIFT MT field 61)."""

_NO_REFERENCE_LENGTH_MAX: Final = 12

_BLANKS: Final = re.compile(r"\s+")
# C0 and C1 without the characters that separate words, and surrogates that JSON escapes can smuggle in: PostgreSQL
# stores neither NUL nor a lone surrogate.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_DECIMAL: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?")
_AFTER_DATE: Final = re.compile(r"(?:[T ].*|Z|[+-][0-9]{2}:?[0-9]{2})?", re.DOTALL)


def clean(text: str | None) -> str | None:
    """Return the text in NFC without control characters, its blanks as single spaces; None when nothing is left."""
    if text is None:
        return None
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", _CONTROLS.sub("", text))
        return _BLANKS.sub(" ", text).strip() or None
    if "  " in text:
        text = _BLANKS.sub(" ", text)
    return text.strip(" ") or None


def clean_lines(text: str | None) -> str | None:
    r"""Return the text as ``clean`` does, line by line: ``\n`` stays between lines, empty lines go."""
    if text is None:
        return None
    if "\n" not in text and "\r" not in text:
        return clean(text)
    lines = (clean(line) for line in text.replace("\r", "\n").split("\n"))
    return "\n".join(line for line in lines if line) or None


def reference(text: str | None) -> str | None:
    """Return the clean reference, and None for the words that banks write where there is none."""
    cleaned = clean(text)
    if cleaned is not None and len(cleaned) <= _NO_REFERENCE_LENGTH_MAX and cleaned.upper() in _NO_REFERENCE:
        return None
    return cleaned


def account(text: str | None) -> str | None:
    """Return the account without blanks and in upper case, as IBANs are compared (ISO 13616)."""
    cleaned = clean(text)
    return None if cleaned is None else clean(cleaned.replace(" ", "").upper())


@lru_cache(maxsize=1024)
def own_account(text: str | None) -> str | None:
    """Return what an own account is called wherever it is given (``account_identifier``). A file has few."""
    cleaned = clean(text)
    return None if cleaned is None else account_identifier(cleaned)


def amount_to_minor(text: str, digits: int) -> int:
    """Turn a plain unsigned decimal (``12.3``, ``.5``, ``0012``) into minor units of a currency with that exponent.

    Surplus decimals are fine as long as they are zeros; nothing is ever rounded.

    Raises
    ------
    RecordError
        ``amount_precision`` when a surplus decimal is not zero, ``invalid_amount`` when it is no such number or beyond
        what payrec stores.

    """
    found = _DECIMAL.fullmatch(text) if len(text) <= AMOUNT_TEXT_LENGTH_MAX else None
    if found is None:
        raise RecordError("invalid_amount", "the amount is not a decimal number")
    whole, fraction = found[1], found[2] or ""
    if not whole and not fraction:
        raise RecordError("invalid_amount", "the amount is not a decimal number")
    if len(fraction) > digits:
        if fraction[digits:].strip("0"):
            raise RecordError("amount_precision", f"the amount has more than {digits} decimals")
        fraction = fraction[:digits]
    minor = int(whole + fraction.ljust(digits, "0") or "0")
    if minor > AMOUNT_MINOR_MAX:
        raise RecordError("invalid_amount", f"the amount is beyond {AMOUNT_MINOR_MAX} minor units")
    return minor


def parse_iso_date(text: str) -> date:
    """Return the date of an ISO 8601 date or date-time, as written: its time and offset are dropped, not converted.

    Raises
    ------
    RecordError
        ``invalid_date``.

    """
    # The two hyphens keep out what date.fromisoformat reads besides: basic dates and weeks.
    if text[4:5] == "-" == text[7:8] and (len(text) == 10 or _AFTER_DATE.fullmatch(text, 10)):
        try:
            return date.fromisoformat(text[:10])
        except ValueError:
            pass
    raise RecordError("invalid_date", "not an ISO 8601 date")


def clamped_date(year: int, month: int, day: int) -> tuple[date, bool]:
    """Return the date, and whether its day, which only a longer month has, became the last of the month.

    Interest counted by 30/360 has a February 30.

    Raises
    ------
    RecordError
        ``invalid_date`` for months and days beyond the calendar.

    """
    if not year >= 1 or not 1 <= month <= 12 or not 1 <= day <= 31:
        raise RecordError("invalid_date", "the date is not in the calendar")
    last = calendar.monthrange(year, month)[1]
    return date(year, month, min(day, last)), day > last


@lru_cache(maxsize=4096)
def six_digit_date(digits: str) -> tuple[date, bool]:
    """Turn YYMMDD into a date, and tell whether its day was clamped to the last of its month.

    Years 80 to 99 are 1980 to 1999.

    Raises
    ------
    RecordError
        ``invalid_date``.

    """
    year = int(digits[:2])
    return clamped_date(year + (1900 if year >= 80 else 2000), int(digits[2:4]), int(digits[4:]))
