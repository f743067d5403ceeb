"""The European Central Bank's euro foreign exchange reference rates: its CSV and its XML, of a day or of all days.

Both say how many units of a currency one euro was worth. The table is ``Date, USD, JPY, …``, one row a day, the day as
``2026-03-10`` or ``10 March 2026``, ``N/A`` where a currency had no rate, a comma at the end of each line; it comes in
a zip. The XML is an envelope of ``Cube`` in ``Cube``: one for each day, with one for each currency in it.

A file is read whole or not at all: what is in it twice, or is no rate, refuses it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import BinaryIO, Final, Literal
from xml.parsers import expat

from payrec.constants import FILE_PIECE_BYTES
from payrec.constants.fx_rates import ECB_CURRENCIES_MAX, ECB_FILE_BYTES_MAX, ECB_RATES_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.fx_rates import FxRate, FxRateError, parse_rate
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import Source
from payrec.formats.camt.xml import local_name, new_parser
from payrec.formats.containers import open_members

EURO: Final = "EUR"
"""The base of every rate."""

EcbFormat = Literal["ecb_csv", "ecb_xml"]

_BOM: Final = b"\xef\xbb\xbf"
_DEPTH_MAX: Final = 8
"""Levels of elements; the bank's files have four."""
_CODE: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_ENGLISH: Final = re.compile(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})", re.ASCII)
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        (
            "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
            "November", "December",
        ),
        start=1,
    )
}  # fmt: skip
_ABSENT: Final = frozenset({"", "N/A"})


@dataclass(slots=True)
class EcbRates:
    """What a file says."""

    format: EcbFormat
    rates: dict[tuple[date, str], FxRate] = field(default_factory=dict)
    """What one euro was worth, by day and currency."""
    unknown: set[str] = field(default_factory=set)
    """Currencies that are passed over because nothing can be stored in them."""

    def add(self, day: date, currency: str, text: str) -> None:
        """Add a rate; raises ``UnreadableFileError``."""
        if currency not in MINOR_UNITS or currency == EURO:
            if len(self.unknown) >= ECB_CURRENCIES_MAX:
                raise UnreadableFileError("ecb_currencies", f"more than {ECB_CURRENCIES_MAX} currencies")
            self.unknown.add(currency)
            return
        if (day, currency) in self.rates:
            raise UnreadableFileError("ecb_given_twice", f"{currency} has two rates of {day}")
        if len(self.rates) >= ECB_RATES_MAX:
            raise UnreadableFileError("ecb_too_many", f"more than {ECB_RATES_MAX} rates")
        try:
            self.rates[day, currency] = parse_rate(text)
        except FxRateError as error:
            raise UnreadableFileError("ecb_rate", f"{currency} of {day}: {error.detail}") from None


def read_rates(stream: BinaryIO, *, name: str) -> EcbRates:
    """Read a file, in a zip or by itself. Blocking; ``stream`` is seekable and at its start.

    Raises
    ------
    UnreadableFileError
        ``unknown_format`` for what is no such file, ``ecb_row``, ``ecb_date``, ``ecb_rate``, ``ecb_given_twice``, …
    PayloadTooLargeError
        More comes out of it than ECB_FILE_BYTES_MAX.
    """
    data: bytes | None = None
    for member in open_members(stream, name=name).members:
        if member.source is None:
            continue
        if data is not None:
            raise UnreadableFileError("ecb_one_file", "the archive has more than one file")
        data = _whole(member.source)
    data = (data or b"").removeprefix(_BOM)
    found = _read_xml(data) if data.lstrip().startswith(b"<") else _read_csv(data)
    if not found.rates:
        raise UnreadableFileError("ecb_no_rates", "the file has no rate that can be stored")
    return found


def _whole(source: Source) -> bytes:
    found = bytearray()
    while piece := source.read(FILE_PIECE_BYTES):
        found += piece
        if len(found) > ECB_FILE_BYTES_MAX:
            raise PayloadTooLargeError(f"the file has more than {ECB_FILE_BYTES_MAX} bytes when it is unpacked")
    return bytes(found)


def _day(text: str) -> date:
    iso, english = _ISO.fullmatch(text), _ENGLISH.fullmatch(text)
    try:
        if iso is not None:
            return date(int(iso[1]), int(iso[2]), int(iso[3]))
        if english is not None:
            return date(int(english[3]), _MONTHS[english[2]], int(english[1]))
    except (ValueError, KeyError):
        pass
    raise UnreadableFileError("ecb_date", "a day must be like 2026-03-10 or 10 March 2026")


def _read_csv(data: bytes) -> EcbRates:
    found = EcbRates("ecb_csv")
    rows = _rows(data)
    header = next(rows, [])
    if not header or header[0] != "Date" or not all(_CODE.fullmatch(code) for code in header[1:]):
        raise UnreadableFileError("unknown_format", "neither the ECB's table of rates (Date, USD, …) nor its XML")
    codes = header[1:]
    if len(codes) > ECB_CURRENCIES_MAX:
        raise UnreadableFileError("ecb_currencies", f"more than {ECB_CURRENCIES_MAX} currencies")
    if len(set(codes)) != len(codes):
        raise UnreadableFileError("ecb_given_twice", "a currency has two columns")
    days: set[date] = set()
    for row in rows:
        if len(row) > len(header):
            raise UnreadableFileError("ecb_row", "a row has more cells than there are currencies")
        day = _day(row[0])
        if day in days:
            raise UnreadableFileError("ecb_given_twice", f"{day} has two rows")
        days.add(day)
        for code, cell in zip(codes, row[1:], strict=False):
            if cell not in _ABSENT:
                found.add(day, code, cell)
    return found


def _rows(data: bytes) -> Iterator[list[str]]:
    """Yield the rows with something in them, their cells without blanks around and without empty ones at the end."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise UnreadableFileError("unknown_format", "the ECB's table of rates has nothing but ASCII") from None
    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            cells = [cell.strip() for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                yield cells
    except csv.Error:
        raise UnreadableFileError("ecb_row", "a row is malformed") from None


class _Cubes:
    """Takes the rates out of the XML."""

    def __init__(self) -> None:
        self.found = EcbRates("ecb_xml")
        self._days: list[date | None] = []
        """The day that each open element belongs to."""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        name = local_name(name)
        if not self._days and name != "Envelope":
            raise UnreadableFileError("unknown_format", "the XML is not that of the ECB's reference rates")
        if len(self._days) >= _DEPTH_MAX:
            raise UnreadableFileError("xml_too_deep", f"the file has more than {_DEPTH_MAX} levels of elements")
        day = self._days[-1] if self._days else None
        if name == "Cube" and "time" in attributes:
            day = _day(attributes["time"])
        self._days.append(day)
        if name == "Cube" and "currency" in attributes:
            currency, rate = attributes["currency"], attributes.get("rate", "")
            if day is None or not _CODE.fullmatch(currency):
                raise UnreadableFileError("ecb_row", "a rate without its day, or without its currency")
            self.found.add(day, currency, rate)

    def end(self, _name: str) -> None:
        """End an element."""
        self._days.pop()


def _read_xml(data: bytes) -> EcbRates:
    parser, names = new_parser()
    cubes = _Cubes()
    parser.StartElementHandler = cubes.start
    parser.EndElementHandler = cubes.end
    try:
        for place in range(0, len(data), FILE_PIECE_BYTES):
            parser.Parse(data[place : place + FILE_PIECE_BYTES])
            if len(names) > ECB_CURRENCIES_MAX:
                raise UnreadableFileError("xml_too_many_names", f"the file has more than {ECB_CURRENCIES_MAX} names")
        parser.Parse(b"", True)  # noqa: FBT003 - expat takes it by place alone
    except expat.ExpatError as error:
        raise UnreadableFileError("xml_malformed", f"line {error.lineno} is not well-formed XML") from error
    return cubes.found
