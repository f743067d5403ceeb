"""Numbers that are built like an item's reference and are not it: what quotes one of them says that it pays another.

``INV-2026-00199`` is built like ``INV-2026-00141``: the letters are the same, and there are as many digits. Whose it is
need not be known: the invoice may not have been told yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import permutations
from typing import Final

from payrec.constants import REMITTANCE_LENGTH_MAX
from payrec.domain.matching.days import without_days
from payrec.domain.matching.keys import PROVING_LENGTH_MIN, normalise_reference
from payrec.domain.matching.tokens import NOT_REFERENCE, fold
from payrec.domain.references import find_creditor_reference, is_creditor_reference

BARE_DIGITS_MIN: Final = 6
"""Digits of a reference without letters, of which nothing that is shorter is looked for: as long is much else."""

BUILDS_CACHED_MAX: Final = 1024
"""Shapes of references whose pattern is remembered; an environment's are few."""

REFERENCE_DIGITS_MAX: Final = 35
"""Digits of a reference behind which a letter is looked for: it has at most 35 characters on the wire."""

GROUPS_MAX: Final = 4
"""Groups of digits whose other orders are looked at."""

_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_RUN: Final = re.compile(r"[A-Z]+|[0-9]+", re.ASCII)
_MARK: Final = "[^A-Z0-9]?"
_DAY: Final = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])", re.ASCII)


def quotes_another(reference: str, texts: Iterable[str]) -> bool:
    """Tell whether one of the texts has a number that is built like the reference, and none has the reference.

    Of a reference without letters the first half has to be the same as well, as much else is as long. All ISO 11649
    references are built alike. What has the groups of its digits in another order (``07/2026``) is the reference.
    """
    own = normalise_reference(reference)
    build = _build(own)
    if build is None:
        return False
    folded = [fold(without_days(text[:REMITTANCE_LENGTH_MAX])) for text in texts]
    written: list[str] = [number for text in folded for number in build.findall(text)]
    if any(_is_same(number, own) for number in written):
        return False
    found = {NOT_REFERENCE.sub("", number) for number in written}
    if own.isdigit():
        found = {number for number in found if _in_row(number, own)}
    if is_creditor_reference(own):
        found |= {number for number in map(find_creditor_reference, folded) if number is not None}
    return bool(found - {own})


def ends_in_another_letter(reference: str, texts: Iterable[str]) -> bool:
    """Tell whether one of the texts has the digits of the reference with another letter behind them.

    ``1001-B`` is not ``1001-A``, and no ``1001`` either: the letter tells parts, or corrections, of one number.
    """
    own = normalise_reference(reference)
    digits, letter = "".join(_DIGITS.findall(own)), own[-1:] if own[-1:].isalpha() else ""
    if not digits or len(digits) > REFERENCE_DIGITS_MAX:
        return False
    numbers = _ending(len(digits))
    return any(
        "".join(_DIGITS.findall(number)) == digits and its != letter
        for text in texts
        for number, its in numbers.findall(fold(without_days(text[:REMITTANCE_LENGTH_MAX])))
    )


@lru_cache(maxsize=BUILDS_CACHED_MAX)
def _ending(digits: int) -> re.Pattern[str]:
    """Return what finds so many digits with a letter behind them in a folded text."""
    return re.compile(rf"(?<![0-9])({_MARK.join(['[0-9]'] * digits)})[-./_]?([A-Z])(?![A-Z0-9])", re.ASCII)


def _build(reference: str) -> re.Pattern[str] | None:
    """Return the pattern of what is built like it; None for letters alone, and where it is too short."""
    if reference.isalpha() or len(reference) < (BARE_DIGITS_MIN if reference.isdigit() else PROVING_LENGTH_MIN):
        return None
    runs: list[str] = _RUN.findall(reference)
    return _pattern(tuple(run if run.isalpha() else len(run) for run in runs))


@lru_cache(maxsize=BUILDS_CACHED_MAX)
def _pattern(shape: tuple[str | int, ...]) -> re.Pattern[str]:
    """Return what finds the shape in a folded text, whatever marks stand between its characters' groups."""
    parts = (run if isinstance(run, str) else _MARK.join(["[0-9]"] * run) for run in shape)
    return re.compile(rf"(?<![A-Z0-9]){_MARK.join(parts)}(?![A-Z0-9])", re.ASCII)


def _is_same(written: str, reference: str) -> bool:
    """Tell whether groups of digits, of a number with the letters of the reference, are its digits in some order."""
    groups: list[str] = _DIGITS.findall(written)
    orders = permutations(groups) if len(groups) <= GROUPS_MAX else [groups]
    digits = "".join(_DIGITS.findall(reference))
    return any("".join(order) == digits for order in orders)


def _in_row(number: str, reference: str) -> bool:
    """Tell whether digits begin as the reference does, which is as long, and are no day."""
    half = (len(reference) + 1) // 2
    return number[:half] == reference[:half] and _DAY.fullmatch(number) is None
