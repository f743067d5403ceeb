"""The digits of references as numbers, made once at ingest, by which references are found that are nearly quoted.

A number has a 1 before its digits, so that leading noughts count, and no more than the last ``DIGITS_MAX`` of them, so
that it fits 64 bits. Letters and marks are left out: what people mistype and fields cut off are mostly digits.
"""

from __future__ import annotations

from typing import Any, Final

from payrec.constants import REMITTANCE_LENGTH_MAX

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
    """Return the digits of a reference as a number, or None when it has fewer than ``DIGITS_MIN``."""
    if not reference:
        return None
    digits = reference.encode("ascii", "ignore").translate(_TABLE, _IN_WORD).replace(_APART, b"").replace(b" ", b"")
    return _number(digits) if len(digits) >= DIGITS_MIN else None


def quoted_digits(remittance: str | None, structured_reference: str | None = None) -> list[int] | None:
    """Return the digits of everything that a line quotes as numbers, unique, or None where it quotes none.

    At most ``QUOTED_DIGITS_MAX``: first the structured reference, then of each word of the text all its digits and,
    where marks such as a slash stand between them, those of its parts.
    """
    structured = reference_digits(structured_reference) if structured_reference else None
    found = {} if structured is None else {structured: None}
    if remittance:
        text = remittance[:REMITTANCE_LENGTH_MAX].encode("ascii", "replace").translate(_TABLE, _IN_WORD)
        for word in text.split():
            if len(word) < DIGITS_MIN:
                continue
            parts = word.split(_APART) if _APART in word else [word]
            whole = b"".join(parts)
            for digits in dict.fromkeys([whole, *parts]):
                if len(digits) >= DIGITS_MIN:
                    found[_number(digits)] = None
    return list(found)[:QUOTED_DIGITS_MAX] or None


def is_alike(asked: int, quoted: int) -> bool:
    """Tell of two numbers whether the second quotes the first in part or but for a digit.

    A part is its end, or all but its last digits. Of a whole one digit may be wrong, missing or too much, or two
    neighbours may have changed places.
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
    return (part & (its >= PART_DIGITS_MIN)) | (edited & whole)
