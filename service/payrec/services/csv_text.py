"""CSV that people open in spreadsheets (RFC 4180): a text of somebody else never becomes a formula there."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from payrec.constants import PROBLEMS_READ_AT_ONCE
from payrec.storage.listing import BY_CREATION, PageRequest, SortKey

CSV_MEDIA_TYPE: Final = "text/csv"

Cell = str | int | None
"""A number is written as one: it may begin with a minus. Amounts in minor units and counts are numbers."""

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes spreadsheets compute a cell; some take the wide forms for the plain ones."""


def csv_rows(rows: Iterable[Iterable[Cell]]) -> str:
    """Return lines of CSV, each ended by CRLF; the header is a row like any other.

    A text that begins like a formula gets an apostrophe before it, by which spreadsheets take it for text.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return written.getvalue()


async def csv_pages(
    columns: Mapping[str, str],
    page: Callable[[PageRequest], Awaitable[tuple[Sequence[Mapping[str, Any]], bool]]],
    *,
    sort: SortKey = BY_CREATION["createdAt"],
) -> AsyncIterator[bytes]:
    """Yield rows that are read while they are sent, as lines below the headings that ``columns`` have of them.

    ``page`` returns the rows of a request, in the order of ``sort`` and their ids, and whether more follow.
    """
    rows: Sequence[Mapping[str, Any]] = ()
    lines, after, more = csv_rows([columns]), None, True
    while more:
        rows, more = await page(PageRequest(limit=PROBLEMS_READ_AT_ONCE, sort=sort, after=after))
        lines += csv_rows([_cell(row[name]) for name in columns.values()] for row in rows)
        yield lines.encode()
        lines, after = "", None
        if more:
            last = rows[-1]
            after = {"id": _cell(last["id"]), "value": None if sort.name is None else last[sort.name]}


def _cell(value: Any) -> Cell:
    return str(value) if isinstance(value, UUID | date) else value


def _harmless(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
