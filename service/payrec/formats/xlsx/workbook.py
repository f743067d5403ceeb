"""What a workbook says beside its sheets: their names, the texts they share, and which numbers are dates."""

from __future__ import annotations

import posixpath
from array import array
from dataclasses import dataclass
from typing import Final

from payrec.constants import FIELD_BYTES_MAX, XLSX_PART_BYTES_MAX, XLSX_SHEETS_MAX, XLSX_STYLES_MAX
from payrec.errors import UnreadableFileError
from payrec.formats.camt.xml import local_name
from payrec.formats.xlsx.numbers import currency_of_format, is_built_in_date, is_date_format
from payrec.formats.xlsx.parts import Handler, Package, parse_part

_WORKBOOK: Final = "xl/workbook.xml"
_RELATIONS: Final = "xl/_rels/workbook.xml.rels"
_TRUE: Final = ("1", "true", "on")
_FORMAT_LENGTH_MAX: Final = 500
"""Characters of a number format; Excel allows 255."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One sheet, by its place in the workbook."""

    name: str
    part: str
    hidden: bool


class _Names:
    """The sheets of ``workbook.xml``."""

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str, bool]] = []
        """Name, relation, hidden."""
        self.from_1904 = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sheet":
            _bound(len(self.sheets), XLSX_SHEETS_MAX, "sheets")
            relation = next((v for k, v in attributes.items() if ":" in k and local_name(k) == "id"), "")
            hidden = attributes.get("state", "visible") != "visible"
            self.sheets.append((attributes.get("name", ""), relation, hidden))
        elif name == "workbookPr":
            self.from_1904 = attributes.get("date1904") in _TRUE

    def end(self, name: str) -> None:
        pass


class _Relations:
    """Where the parts are, by their relation: kind and place."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str]] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "Relationship":
            _bound(len(self.found), 2 * XLSX_SHEETS_MAX, "parts")
            kind = attributes.get("Type", "").rpartition("/")[2]
            place = posixpath.normpath(posixpath.join("/xl", attributes.get("Target", "")))
            self.found[attributes.get("Id", "")] = (kind, place.lstrip("/"))

    def end(self, name: str) -> None:
        pass

    def place(self, kind: str) -> str | None:
        return next((place for found, place in self.found.values() if found == kind), None)


class _Styles:
    """Which cell formats show dates, and which a currency."""

    def __init__(self) -> None:
        self._formats: dict[str, bool] = {}
        self._shown: dict[str, str] = {}
        self._inside = False
        self._count = 0
        self.dates: set[str] = set()
        self.currencies: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "numFmt":
            _bound(len(self._formats), XLSX_STYLES_MAX, "number formats")
            code = attributes.get("formatCode", "")[:_FORMAT_LENGTH_MAX]
            number = attributes.get("numFmtId", "")
            self._formats[number] = is_date_format(code)
            if (currency := currency_of_format(code)) is not None:
                self._shown[number] = currency
        elif name == "cellXfs":
            self._inside = True
        elif name == "xf" and self._inside:
            _bound(self._count, XLSX_STYLES_MAX, "cell formats")
            number = attributes.get("numFmtId", "0")
            is_date = self._formats.get(number)
            if is_date is None:
                is_date = len(number) < 6 and number.isdecimal() and is_built_in_date(int(number))
            if is_date:
                self.dates.add(str(self._count))
            elif number in self._shown:
                self.currencies[str(self._count)] = self._shown[number]
            self._count += 1

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._inside = False


class SharedTexts:
    """The texts that cells name by their number, in one block: an object for each would take five times as much."""

    def __init__(self) -> None:
        self._block = bytearray()
        self._ends = array("I", [0])
        self._chunks: list[str] = []
        self._size = 0
        self._wanted = False
        self._phonetic = 0

    def __len__(self) -> int:
        return len(self._ends) - 1

    def start(self, name: str, attributes: dict[str, str]) -> None:  # noqa: ARG002  # the interface
        """Begin a text (``si``) or a run of it (``t``); phonetic guides (``rPh``) are no part of it."""
        if name == "t":
            self._wanted = not self._phonetic
        elif name == "rPh":
            self._phonetic += 1
        elif name == "si":
            self._chunks.clear()
            self._size = 0

    def text(self, piece: str) -> None:
        """Add to the text; of one that is too long anyway no more is kept than shows that."""
        if self._wanted and self._size <= FIELD_BYTES_MAX:
            piece = piece[: FIELD_BYTES_MAX + 1]
            self._size += len(piece)
            self._chunks.append(piece)

    def end(self, name: str) -> None:
        """End it."""
        if name == "t":
            self._wanted = False
        elif name == "rPh":
            self._phonetic -= 1
        elif name == "si":
            self._block += "".join(self._chunks).encode("utf-8", "replace")
            self._ends.append(len(self._block))

    def length(self, index: int) -> int:
        """Return the bytes of a text, -1 when there is none of that number."""
        if not 0 <= index < len(self._ends) - 1:
            return -1
        return self._ends[index + 1] - self._ends[index]

    def get(self, index: int) -> str:
        """Return a text that there is."""
        return self._block[self._ends[index] : self._ends[index + 1]].decode()


class Workbook:
    """The sheets of a package, and what is needed to read their cells."""

    def __init__(self, package: Package) -> None:
        self._package = package
        names, relations, styles = _Names(), _Relations(), _Styles()
        self.shared = SharedTexts()
        self._read(_WORKBOOK, names)
        if package.has(_RELATIONS):
            self._read(_RELATIONS, relations)
        styles_place = relations.place("styles") or "xl/styles.xml"
        if package.has(styles_place):
            self._read(styles_place, styles)
        self._texts_place = relations.place("sharedStrings") or "xl/sharedStrings.xml"
        self.from_1904 = names.from_1904
        self.date_styles = styles.dates
        """Numbers of the cell formats that show dates, as cells name them."""
        self.currency_styles = styles.currencies
        """The same of those that show a currency, with the currency."""
        self.currencies_shown: set[str] = set()
        """What the numbers read so far show."""
        self.sheets = []
        for position, (name, relation, hidden) in enumerate(names.sheets, start=1):
            kind, place = relations.found.get(relation, ("worksheet", f"xl/worksheets/sheet{position}.xml"))
            # Charts and dialogs are sheets without cells.
            if kind == "worksheet":
                self.sheets.append(Sheet(name, place, hidden))

    def read_shared(self) -> None:
        """Read the shared texts.

        Raises
        ------
        UnreadableFileError
            ``xlsx_too_large``, and those of any part.

        """
        if self._package.has(self._texts_place):
            self._read(self._texts_place, self.shared)

    def _read(self, place: str, handler: Handler) -> None:
        text = handler.text if isinstance(handler, SharedTexts) else None
        for size in parse_part(self._package.open(place), handler, text=text):
            if size > XLSX_PART_BYTES_MAX:
                raise UnreadableFileError("xlsx_too_large", f"a part is over {XLSX_PART_BYTES_MAX} bytes")


def _bound(count: int, most: int, what: str) -> None:
    if count >= most:
        raise UnreadableFileError("xlsx_too_large", f"the workbook has more than {most} {what}")
