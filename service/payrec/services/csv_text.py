"""CSV that people open in spreadsheets (RFC 4180): a text of somebody else never becomes a formula there."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Final

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


def _harmless(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
