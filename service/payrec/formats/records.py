"""Files of the interface's own records: JSON, JSON lines, or a table whose header names the fields.

Nothing is guessed: a table is split by that delimiter under which every heading is the name of a field, texts are UTF-8
or what ``payrec.formats.encoding`` tells, and a cell is what the interface would take as a string. Containers are
opened and limits kept as for bank files.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final

from payrec.constants import CSV_COLUMNS_MAX, FILE_RECORDS_MAX
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.accounting import TimeBudget
from payrec.formats.base import Head, ReadOptions, RecordError
from payrec.formats.containers import Member, Opened, open_members
from payrec.formats.csv.lines import Records, read_rows
from payrec.formats.csv.table import DELIMITERS, uses_carriage_returns
from payrec.formats.detection import Rewound, look
from payrec.formats.encoding import Decoder, guess
from payrec.formats.json.reader import READER as JSON
from payrec.formats.json.reader import records_of
from payrec.formats.registry import ParsedFile

MEMBER_PREFIX: Final = "metadata."
"""How a column begins that is a member of ``metadata``."""

BLOCK_RECORDS: Final = 32
"""Records that are read ahead of whoever asks for them; the clock runs only meanwhile."""

_INTEGER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)

Record = tuple[int, Any]
"""Line of the file, and the decoded record or the ``RecordError`` for which it is none; or a ``Problem`` to pass on."""


class RecordFile:
    """One pass over a file. Iterate it once; ``file`` is complete when the iteration is over.

    ``fields`` are the names of the interface that a table may have as headings, ``integers`` those of them that are
    numbers there. ``format`` is ``auto``, ``json``, ``jsonl`` or ``csv``.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        name: str,
        format: str,  # noqa: A002 - the interface's name for it
        fields: frozenset[str],
        integers: frozenset[str],
        monotonic: Callable[[], float],
    ) -> None:
        self.file = ParsedFile(name)
        self._stream = stream
        self._format = format
        self._fields = fields
        self._integers = integers
        self._budget = TimeBudget(monotonic)

    def __iter__(self) -> Iterator[Record]:
        """Yield the records in file order. Whoever takes them counts them.

        Raises
        ------
        UnreadableFileError
            At any point: the file cannot be read to its end, and what came so far is not to be kept.
        PayloadTooLargeError
            Too many records, or too many bytes after its container was opened.
        """
        self._stream.seek(0, io.SEEK_SET)
        opened = open_members(self._stream, name=self.file.name)
        items = self._read(opened)
        count, ended = 0, False
        while not ended:
            block: list[Record] = []
            self._budget.resume()
            try:
                for item in items:
                    block.append(item)
                    if len(block) == BLOCK_RECORDS:
                        break
                else:
                    ended = True
                self._budget.check(opened.expanded_bytes)
            finally:
                self._budget.pause()
            count += len(block)
            if count > FILE_RECORDS_MAX:
                raise PayloadTooLargeError(f"the file has more than {FILE_RECORDS_MAX} records")
            yield from block

    def _read(self, opened: Opened) -> Iterator[Record]:
        self.file.container = opened.container
        read_any = False
        for member in opened.members:
            if member.source is not None:
                read_any = True
                yield from self._read_member(member, inside=opened.container is not None)
        if not read_any:
            raise UnreadableFileError("empty_file", "the archive holds no file")

    def _read_member(self, member: Member, *, inside: bool) -> Iterator[Record]:
        assert member.source is not None  # the caller leaves out members without one
        head, source = look(member.source, ReadOptions(), inside=inside)
        if self.file.encoding is None:
            self.file.encoding, self.file.encoding_guessed = head.encoding, head.encoding_guessed
        if head.encoding_guessed:
            yield 0, guess(head.encoding)
        if self._format == "csv":
            yield from self._table(source, head)
            return
        detected = JSON.detect(head, ReadOptions())
        if detected is not None:
            self.file.format = self.file.format or detected.format
            decoder = Decoder(head.encoding, fallback=head.encoding_fallback)
            yield from records_of(source, decoder, detected)
            yield from ((0, problem) for problem in decoder.told())
        elif self._format == "auto":
            yield from self._table(source, head)
        else:
            raise UnreadableFileError("unknown_format", "the file is not JSON")

    def _table(self, source: Rewound, head: Head) -> Iterator[Record]:
        self.file.format = self.file.format or "csv"
        delimiter = self._delimiter(head)
        records = Records(source, head, delimiter=delimiter, carriage_returns=uses_carriage_returns(head))
        names: list[str] | None = None
        for line, row in read_rows(records):
            if isinstance(row, RecordError):
                yield line, row
            elif any(cell.strip() for cell in row):
                if names is None:
                    names = _names(row)
                elif len(row) != len(names):
                    yield line, RecordError("invalid_entry", "the row has another number of cells than the header")
                else:
                    yield line, self._record(names, row)
        yield from ((0, problem) for problem in records.told())

    def _delimiter(self, head: Head) -> str:
        """Return what splits the header into names of fields.

        Raises
        ------
        UnreadableFileError
            ``csv_no_header``, and ``unknown_field`` when only some of the headings are fields.
        """
        text = head.text.replace("\r", "\n")
        first = next((line for line in text.split("\n") if line.strip()), "")
        most, unknown = 0, 0
        for delimiter in DELIMITERS:
            names: list[str] = []
            with suppress(csv.Error):
                names = _names(next(csv.reader([first], delimiter=delimiter), []))
            known = [self._is_field(name) for name in names]
            if names and all(known):
                if len(set(names)) != len(names) or len(names) > CSV_COLUMNS_MAX:
                    raise UnreadableFileError("csv_no_header", "the header names a field twice, or too many")
                return delimiter
            if sum(known) > most:
                most, unknown = sum(known), known.index(False) + 1
        if not most:
            raise UnreadableFileError("csv_no_header", "the first line does not name fields of the interface")
        raise UnreadableFileError("unknown_field", f"the heading of column {unknown} is no field of the interface")

    def _is_field(self, name: str) -> bool:
        return name in self._fields or (name.startswith(MEMBER_PREFIX) and len(name) > len(MEMBER_PREFIX))

    def _record(self, names: list[str], row: list[str]) -> dict[str, Any]:
        """Return a row's cells that are not empty, as the interface names them."""
        record: dict[str, Any] = {}
        members: dict[str, str] = {}
        for name, cell in zip(names, map(str.strip, row), strict=True):
            if not cell:
                continue
            if name.startswith(MEMBER_PREFIX):
                members[name.removeprefix(MEMBER_PREFIX)] = cell
            elif name in self._integers and _INTEGER.fullmatch(cell):
                record[name] = int(cell)
            else:
                record[name] = cell
        if members:
            record["metadata"] = members
        return record


def _names(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row]
