"""The rows of one sheet as a stream of texts: cells stand where their reference says, and no gap is ever filled in.

A number is ``Exact`` text, a date too; a formula is the value that was stored with it, and nothing where none was.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import date
from typing import Final

from payrec.constants import CSV_COLUMNS_MAX, FIELD_BYTES_MAX, LINE_BYTES_MAX, XML_DEPTH_MAX
from payrec.errors import UnreadableFileError
from payrec.formats.base import RecordError
from payrec.formats.camt.xml import local_name, new_parser, too_deep
from payrec.formats.csv.cells import Memory
from payrec.formats.csv.lines import Row
from payrec.formats.csv.values import Exact
from payrec.formats.xlsx.numbers import date_maker, number_text
from payrec.formats.xlsx.parts import Part, feed
from payrec.formats.xlsx.workbook import SharedTexts, Workbook

_ROWS_MAX: Final = 1 << 31
"""Rows that can be counted; a sheet of Excel has 1,048,576."""
_DIGITS: Final = "0123456789"
_NAMES: Final = {name: name for name in ("row", "c", "v", "t", "is", "rPh")}


def rows_of(part: Part, workbook: Workbook) -> Generator[Row, None, None]:
    """Yield the rows that have a cell with something in it, by their number in the sheet.

    Raises
    ------
    UnreadableFileError
        ``xlsx_too_wide``: a cell beyond CSV_COLUMNS_MAX; ``line_too_long``; and those of any part.

    """
    parser, names = new_parser()
    scanner = _Scanner(workbook)
    parser.StartElementHandler = scanner.start
    parser.EndElementHandler = scanner.end
    parser.CharacterDataHandler = scanner.chunks.append
    parser.buffer_text = True
    for _ in feed(part, parser, names):
        scanner.trim()
        part.count_more(scanner.looked_up)
        scanner.looked_up = 0
        rows, scanner.rows = scanner.rows, []
        yield from rows


def column_of(letters: str) -> int:
    """Return the index of a column, ``A`` is 0; raises ``KeyError`` for what is no column."""
    if not 0 < len(letters) <= 3 or not letters.isascii() or not letters.isalpha():
        raise KeyError(letters)
    index = 0
    for letter in letters.upper():
        index = index * 26 + ord(letter) - 64
    return index - 1


class _Scanner:
    """The handlers of a sheet, and the rows that they completed."""

    def __init__(self, workbook: Workbook) -> None:
        self._shared: SharedTexts = workbook.shared
        self._date_styles = workbook.date_styles
        self._currency_styles = workbook.currency_styles
        self._currencies_shown = workbook.currencies_shown
        self._dates = Memory(date_maker(from_1904=workbook.from_1904))
        self._columns = Memory(column_of)
        self.chunks: list[str] = []
        self.rows: list[Row] = []
        self.looked_up = 0
        """Characters of shared texts that cells named since this was last 0."""
        self._depth = 0
        self._row = 0
        self._cells: list[str] = []
        self._size = 0
        self._filled = False
        self._error: RecordError | None = None
        self._next_column = 0
        self._column = 0
        self._kind = ""
        self._style = ""
        self._value = ""
        self._phonetic = 0

    def trim(self) -> None:
        """Forget most of a text that is too long already."""
        if sum(map(len, self.chunks)) > FIELD_BYTES_MAX:
            self.chunks[:] = ["".join(self.chunks)[: FIELD_BYTES_MAX + 1]]

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > XML_DEPTH_MAX:
            raise too_deep()
        if name not in _NAMES:
            name = local_name(name)
        if name == "c":
            reference = attributes.get("r")
            if reference is None:
                self._column = self._next_column
            else:
                try:
                    self._column = self._columns[reference.rstrip(_DIGITS)]
                except KeyError:
                    self._fail("a cell has a reference that is none")
            self._next_column = self._column + 1
            self._kind = attributes.get("t", "n")
            self._style = attributes.get("s", "")
            self._value = ""
        elif name in ("v", "t"):
            self.chunks.clear()
        elif name == "row":
            number = attributes.get("r", "")
            known = number.isascii() and number.isdigit() and len(number) < 11
            self._row = int(number) if known and 0 < int(number) < _ROWS_MAX else self._row + 1
            self._cells = []
            self._size = self._next_column = 0
            self._filled = False
            self._error = None
        elif name == "rPh":
            self._phonetic += 1

    def end(self, name: str) -> None:
        self._depth -= 1
        if name not in _NAMES:
            name = local_name(name)
        if name == "v":
            self._value = "".join(self.chunks)
            self.chunks.clear()
        elif name == "t":
            if not self._phonetic and len(self._value) <= FIELD_BYTES_MAX:
                self._value += "".join(self.chunks)
            self.chunks.clear()
        elif name == "c":
            if self._value:
                self._place()
        elif name == "row":
            self._end_row()
        elif name == "rPh":
            self._phonetic -= 1

    def _place(self) -> None:
        """Put the value of the cell that ends where it belongs."""
        column, value, kind = self._column, self._value, self._kind
        self._value = ""
        if column >= CSV_COLUMNS_MAX:
            raise UnreadableFileError("xlsx_too_wide", f"a cell is beyond column {CSV_COLUMNS_MAX}")
        if kind == "n":
            value = self._dates[value] if self._style in self._date_styles else number_text(value)
            if self._style in self._currency_styles:
                self._currencies_shown.add(self._currency_styles[self._style])
        elif kind == "s":
            value = self._shared_text(value)
        elif kind == "b":
            value = "TRUE" if value == "1" else "FALSE"
        elif kind == "d" and value[4:5] == "-":
            value = _iso_date(value)
        size = len(value)
        if size > FIELD_BYTES_MAX:
            self._error = RecordError("field_too_long", f"a cell is longer than {FIELD_BYTES_MAX} bytes")
            self._filled = True
            return
        self._size += size
        if self._size > LINE_BYTES_MAX:
            raise UnreadableFileError("line_too_long", f"a row has more than {LINE_BYTES_MAX} characters")
        cells = self._cells
        while len(cells) < column:
            cells.append("")
        if len(cells) == column:
            cells.append(value)
        else:
            cells[column] = value
        self._filled = True

    def _shared_text(self, value: str) -> str:
        index = int(value) if value.isascii() and value.isdigit() and len(value) < 11 else -1
        length = self._shared.length(index)
        if length < 0:
            self._fail("a cell names a text that the workbook does not have")
            return ""
        self.looked_up += length
        if self._size + length > LINE_BYTES_MAX + FIELD_BYTES_MAX:
            raise UnreadableFileError("line_too_long", f"a row has more than {LINE_BYTES_MAX} characters")
        return self._shared.get(index)

    def _fail(self, detail: str) -> None:
        self._error = RecordError("invalid_entry", detail)
        self._filled = True

    def _end_row(self) -> None:
        if self._filled:
            self.rows.append((self._row, self._error or self._cells))
            self._filled = False


def _iso_date(text: str) -> str:
    """Return a date of a cell that holds ISO 8601 (``t="d"``), exact if it is one."""
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return text
    return Exact(text.replace("T", " ", 1)) if len(text) < 40 else text
