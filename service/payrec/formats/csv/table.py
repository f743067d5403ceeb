"""The records of the head of a file, split by one delimiter."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from payrec.constants import CSV_COLUMNS_MAX, CSV_HEADER_SEARCHED_ROWS
from payrec.formats.base import Head
from payrec.formats.csv.columns import is_date, unique_headings
from payrec.formats.csv.values import decimal_evidence, unwrap
from payrec.formats.csv.words import fold

DELIMITERS: Final = (";", ",", "\t", "|")
"""What splits the cells of a table; the first of equals is taken."""

RARE_DELIMITERS: Final = ("^", "~", "#", "\x1f")
"""What does so in the tables of a few programs, and is asked for rather than taken."""

_IN_BRACKETS: Final = re.compile(r"\([^)]*\)|\[[^\]]*\]")

_PSP_HEADINGS: Final = (
    frozenset({"balance transaction id", "gross", "net"}),
    frozenset({"psp reference", "net currency"}),
    frozenset({"transaction event code", "gross transaction amount"}),
)
"""Tables of payment service providers: other rules than a bank's, so never read as one."""


@dataclass(slots=True)
class Table:
    """The records of the head under one delimiter."""

    delimiter: str
    rows: list[list[str]]
    modal_width: int
    modal_count: int
    lines: list[int]
    """Line where each record begins."""
    header: int | None = None
    """Index of the header among ``rows``; None: no header."""

    @property
    def names(self) -> list[str] | None:
        """The headings, made unique."""
        return None if self.header is None else unique_headings(self.rows[self.header])

    @property
    def data(self) -> list[list[str]]:
        """The records below the header that are not blank, without ``="…"``."""
        first = 0 if self.header is None else self.header + 1
        return [[unwrap(cell) for cell in row] for row in self.rows[first:] if row]


def tables(head: Head, delimiters: Sequence[str]) -> list[Table]:
    """Split the head by each delimiter; a line that the head cuts is left out."""
    text = head.text
    carriage_returns = uses_carriage_returns(head)
    if carriage_returns:
        text = text.replace("\r", "\n")
    if not head.complete:
        text = text[: text.rfind("\n") + 1]
    lines = [line + "\n" for line in text.split("\n")]
    found = []
    for delimiter in delimiters:
        rows: list[list[str]] = []
        starts: list[int] = []
        reader = csv.reader(lines, delimiter=delimiter)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error:
                row = []
            if row is None:
                break
            rows.append(row)
            starts.append(line)
        widths = Counter(len(row) for row in rows if len(row) > 1)
        width, count = max(widths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        found.append(Table(delimiter, rows, width, count, starts))
    return found


def uses_carriage_returns(head: Head) -> bool:
    """Whether lines end in CR alone, as old Macintosh programs write them."""
    return "\r" in head.text and "\n" not in head.text


def is_psp_table(table: Table) -> bool:
    """Whether one of the first records is the header of a payment service provider's report."""
    for row in table.rows[:CSV_HEADER_SEARCHED_ROWS]:
        words = {fold(cell) for cell in row[:CSV_COLUMNS_MAX]}
        if any(headings <= words for headings in _PSP_HEADINGS):
            return True
    return False


def looks_like_rows(table: Table) -> bool:
    """Whether most records, from the first such on, have a date, always in one column, and an amount with decimals.

    What stands above may be anything: preambles are as long as they like.
    """
    width = table.modal_width
    first = next((i for i, row in enumerate(table.rows) if len(row) == width and is_data(row)), None)
    if first is None:
        return False
    below = table.rows[first:]
    rows = [row for row in below if len(row) == width]
    filled = sum(1 for row in below if row)
    if len(rows) * 2 < filled or (len(rows) < 2 and first):
        return False

    has_dates = any(sum(is_date(row[i].strip()) for row in rows) * 2 > len(rows) for i in range(width))
    return has_dates and sum(map(is_data, rows)) * 2 > len(rows)


def currency_beside(names: Sequence[str], amount: int) -> int | None:
    """Return the column that has the currency of an amount, told by their headings (``Main Amount (net)``)."""
    headings = [fold(name) for name in names]
    for name in (names[amount], _IN_BRACKETS.sub(" ", names[amount])) if amount < len(names) else ():
        first, _, last = fold(name).rpartition(" ")
        if first and last == "amount":
            for wanted in (f"{first} currency", first if first.endswith("currency") else ""):
                if wanted and wanted in headings:
                    return headings.index(wanted)
    return None


def is_data(row: Sequence[str]) -> bool:
    """Whether a record has a date and an amount with decimals."""
    cells = [unwrap(cell).strip() for cell in row]
    return any(map(is_date, cells)) and any(decimal_evidence(cell) is not None and not is_date(cell) for cell in cells)
