"""The digits of references as numbers, made once at ingest, by which references are found that are nearly quoted.

A number has a 1 before its digits, so that leading noughts count, and no more than the last ``DIGITS_MAX`` of them, so
that it fits 64 bits. Letters and marks are left out: what people mistype and fields cut off are mostly digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

from payrec.constants import REMITTANCE_LENGTH_MAX, TEXTS_CACHED_MAX
from payrec.domain.matching.days import without_days
from payrec.domain.matching.periods import (
    ALONE,
    has_year,
    is_period,
    named_periods,
    other_period,
    periods_of,
    said_in,
    same_period,
    says_when,
    without_others,
)

DIGITS_MIN: Final = 5
"""Digits that a number needs to be looked at."""

DIGITS_MAX: Final = 18
"""Digits that are kept: the last ones, because those tell references of one kind apart."""

QUOTED_DIGITS_MAX: Final = 4
"""Numbers of one line: those that come first in its text."""

PART_DIGITS_MIN: Final = 5
"""Digits that a part of a reference needs to be one."""

EDITED_DIGITS_MIN: Final = 6
"""Digits that a reference needs so that one of them may be wrong."""

CUT_DIGITS_MAX: Final = 2
"""Digits that may be cut off the end of a reference."""

SERIES_DIGITS_MAX: Final = 64
"""Numbers of the series of one line."""

SPAN_NUMBERS_MAX: Final = 32
"""Numbers that ``from`` one ``to`` another may be."""

MONTH_DIGITS: Final = 6
"""Digits of a month and its year."""

SHORT_DIGITS_MIN: Final = 2
"""Digits of a number that goes on another one: with fewer it is a count (``0141 and 2 others``)."""

_LOOKED_AT_MAX: Final = 4 * SERIES_DIGITS_MAX
"""Numbers of a text that are looked at, many of which may be none of a list."""

_BEGINS_MAX: Final = 2
"""Numbers before a shorter one that it may go on: one of two may be none of the list."""

_SPAN: Final = re.compile(
    r"(?<![0-9])([0-9]++(?:[-._/][0-9]++){0,4})"
    r"(?=(?:-|\s{1,9}(?:[-–]|to|thru|through|till|until|bis|tot|t/m|au|al)\s{1,9}(?:[\w.-]{0,35}[a-z_.-])?)([0-9]{2,}+))",
    re.ASCII | re.IGNORECASE,
)
"""A number, with marks in it, and one up to which it goes, before which the letters may stand again."""

_SEVERAL: Final = re.compile("[0-9][^0-9]++[0-9]", re.ASCII)
"""Without it a text has no ``_SPAN``; nearly every one has a single number, and this takes a third of the time."""

_CUSTOMER: Final = re.compile(
    r"\b(?:Kunden?|Kd|Mandats?|Mandant|Mitglieds?|Patient(?:en|in)?|Pat|Versicherten|Mieter|Debitor(?:en)?|Kreditor(?:en)?"
    r"|Lieferant(?:en)?|Personal|customer|client|member|mandate|klant|insured|tenant|debtor|supplier|vendor|employee)"
    r"[-. ]{0,2}(?:(?:Nr|Nummer|No|Number|ID|Ref))?[.:#/ -]{0,3}[0-9]++",
    re.ASCII | re.IGNORECASE,
)
"""What says who pays or is paid, as ``Kunde 10023`` or ``Pat.-Nr.: 10023``, and not what for."""

_OF_CUSTOMERS: Final = re.compile(
    "kund|kd|manda|mitglied|pat|versicherte|mieter|debitor|kreditor|lieferant|personal|customer|client|member|klant|insured"
    "|tenant|debtor|supplier|vendor|employee"
)
"""One of these is in small letters in all that ``_CUSTOMER`` finds, and to look for that takes a third of the time."""

_MARKS: Final = re.compile("[-._/]")
_BLANK: Final = b" \t\n\r\x0b\x0c"
_IN_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._"
_APART: Final = b"/"
_TABLE: Final = bytes(
    at if chr(at).isdecimal() and at < 128 else 32 if at in _BLANK else _APART[0] for at in range(256)
)  # fmt: skip
"""Of ``bytes.translate``: digits stay, and whatever is neither part of a word nor blank stands between two words."""


def _number(digits: bytes) -> int:
    return int(b"1" + digits[-DIGITS_MAX:])


def reference_digits(reference: str | None) -> int | None:
    """Return the digits of a reference as a number, or None when it has fewer than ``DIGITS_MIN`` and names no period.

    A period that it names is as its last digits, behind ``ALONE`` where it says nothing else.
    """
    if not reference:
        return None
    periods, rest = ([], reference) if reference.isdecimal() else named_periods(reference)
    digits = rest.encode("ascii", "ignore").translate(_TABLE, _IN_WORD).replace(_APART, b"").replace(b" ", b"")
    if len(digits) < DIGITS_MIN:
        periods = periods or periods_of(reference)
        digits = digits if rest is not reference else b""
    # Of several periods none is the one, and beside a whole number one of no year says too little.
    if len(periods) == 1 and (has_year(periods[0]) or len(digits) < DIGITS_MIN):
        alone = not digits and says_when(rest)
        digits += (ALONE if alone else b"") + str(periods[0])[1:].encode()
    elif len(digits) == MONTH_DIGITS and is_period(_number(digits)) and _has_letters(rest) and says_when(rest):
        digits = ALONE + digits
    return _number(digits) if len(digits) >= DIGITS_MIN else None


def _has_letters(text: str) -> bool:
    return text.upper() != text.lower()


@lru_cache(maxsize=TEXTS_CACHED_MAX)
def _words(remittance: str) -> tuple[list[bytes], frozenset[str]]:
    """Return the digits of each word of a text, ``_APART`` where marks stand between them, and what is ``said_in`` it.

    The number of a customer is none of what he pays, however near it comes to one.
    """
    said = said_in(remittance)
    text = without_others(without_days(remittance), said)
    if _OF_CUSTOMERS.search(text.lower()):
        text = _CUSTOMER.sub(" ", text)
    return text.encode("ascii", "replace").translate(_TABLE, _IN_WORD).split(), said


def quoted_digits(remittance: str | None, structured_reference: str | None = None) -> list[int] | None:
    """Return the digits of everything that a line quotes as numbers, unique, or None where it quotes none.

    At most ``QUOTED_DIGITS_MAX``: first the structured reference, then of each word of the text all its digits and,
    where marks such as a slash stand between them, those of its parts, then the periods that it names.
    """
    structured = reference_digits(structured_reference) if structured_reference else None
    found = {} if structured is None else {structured: None}
    if remittance:
        text = remittance[:REMITTANCE_LENGTH_MAX]
        words, said = _words(text)
        for word in words:
            if len(word) < DIGITS_MIN:
                continue
            if _APART not in word:
                found[_number(word)] = None
                continue
            parts = word.split(_APART)
            for digits in (b"".join(parts), *parts):
                if len(digits) >= DIGITS_MIN:
                    found[_number(digits)] = None
        if len(found) < QUOTED_DIGITS_MAX:
            found.update(dict.fromkeys(periods_of(text, said)))
    return list(found)[:QUOTED_DIGITS_MAX] or None


def series_digits(remittance: str | None) -> list[int] | None:
    """Return the numbers of a text that quotes several, each in full, unique, or None where it does not.

    Lists are written short: a number with fewer digits, at least ``SHORT_DIGITS_MIN``, goes on one before it, of which
    it replaces the last ones (``RE-2026-00141, 142/43``), and ``00141 to 00143`` are all between. At most
    ``SERIES_DIGITS_MAX``, none of fewer digits than ``DIGITS_MIN``.
    """
    if not remittance:
        return None
    text = remittance[:REMITTANCE_LENGTH_MAX]
    words, _ = _words(text)
    parts = [part for word in words for part in (_parts(word) if _APART in word else (word,))]
    if not parts or len(max(parts, key=len)) < DIGITS_MIN:
        return None
    if len(parts) == 1 and _SEVERAL.search(text) is None:
        return None
    spans = _SPAN.finditer(without_days(text))
    between = (digits for span in spans for digits in _all_between(*span.groups()))
    found: dict[int, None] = {}
    begins: list[bytes] = []
    for digits in islice(chain(parts, between), _LOOKED_AT_MAX):
        for begin in begins:
            if SHORT_DIGITS_MIN <= len(digits) < len(begin):
                found[_number(begin[: -len(digits)] + digits)] = None
        if len(digits) >= DIGITS_MIN:
            found[_number(digits)] = None
            begins = [digits, *begins[: _BEGINS_MAX - 1]]
    return list(found)[:SERIES_DIGITS_MAX] if len(found) > 1 else None


def _parts(word: bytes) -> list[bytes]:
    """Return the numbers of a word with marks between them, as ``2026/00141/142``: the first may belong to the next."""
    parts = [part for part in word.split(_APART) if part]
    if len(parts) > 1 and len(parts[0]) < DIGITS_MIN:
        first, second, *others = parts
        return [first, second, first + second, *others]
    return parts


def _all_between(first: str, last: str) -> Iterable[bytes]:
    """Return all numbers from one to another one, which may leave out what is the same; none where those are many."""
    first = _MARKS.sub("", first)[-DIGITS_MAX:]
    low, high = int(first), int((first[: -len(last)] + last)[-DIGITS_MAX:])
    if not low < high < low + SPAN_NUMBERS_MAX:
        return ()
    return (str(number).zfill(len(first)).encode() for number in range(low, high + 1))


def is_of_other_period(asked: int | None, said: Iterable[int]) -> bool:
    """Tell of the digits of a reference whether a line names a period, and quotes neither the item nor its period."""
    if asked is None:
        return False
    quoted = list(said)
    own = any(same_period(asked, one) or is_alike(asked, one) for one in quoted)
    return not own and any(other_period(asked, one) for one in quoted)


def is_alike(asked: int, quoted: int) -> bool:
    """Tell of two numbers whether the second quotes the first in part or but for a digit.

    A part is its end, or all but its last digits. Of a whole one digit may be wrong, missing or too much, or two
    neighbours may have changed places; but nobody mistypes a period for another one.
    """
    size, its = (len(str(number)) - 1 for number in (asked, quoted))
    return bool(comes_near(asked, quoted, size, its, size))


def comes_near(asked: Any, quoted: Any, size: Any, its: Any, most: int) -> Any:
    """Tell what ``is_alike`` does, of numbers or of columns of them, given how many digits they have.

    ``most`` is the greatest of the sizes that are asked for. Nothing here leaves 64 bits.
    """
    below = 10**its
    part = (its <= size) & (asked % below == quoted - below)
    for cut in range(1, CUT_DIGITS_MAX + 1):
        part |= asked // 10**cut == quoted
    edited = its < 0
    for place in range(min(most + 1, DIGITS_MAX)):
        unit, ten = 10**place, 10 ** (place + 1)
        same = asked % unit == quoted % unit
        other = (asked // ten == quoted // ten) | (asked // ten == quoted // unit) | (asked // unit == quoted // ten)
        swapped = (
            (asked // ten // 10 == quoted // ten // 10)
            & (asked // unit % 10 == quoted // ten % 10)
            & (asked // ten % 10 == quoted // unit % 10)
        )
        edited = edited | (same & (other | swapped))
    whole = (size >= EDITED_DIGITS_MIN) & (abs(size - its) <= 1)
    return (part & (its >= PART_DIGITS_MIN)) | (edited & (whole > other_period(asked, quoted)))
