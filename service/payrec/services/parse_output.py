"""A file as JSON, written while it is read: as one document, or a line for each thing.

Whether a statement goes on from the one before it is known only at the end of the file, and rows of several accounts
come in turns. So in the document one statement is written at once, and what belongs to later ones waits in a temporary
file. Nothing is held in memory but that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from payrec.domain.statements import Entry, Problem, Statement
from payrec.services.parse_rendering import entry_document, problem_document, statement_document
from payrec.services.parse_report import Verdict
from payrec.services.spool import SegmentedSpool

Write = Callable[[bytes], object]

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of statements that wait in memory while another one is written; more goes to a temporary file."""
_PROBLEMS: Final = 0
"""Sequence of the spool; that of a statement is its index and one."""


def encoded(document: dict[str, Any]) -> bytes:
    """Return a document as JSON, four times as fast as the standard library does."""
    return to_json(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How much of a file a document shows; what it counts is always all of it."""

    entries_per_statement: int
    statements: int
    problems_per_code: int
    """So that a problem that every line has does not hide the others."""
    problems: int
    bytes: int
    """Of statements and their entries; the one that goes beyond is the last."""


class JsonDocument:
    """Writes one document: ``statements`` first, then ``problems``, then what is known at the end."""

    def __init__(self, write: Write, *, with_entries: bool = True, shown: Shown | None = None) -> None:
        self._write = write
        self._with_entries = with_entries
        self._shown = shown
        self._spool = SegmentedSpool(memory_bytes=SPOOL_MEMORY_BYTES)
        self._begun = 0
        self._at = 0
        """The statement that is written at once; those before it are written."""
        self._settled: set[int] = set()
        """Statements after it that are all there, because no other one of the file says anything about them."""
        self._problems: Counter[str] = Counter()
        self._bytes = 0
        write(b'{"statements":[')

    def __enter__(self) -> JsonDocument:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.__exit__()

    def begin(self, statement: Statement) -> None:
        """Open a statement."""
        if self._shown is not None and (self._begun >= self._shown.statements or self._bytes > self._shown.bytes):
            return
        if statement.index and statement.index == self._at:
            self._write(b",")
        self._begun += 1
        self._put(statement.index, b'{"index":%d,"entries":[' % statement.index)

    def entry(self, entry: Entry) -> None:
        """Add an entry to its statement."""
        if not self._with_entries or entry.statement >= self._begun:
            return
        shown = self._shown
        if shown is not None and (entry.index >= shown.entries_per_statement or self._bytes > shown.bytes):
            return
        self._put(entry.statement, (b"," if entry.index else b"") + encoded(entry_document(entry)))

    def end(self, statement: Statement) -> None:
        """Write what is known of a statement now that its entries are."""
        if statement.index >= self._begun:
            return
        # Its index stands there already, and its checks wait for one more.
        self._put(statement.index, b"]," + encoded(statement_document(statement)).partition(b",")[2][:-2])
        if statement.kind != "statement":
            self._settled.add(statement.index)
            while self._at in self._settled:
                self._settled.remove(self._at)
                self._close("not_available")

    def problem(self, problem: Problem) -> None:
        """Keep a problem for after the statements."""
        told, shown = self._problems, self._shown
        if shown is not None and (told[problem.code] >= shown.problems_per_code or told.total() >= shown.problems):
            return
        self._spool.append(_PROBLEMS, (b"," if told else b"") + encoded(problem_document(problem)))
        told[problem.code] += 1

    def finish(self, facts: dict[str, Any], verdict: Verdict) -> None:
        """Write what waited, and the facts."""
        while self._at < self._begun:
            self._close(verdict(self._at))
        self._write(b'],"problems":[')
        self._copy(_PROBLEMS)
        self._write(b"]," + encoded(facts)[1:] + b"\n")

    def _put(self, index: int, data: bytes) -> None:
        self._bytes += len(data)
        if index == self._at:
            self._write(data)
        else:
            self._spool.append(index + 1, data)

    def _close(self, continuity: str) -> None:
        """End the statement that is written, and go on with the next one: with what waits of it."""
        self._write(b',"continuity":"%s"}}' % continuity.encode())
        self._at += 1
        if self._at < self._begun:
            self._write(b",")
            self._copy(self._at + 1)

    def _copy(self, sequence: int) -> None:
        for data in self._spool.read(sequence):
            self._write(data)


class JsonLines:
    """Writes a line for each entry and problem as it comes, then one for each statement, then one for the file."""

    def __init__(self, write: Write, *, with_entries: bool = True) -> None:
        self._write = write
        self._with_entries = with_entries
        self._spool = SegmentedSpool(memory_bytes=SPOOL_MEMORY_BYTES)
        self._begun = 0

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.__exit__()

    def begin(self, statement: Statement) -> None:  # noqa: ARG002 - the sink's parameter
        """Count a statement; its line comes when all of it is known."""
        self._begun += 1

    def entry(self, entry: Entry) -> None:
        """Write an entry."""
        if self._with_entries:
            self._line({"type": "entry", "statement": entry.statement, **entry_document(entry)})

    def end(self, statement: Statement) -> None:
        """Keep a statement until its continuity is known."""
        self._spool.append(statement.index, encoded({"type": "statement", **statement_document(statement)})[:-2])

    def problem(self, problem: Problem) -> None:
        """Write a problem."""
        self._line({"type": "problem", **problem_document(problem)})

    def finish(self, facts: dict[str, Any], verdict: Verdict) -> None:
        """Write the statements, in their order, and the facts."""
        for index in range(self._begun):
            for data in self._spool.read(index):
                self._write(data)
            self._write(b',"continuity":"%s"}}\n' % verdict(index).encode())
        self._line({"type": "file", **facts})

    def _line(self, document: dict[str, Any]) -> None:
        self._write(encoded(document) + b"\n")
