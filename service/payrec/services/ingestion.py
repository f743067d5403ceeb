"""From a file to rows that can be loaded: read, count, and render in pieces. Blocking; runs in a thread."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, BinaryIO, Final
from uuid import UUID

from payrec.domain.caller import IdSource
from payrec.domain.continuity import FINDINGS
from payrec.domain.incoming_transactions import identity_before, identity_of, key_columns, stored_columns
from payrec.domain.statements import Entry, Problem, StatementEnd
from payrec.formats.base import ReadOptions
from payrec.formats.registry import FileParse, parse
from payrec.services.statements import statement_row
from payrec.storage.copy_text import problem_line
from payrec.storage.pieces import Piece, PieceWriter, Stamp

PIECE_ROWS: Final = 5_000
"""Rows of a piece: enough for set statements to pay, few enough to stay in memory."""

BLOCK_ROWS: Final = 125
"""Entries that are held, and then rendered at once: so few that the collector of garbage never sees them."""

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of rendered problems that stay in memory; more goes to a file of the same life."""


class Ingestion:
    """One reading of a file. ``pieces`` is iterated once; the rest is complete when the iteration is over."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        name: str,
        options: ReadOptions,
        import_id: UUID,
        ids: IdSource,
        monotonic: Callable[[], float],
    ) -> None:
        self._parse: FileParse = parse(stream, name=name, options=options, monotonic=monotonic)
        self._import_id = import_id
        self._ids = ids
        self.file = self._parse.file
        self.problems: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by __exit__
            max_size=SPOOL_MEMORY_BYTES
        )
        """Every problem, as COPY text."""
        self._problem_count = 0
        self.statements: list[dict[str, Any]] = []
        self.transactions = 0

    def __enter__(self) -> Ingestion:
        return self

    def __exit__(self, *_: object) -> None:
        self.problems.close()

    def pieces(self, stamp: Stamp) -> Iterator[Piece]:
        """Yield the rows, PIECE_ROWS at a time.

        Raises
        ------
        UnreadableFileError, PayloadTooLargeError, ValidationFailedError
            The file or its profile; nothing of it is to be kept.
        """
        entries: list[Entry] = []
        writer = PieceWriter(stamp)
        read = 0
        block = min(BLOCK_ROWS, PIECE_ROWS)
        next_id = self._ids.block(PIECE_ROWS + block)
        for item in self._parse:
            if item.__class__ is Entry:
                entries.append(item)
                if len(entries) == block:
                    _render(entries, writer, next_id)
                    next_id += block
                    entries.clear()
                    read += block
                    if read >= PIECE_ROWS:
                        self.transactions += read
                        yield writer.take()
                        read = 0
                        next_id = self._ids.block(PIECE_ROWS + block)
            elif isinstance(item, Problem):
                # How statements follow each other is judged with those that are stored, not with the file's alone.
                if item.code not in FINDINGS.values():
                    self.tell(item)
            elif isinstance(item, StatementEnd):
                self.statements.append(statement_row(item.statement, self._import_id))
        if entries:
            _render(entries, writer, next_id)
        if read + len(entries):
            self.transactions += read + len(entries)
            yield writer.take()

    def tell(self, problem: Problem) -> None:
        """Add a problem to those of the file; also after it was read."""
        line = problem_line(problem, import_id=self._import_id, ordinal=self._problem_count)
        self.problems.write(line.encode())
        self._problem_count += 1


def _render(entries: Sequence[Entry], writer: PieceWriter, first_id: int) -> None:
    identities = list(map(identity_of, entries))
    ids = [f"{transaction_id:032x}" for transaction_id in range(first_id, first_id + len(entries))]
    writer.add(
        stored_columns(entries, transaction_ids=ids, identities=identities),
        key_columns(entries, identities=identities),
        before=list(map(identity_before, entries)),
    )
