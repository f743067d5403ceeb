"""Marks: cells that say which way the money went, such as ``D`` and ``C``, and the headings that are theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from payrec.formats.csv.words import CREDIT_MARKS, DEBIT_MARKS, ROLE_PHRASES, fold, mark_word

WIDE_MARK_RANK: Final = ROLE_PHRASES["mark"]["transaction type"]
"""From here on a heading such as ``Type`` is a mark only if every cell below is one."""

_DIRECTIONS: Final = frozenset({"direction", "richtung", "dc", "cd", "dk", "creditdebit", "debitcredit"})


def mark_direction(cell: str) -> int | None:
    """Return 1 for a mark of money in, -1 for money out, None for anything else."""
    mark = mark_word(cell)
    if mark in CREDIT_MARKS:
        return 1
    return -1 if mark in DEBIT_MARKS else None


def is_mark(cell: str) -> bool:
    """Whether the cell says which way the money went."""
    return mark_direction(cell) is not None


def is_mark_heading(cell: str) -> bool:
    """Whether the heading can only be that of marks: it names both sides, or the direction."""
    name = fold(cell)
    rank = ROLE_PHRASES["mark"].get(name, WIDE_MARK_RANK)
    return rank < WIDE_MARK_RANK and (" " in name or name in _DIRECTIONS)


def are_only_marks(cells: Iterable[str]) -> bool:
    """Whether there are cells, and all of them are marks."""
    found = [cell for cell in cells if cell and not cell.isspace()]
    return bool(found) and all(map(is_mark, found))


def are_both_marks(cells: Iterable[str]) -> bool:
    """Whether the cells say nothing but which way the money went, and not always the same."""
    return {mark_direction(cell) for cell in cells if cell and not cell.isspace()} == {1, -1}
