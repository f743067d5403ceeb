"""CSV that people open in spreadsheets (RFC 4180): a text of somebody else never becomes a formula there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from payrec.constants import PROBLEMS_READ_AT_ONCE
from payrec.storage.listing import BY_CREATION, PageRequest, SortKey

CSV_MEDIA_TYPE: Final = "text/csv"

Cell = str | int | None
"""A number is written as one: it may begin with a minus. Amounts in minor units and counts are numbers."""

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What makes spreadsheets compute a cell; some take the wide forms for the plain ones."""

# Where commas are in numbers, spreadsheets split a line at semicolons or tabs, and quotes that do not begin a cell say
# nothing there: cells begin after these and after line breaks, and then with what follows quotes.
_CELL_STARTS: Final = re.compile(
    rf"""\A(?=[\t\r\n])|((?:\A|[;\t\r\n])"*)(?={"|".join(map(re.escape, _FORMULA_STARTS))})"""
)
_QUOTED: Final = re.compile(r'[",;\t\r\n]')


def csv_rows(rows: Iterable[Iterable[Cell]]) -> str:
    """Return lines of CSV, each ended by CRLF; the header is a row like any other.

    What would begin like a formula, wherever a cell may begin of a text, gets an apostrophe before it, by which
    spreadsheets take it for text. A text that any of them may split is quoted.
    """
    return "".join(f"{','.join(map(_written, row))}\r\n" for row in rows)


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


def _written(cell: Cell) -> str:
    if not isinstance(cell, str):
        return "" if cell is None else str(cell)
    if _QUOTED.search(cell) is None:
        return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell
    text = _CELL_STARTS.sub(r"\1'", cell)
    return '"' + text.replace('"', '""') + '"'
