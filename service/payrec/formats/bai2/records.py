"""The records of a BAI2 file: cut out of its lines, joined with their continuations, and read field by field.

Source: Cash Management Balance Reporting Specifications Version 2 (Bank Administration Institute; since 2008 ASC X9),
and what banks make of it: several records on a line, text that is wrapped without a continuation record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from payrec.constants import FIELD_BYTES_MAX

CODES: Final = frozenset({"01", "02", "03", "16", "49", "88", "98", "99"})

_AFTER_FIELDS: Final = re.compile(r"/\s*(?=(?:01|02|03|16|49|88|98|99)[,/])")
"""A slash ends a record without text, so whatever follows is the next one."""
_SHAPES: Final = (
    r"16,[0-9]{3},[+-]?[0-9]*\s*(?:/|,[ZSVDzsvd012]?\s*[,/])|49,[+-]?[0-9]*\s*,[0-9]*\s*/"
    r"|98,[+-]?[0-9]*\s*,[0-9]*\s*,[0-9]*\s*(?:/|$)|03,[^,/]+,(?:[A-Z]{3})?,"
)
"""A text may hold slashes, so what follows one there is the next record only if it has the whole shape of one."""
_AFTER_TEXT: Final = re.compile(rf"/(?:\s*(?={_SHAPES})|\s+(?=88,))")
_AFTER_TEXT_RUN_ON: Final = re.compile(rf"/\s*(?={_SHAPES}|88,)")
"""The same on a line that is known to hold several records."""
_BLANKS: Final = " \t\x1a"
_CODE_LENGTH: Final = len("88,")
_FULL_WIDTH: Final = 80
"""Characters of a line that is full: the text breaks there, within a word or not; a longer one was not broken so."""


class Record:
    """One logical record: itself and its continuations."""

    __slots__ = ("_before", "_tail", "_wraps", "code", "line", "physical", "segments", "size", "torn", "wrapped")

    def __init__(self, code: str, line: int, content: str) -> None:
        self.code = code
        self.line = line
        """Line of the file, from 1, where it begins."""
        self.segments = [content]
        """What follows the code, and what follows the code of each continuation. Cut off beyond FIELD_BYTES_MAX."""
        self.size = len(content)
        """Characters of all segments, those that were cut off included."""
        self.physical = 1
        """Records that a trailer counts: itself and its continuations."""
        self.wrapped = False
        """A line belongs to it that is no continuation record."""
        self.torn = False
        """The file ends within it."""
        self._wraps: list[str] = []
        self._tail = content
        self._before = _CODE_LENGTH
        """What came last, and how many characters stand before it on its line."""

    @property
    def too_long(self) -> bool:
        """Whether it is longer than what is kept."""
        return self.size > FIELD_BYTES_MAX

    @property
    def is_ended(self) -> bool:
        """Whether its last line has the slash that ends it."""
        return self._tail.rstrip(_BLANKS).endswith("/")

    def extend(self, content: str) -> None:
        """Add the content of a continuation record."""
        self.finish()
        self.physical += 1
        self.size += len(content) + 1
        if not self.too_long:
            self.segments.append(content)
        self._tail = content
        self._before = _CODE_LENGTH

    def wrap(self, line: str) -> None:
        """Add a line that goes on where the last one broke off: behind a full line without a blank."""
        self.wrapped = True
        self.size += len(line) + 1
        if not self.too_long:
            self._wraps += ("" if self._before + len(self._tail) == _FULL_WIDTH else " ", line)
        self._tail = line
        self._before = 0

    def finish(self) -> None:
        """Put the last segment together."""
        if self._wraps:
            self.segments[-1] = "".join((self.segments[-1], *self._wraps))
            self._wraps = []


class Stray:
    """A line that belongs to no record."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        self.line = line


class RunOn:
    """A line holds several records; told once."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        self.line = line


def records_of(pieces: Iterable[list[str]]) -> Iterator[list[Record | Stray | RunOn]]:
    """Yield the complete records of one piece of the file after the other, with their continuations.

    A continuation without a record to continue is a record of its own.
    """
    cutter = _Cutter()
    for lines in pieces:
        cutter.feed(lines)
        yield cutter.take()
    cutter.close()
    yield cutter.take()


class _Cutter:
    """The state between two lines: the record that may go on, and where the file is."""

    def __init__(self) -> None:
        self._out: list[Record | Stray | RunOn] = []
        self._open: Record | None = None
        self._line = 0
        self._run_on_told = False
        self._last = ""

    def take(self) -> list[Record | Stray | RunOn]:
        out, self._out = self._out, []
        return out

    def feed(self, lines: list[str]) -> None:
        number = self._line
        for line in lines:
            number += 1
            if line[:2] not in CODES:
                line = line.strip(_BLANKS)  # noqa: PLW2901  # the same line
            slash = line.find("/")
            if slash in (-1, len(line) - 1) or slash >= len(line.rstrip(_BLANKS)) - 1:
                self._add(line, number)
            else:
                self._add_several(line, number)
        self._line = number
        if lines:
            self._last = lines[-1]

    def close(self) -> None:
        """End the file: its last line is torn when it has neither a newline nor the end of a record."""
        if self._open is not None:
            self._open.torn = bool(self._last.strip(_BLANKS)) and not self._open.is_ended
            self._end_record()

    def _add_several(self, line: str, number: int) -> None:
        """Add the records of a line that has a slash within."""
        at = 0
        run_on = False
        while True:
            if line[at : at + 2] in ("16", "88"):
                after = _AFTER_TEXT_RUN_ON if run_on else _AFTER_TEXT
            elif line[at : at + 2] in CODES:
                after = _AFTER_FIELDS
            else:
                after = _AFTER_TEXT
            found = after.search(line, at)
            if found is None:
                break
            self._add(line[at : found.start() + 1], number)
            at = found.end()
            run_on = True
        self._add(line[at:], number)
        if run_on and not self._run_on_told:
            self._run_on_told = True
            self._out.append(RunOn(number))

    def _add(self, line: str, number: int) -> None:
        code = line[:2]
        opened = self._open
        if code in CODES and line[2:3] in (",", "/"):
            content = line[3:] if line[2] == "," else "/"
            if code == "88" and opened is not None:
                opened.extend(content)
                return
            self._end_record()
            self._open = Record(code, number, content)
        elif not line or line.isspace():
            return
        elif opened is not None and not opened.is_ended:
            opened.wrap(line)
        else:
            self._out.append(Stray(number))

    def _end_record(self) -> None:
        if self._open is not None:
            self._open.finish()
            self._out.append(self._open)
            self._open = None


class Fields:
    """Reads a record field by field, over its continuations."""

    __slots__ = ("_at", "_index", "_segment", "_segments", "stray")

    def __init__(self, record: Record) -> None:
        self._segments = record.segments
        self._index = 0
        self._at = 0
        self._segment: str | None = record.segments[0]
        self.stray = False
        """Something stands behind the slash that ends the record."""

    def next(self, *, required: bool = False, slashes: bool = False) -> str:
        """Return the next field without blanks around it, nothing when the record is over.

        ``required`` says that it is not empty: an empty one at the end of a line is what a continuation fills in.
        ``slashes`` says that it may have some, as a reference has: those before a comma, or the last one, end nothing.
        """
        while True:
            segment = self._segment
            if segment is None:
                self._index += 1
                if self._index >= len(self._segments):
                    return ""
                segment = self._segment = self._segments[self._index]
                self._at = 0
            comma = segment.find(",", self._at)
            slash = segment.find("/", self._at, comma if comma >= 0 else len(segment))
            if slashes and slash >= 0:
                bare = segment.rstrip(_BLANKS)
                slash = -1 if comma >= 0 else len(bare) - 1 if bare.endswith("/") else slash
            if slash >= 0:
                field = segment[self._at : slash]
                self.stray |= bool(segment[slash + 1 :].strip(_BLANKS))
                self._segment = None
            elif comma >= 0:
                field = segment[self._at : comma]
                self._at = comma + 1
            else:
                field = segment[self._at :]
                self._segment = None
            field = field.strip()
            if field or not required or self._segment is not None or self._index + 1 >= len(self._segments):
                return field

    def text(self) -> str:
        """Return the rest of the record, which is a text: commas and slashes are part of it."""
        if self._segment is None:
            return join_text(self._segments, self._index + 1, 0)
        return join_text(self._segments, self._index, self._at)

    def has_more(self) -> bool:
        """Tell whether anything is left."""
        return self._segment is not None or self._index + 1 < len(self._segments)


def join_text(segments: list[str], first: int, at: int) -> str:
    """Join a text that begins in segment ``first``, at the character ``at``.

    Behind a full line goes no blank, behind a shorter or an ended one there does.
    """
    pieces: list[str] = []
    for segment in segments[first:]:
        bare = segment[at:].rstrip(_BLANKS)
        if bare.endswith("/"):
            pieces += (bare[:-1], " ")
        else:
            pieces += (segment[at:], "" if len(segment) == _FULL_WIDTH - _CODE_LENGTH else " ")
        at = 0
    return "".join(pieces)
