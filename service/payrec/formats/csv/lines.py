"""Bytes to records: a bounded stream over the rows of a table, and a spool to read its beginning twice."""

from __future__ import annotations

import csv
import io
import itertools
import tempfile
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Final, TypeAlias

from payrec.constants import CSV_COLUMNS_MAX, CSV_SPOOL_MEMORY_BYTES, FIELD_BYTES_MAX, FILE_PIECE_BYTES, LINE_BYTES_MAX
from payrec.domain.statements import Problem
from payrec.errors import UnreadableFileError
from payrec.formats.base import Head, RecordError, Source
from payrec.formats.encoding import Decoder

Row: TypeAlias = tuple[int, "list[str] | RecordError"]
"""Line where the record begins, and its cells or why it has none."""

FOOTER_ROW: Final = "csv_footer_row"


class Spool:
    """A source that can be read once more from its start, up to where it was read before ``rewind``."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # The file outlives this function and is closed by __exit__.
        self._kept = tempfile.SpooledTemporaryFile(max_size=CSV_SPOOL_MEMORY_BYTES)  # noqa: SIM115
        self._recording = True

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kept.close()

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes: kept ones first, then those of the source."""
        if not self._recording:
            return self._kept.read(size) or self._source.read(size)
        data = self._source.read(size)
        self._kept.write(data)
        return data

    def rewind(self) -> None:
        """Start again at the first byte, and keep no more."""
        self._kept.seek(0)
        self._recording = False


class Records:
    """The records of a table, as lists of cells, with the line where each begins.

    Iterate over ``rows()`` and set ``consumed`` to ``lines_read`` after each row: what was read since then is one
    unfinished record, and must not grow without end.

    Raises ``UnreadableFileError``: ``line_too_long``, ``csv_unclosed_quote``.
    """

    def __init__(self, source: Source, head: Head, *, delimiter: str, carriage_returns: bool) -> None:
        self._source = source
        self.decoder = Decoder(head.encoding, fallback=head.encoding_fallback)
        self._carriage_returns = carriage_returns
        self._ends_in_line = False
        self.consumed = 0
        """Lines that belong to complete records."""
        self._lines_before_block = 0
        self._bytes_unfinished = 0
        self.reader = csv.reader(itertools.chain.from_iterable(self._blocks()), delimiter=delimiter, strict=False)

    def _blocks(self) -> Iterator[Iterator[str]]:
        """Whole lines, a block at a time, so that no Python code runs for a line."""
        rest = ""
        while True:
            data = self._source.read(FILE_PIECE_BYTES)
            text = self.decoder.decode(data, final=not data)
            if self._carriage_returns:
                text = text.replace("\r", "\n")
            cut = text.rfind("\n") + 1
            if cut:
                self._check_progress(len(rest) + cut)
                yield io.StringIO(rest + text[:cut], newline="\n")
                rest = text[cut:]
            else:
                rest += text
                if len(rest) > LINE_BYTES_MAX:
                    raise UnreadableFileError("line_too_long", f"a line is longer than {LINE_BYTES_MAX} bytes")
            if not data:
                break
        if rest:
            self._ends_in_line = True
            self._check_progress(len(rest))
            yield iter((rest,))
        if self.reader.line_num != self.consumed:
            raise UnreadableFileError("csv_unclosed_quote", "a quote is opened and never closed")

    def _check_progress(self, size: int) -> None:
        """Refuse when the record that was begun has swallowed too much."""
        if self.consumed > self._lines_before_block:
            self._bytes_unfinished = 0
        if self._bytes_unfinished > LINE_BYTES_MAX:
            raise UnreadableFileError("csv_unclosed_quote", f"a record is longer than {LINE_BYTES_MAX} bytes")
        self._lines_before_block = self.consumed
        self._bytes_unfinished += size

    def told(self) -> Iterator[Problem]:
        """Yield what is to be told when all of the file was read."""
        yield from self.decoder.told()
        if self._ends_in_line:
            yield Problem("incomplete_file", "info", detail="the last line has no end: the file may be cut off")

    def row_after_error(self, error: csv.Error) -> RecordError:
        """Turn an error of the row that could not be read into that record's rejection.

        Raises
        ------
        UnreadableFileError
            When it spans lines: an unclosed quote took its neighbours in.

        """
        if self.reader.line_num - self.consumed > 1:
            raise UnreadableFileError("csv_unclosed_quote", "a quote is opened and never closed") from error
        self.consumed = self.reader.line_num
        if "field limit" in str(error):
            return RecordError("field_too_long", f"a field is longer than {FIELD_BYTES_MAX} bytes")
        return RecordError("invalid_entry", "the line cannot be split into fields")


def check_width(row: list[str]) -> None:
    """Refuse a record with too many columns."""
    if len(row) > CSV_COLUMNS_MAX:
        raise UnreadableFileError("csv_too_many_columns", f"a record has more than {CSV_COLUMNS_MAX} columns")


def read_rows(records: Records) -> Iterator[Row]:
    """Yield each record with its line; a record that cannot be split, with why."""
    reader = records.reader
    while True:
        try:
            for row in reader:
                line = records.consumed + 1
                records.consumed = reader.line_num
                yield line, row
        except csv.Error as error:
            line = records.consumed + 1
            yield line, records.row_after_error(error)
        else:
            return


def without_footer(rows: Iterator[Row], count: int) -> Iterator[Row]:
    """Yield the rows, the last of them that are not blank into the footer."""
    held: deque[Row] = deque()
    for item in rows:
        if item[1]:
            held.append(item)
            if len(held) > count:
                yield held.popleft()
    for line, _ in held:
        yield line, RecordError(FOOTER_ROW)
