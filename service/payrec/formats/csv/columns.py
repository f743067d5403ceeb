"""Which column is what: headings in many languages, settled by what stands below them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from payrec.domain.currencies import MINOR_UNITS
from payrec.errors import UnreadableFileError
from payrec.formats.csv.dates import date_evidence
from payrec.formats.csv.profile import COLUMN_ROLES
from payrec.formats.csv.values import is_amount, unwrap
from payrec.formats.csv.words import (
    CREDIT_MARKS,
    DEBIT_MARKS,
    KNOWN_HEADINGS,
    PENDING_WORDS,
    ROLE_PHRASES,
    STOP_WORDS,
    fold,
)

Columns = dict[str, list[int]]
"""Role to the indexes of its columns. Besides the roles of a profile: mark, ownAccount, reference, status."""

_MANY: Final = frozenset({"remittance", "reference"})
"""Roles of which a table may have several columns."""

_IN_BRACKETS: Final = re.compile(r"\([^)]*\)|\[[^\]]*\]")


def _headings_of(cell: str) -> list[str]:
    """Return the folded forms under which a heading may be known, the most literal first."""
    forms = [fold(cell)]
    if "(" in cell or "[" in cell:
        forms.append(fold(_IN_BRACKETS.sub(" ", cell)))
    words = forms[0].split()
    if len(words) > 1 and words[-1].upper() in MINOR_UNITS:
        forms.append(" ".join(words[:-1]))
    forms += [" ".join(word for word in form.split() if word not in STOP_WORDS) for form in tuple(forms)]
    return forms


def known_heading(cell: str) -> str | None:
    """Return the folded heading if it is a known word, else None."""
    if len(cell) > 100:
        return None
    return next((form for form in _headings_of(cell) if form in KNOWN_HEADINGS), None)


def heading_currency(cell: str) -> str | None:
    """Return the currency of ``Amount (EUR)`` or ``Betrag in EUR``."""
    words = fold(cell).upper().split()
    return words[-1] if len(words) > 1 and len(words[-1]) == 3 and words[-1] in MINOR_UNITS else None


def mark_direction(cell: str) -> int | None:
    """Return 1 for a mark of money in, -1 for money out, None for anything else."""
    mark = fold(cell) or cell.strip()
    if mark in CREDIT_MARKS:
        return 1
    return -1 if mark in DEBIT_MARKS else None


def is_pending_word(cell: str) -> bool:
    """Whether the cell says that the row is not booked yet."""
    return len(cell) < 60 and fold(cell) in PENDING_WORDS


def is_currency(cell: str) -> bool:
    """Whether the cell is an ISO 4217 code."""
    return cell.strip().upper() in MINOR_UNITS


def is_date(cell: str) -> bool:
    """Whether the cell is a date in some order, or a word that stands for one."""
    return date_evidence(cell) is not None or is_pending_word(cell)


def _is_mark(cell: str) -> bool:
    return mark_direction(cell) is not None


_CONTENT: Final[dict[str, Callable[[str], bool]]] = {
    "bookingDate": is_date,
    "valueDate": is_date,
    "amount": is_amount,
    "debit": is_amount,
    "credit": is_amount,
    "balance": is_amount,
    "originalAmount": is_amount,
    "currency": is_currency,
    "originalCurrency": is_currency,
    "mark": _is_mark,
}
"""What the cells below a heading must be for it to have the role; the majority decides, one cell may be garbled."""

_ORDER: Final = (
    *("bookingDate", "valueDate", "debit", "credit", "mark", "currency", "originalCurrency", "balance"),
    *("originalAmount", "amount", "ownAccount", "counterpartyAccount", "account", "counterpartyName"),
    *("counterpartyBic", "structuredReference", "endToEndId", "bankTransactionCode", "remittance", "reference"),
    "status",
)
"""Roles in the order in which they take their columns: what is told by its cells goes first."""

_WIDE_MARK_RANK: Final = ROLE_PHRASES["mark"]["transaction type"]
"""From here on a heading such as ``Type`` is a mark only if every cell below is one."""


def _holds(role: str, rank: int, cells: Iterable[str]) -> bool:
    """Whether the majority of the cells that are not empty are what the role needs; none at all is no objection."""
    check = _CONTENT.get(role)
    if check is None:
        return True
    good = total = 0
    for cell in cells:
        if cell and not cell.isspace():
            total += 1
            good += check(cell)
    if role == "mark":
        return total > 0 and (good == total or (rank < _WIDE_MARK_RANK and good * 2 >= total))
    return good * 2 >= total


def assign_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Columns:
    """Give each heading that is known its role, looking at the rows below where a word means two things.

    ``Valuta`` is a currency in Danish and a date in German; ``Valor`` is an amount or a date.
    """
    forms = [_headings_of(cell) if cell.strip() and len(cell) <= 100 else [] for cell in header]
    # Each role is looked at against the same few rows; two hundred say enough.
    below = [[row[i].strip() for row in rows[:200] if i < len(row)] for i in range(len(header))]
    taken: set[int] = set()
    columns: Columns = {}
    for role in _ORDER:
        phrases = ROLE_PHRASES[role]
        ranked = sorted(
            (rank, i)
            for i in range(len(header))
            if i not in taken
            and (rank := min((phrases[form] for form in forms[i] if form in phrases), default=-1)) >= 0
            and _holds(role, rank, below[i])
        )
        if ranked:
            chosen = sorted(i for _, i in ranked) if role in _MANY else [ranked[0][1]]
            columns[role] = chosen
            taken.update(chosen)
    _settle(columns)
    return columns


def _settle(columns: Columns) -> None:
    """Make the roles agree with each other."""
    # One side alone is no pair: it may be the only amount column there is ("Debit" in a list of debits stays unread).
    if ("debit" in columns) != ("credit" in columns):
        columns.pop("debit", None)
        columns.pop("credit", None)
    # The pair always tells the direction; an amount column beside it may be without sign.
    if "debit" in columns:
        columns.pop("amount", None)
    if "remittance" not in columns and "bankTransactionCode" in columns:
        columns["remittance"] = columns.pop("bankTransactionCode")


def has_essentials(columns: Columns) -> bool:
    """Whether there is a date column and an amount column."""
    return bool(columns.keys() & {"bookingDate", "valueDate"}) and bool(columns.keys() & {"amount", "debit", "credit"})


def unique_headings(header: Sequence[str]) -> list[str]:
    """Return the headings with ``#2``, ``#3`` behind those that occur again."""
    seen: dict[str, int] = {}
    result = []
    for cell in header:
        name = unwrap(cell).strip()
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


class ColumnFinder:
    """Resolves the columns that a profile names, by number or by heading (case and accents do not matter)."""

    def __init__(self, header: Sequence[str] | None, width: int) -> None:
        self._width = width
        self._names: dict[str, int] = {}
        for index, name in enumerate(header or ()):
            self._names.setdefault(name.strip(), index)
            self._names.setdefault(fold(name), index)

    def find(self, value: Any, pointer: str) -> int:
        """Return the index.

        Raises
        ------
        UnreadableFileError
            ``csv_column_missing``: this file is not what the profile was saved for.

        """
        if isinstance(value, int):
            if 0 <= value < max(self._width, 1):
                return value
        else:
            index = self._names.get(value.strip(), self._names.get(fold(value)))
            if index is not None:
                return index
        raise UnreadableFileError("csv_column_missing", f"the file does not have the column that {pointer} names")


def profile_columns(named: Mapping[str, Any], finder: ColumnFinder) -> Columns:
    """Resolve ``columns`` of a profile."""
    columns: Columns = {}
    for role in COLUMN_ROLES:
        value = named.get(role)
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            columns[role] = [
                finder.find(item, f"/profile/columns/{role}/{position}") for position, item in enumerate(value)
            ]
        else:
            columns[role] = [finder.find(value, f"/profile/columns/{role}")]
    return columns
