"""A file read for somebody who looks at it: totals, checks, duplicates and problems, and nothing is stored.

What ``payrec parse`` prints and the preview of an upload answers comes from here; a sink decides how it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from payrec.constants import UPLOAD_BYTES_MAX
from payrec.domain.continuity import Continuity
from payrec.domain.statements import Entry, Problem, Skipped, Statement, StatementEnd
from payrec.errors import PayloadTooLargeError, UnreadableFileError
from payrec.formats.base import ReadOptions
from payrec.formats.registry import parse
from payrec.services.parse_duplicates import DuplicateCounter
from payrec.services.parse_rendering import (
    SCHEMA_VERSION,
    counts_document,
    error_document,
    file_document,
    problem_of,
)

Verdict = Callable[[int], Continuity]
"""Tells the continuity of a statement by its index; only the whole file shows it."""


class ParseSink(Protocol):
    """Where a file goes while it is read, in the order of the file."""

    def begin(self, statement: Statement) -> None:
        """Take a statement that begins; its totals and balances come later."""
        ...

    def entry(self, entry: Entry) -> None:
        """Take an entry; entries of several statements may come in turns."""
        ...

    def end(self, statement: Statement) -> None:
        """Take a statement of which all but its continuity is known."""
        ...

    def problem(self, problem: Problem) -> None:
        """Take a problem, or a record that was left out."""
        ...

    def finish(self, facts: dict[str, Any], verdict: Verdict) -> None:
        """Take what is known of the whole file; nothing comes after it."""
        ...


class ParseReport:
    """One reading of a file, told to a sink. Blocking."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        name: str,
        size: int,
        sha256: str | None,
        options: ReadOptions,
        monotonic: Callable[[], float],
        size_max: int = UPLOAD_BYTES_MAX,
    ) -> None:
        self._size_max = size_max
        self._parse = parse(stream, name=name, options=options, monotonic=monotonic)
        self._size = size
        self._sha256 = sha256
        self.error: UnreadableFileError | PayloadTooLargeError | None = None
        """Why the file could not be read to its end; what was told of it until then stands for nothing."""
        self.rejected = 0
        """Records that were rejected."""

    def tell(self, sink: ParseSink, *, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Read the file and tell the sink; ends early and tells no more once it is cancelled.

        Raises
        ------
        ValidationFailedError
            The profile is wrong.
        """
        open_statements: dict[int, Statement] = {}
        with DuplicateCounter() as duplicates:
            try:
                self._check_size()
                for count, item in enumerate(self._parse):
                    if not count & 0x3FF and is_cancelled():
                        return
                    if isinstance(item, Entry):
                        duplicates.add(item)
                        sink.entry(item)
                    elif isinstance(item, Problem):
                        sink.problem(item)
                    elif isinstance(item, Skipped):
                        sink.problem(problem_of(item))
                    elif isinstance(item, StatementEnd):
                        del open_statements[item.statement.index]
                        duplicates.end(item.statement)
                        sink.end(item.statement)
                    else:
                        open_statements[item.index] = item
                        duplicates.begin(item)
                        sink.begin(item)
            except (UnreadableFileError, PayloadTooLargeError) as error:
                self.error = error
                for index, statement in open_statements.items():
                    # Its reader, which stopped in the midst of it, may count from another number.
                    statement.index = index
                    sink.end(statement)
            sink.finish(self._facts(duplicates), self._continuity)

    def _check_size(self) -> None:
        if self._size > self._size_max:
            raise PayloadTooLargeError(f"a file may have at most {self._size_max} bytes")

    def _continuity(self, index: int) -> Continuity:
        return self._parse.file.continuity.get(index, "not_available")

    def _facts(self, duplicates: DuplicateCounter) -> dict[str, Any]:
        file = self._parse.file
        self.rejected = file.counts.rejected
        return {
            "schemaVersion": SCHEMA_VERSION,
            "outcome": "read" if self.error is None else "unreadable",
            "file": file_document(file, size=self._size, sha256=self._sha256),
            "format": file.format,
            "formatVersion": file.version,
            "encoding": file.encoding,
            "dialect": file.dialect,
            "counts": counts_document(file, duplicates=duplicates.count()),
            "error": None if self.error is None else error_document(self.error),
        }
