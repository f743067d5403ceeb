"""From a file to rows that can be loaded: read, count, and render in pieces. Blocking; runs in a thread."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, BinaryIO, Final
from uuid import UUID

from payrec.domain.caller import IdSource
from payrec.domain.continuity import FINDINGS
from payrec.domain.incoming_transactions import identity_before, identity_of, key_columns, stored_columns
from payrec.domain.pages import Page, PageLine, page_line, page_of
from payrec.domain.statements import Entry, Problem, Statement, StatementEnd
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


class BelatedPagesError(Exception):
    """Rows were loaded as those of no page, and are on one: they are taken back, and the file is read once more."""


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
        pages: Mapping[int, Page] | None = None,
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
        self._pages = _Pages(pages or {})
        self.belated_pages = self._pages.belated
        """Statements whose end told that they are pages when some of their rows were yielded as if they were none.

        By index. Those rows are right only where the file is read once more, with these as ``pages``.
        """

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
        pages = self._pages
        read = 0
        block = min(BLOCK_ROWS, PIECE_ROWS)
        next_id = self._ids.block(PIECE_ROWS + block)
        for item in self._parse:
            if item.__class__ is Entry:
                entries.append(item)
                if len(entries) == block:
                    _render(entries, writer, next_id, pages)
                    next_id += block
                    entries.clear()
                    read += block
                    if read >= PIECE_ROWS:
                        self.transactions += read
                        yield writer.take(pages.take())
                        read = 0
                        next_id = self._ids.block(PIECE_ROWS + block)
            elif isinstance(item, Problem):
                # How statements follow each other is judged with those that are stored, not with the file's alone.
                if item.code not in FINDINGS.values():
                    self.tell(item)
            elif isinstance(item, Statement):
                pages.begin(item)
            elif isinstance(item, StatementEnd):
                pages.end(item.statement)
                self.statements.append(statement_row(item.statement, self._import_id))
        if entries:
            _render(entries, writer, next_id, pages)
        if read + len(entries):
            self.transactions += read + len(entries)
            yield writer.take(pages.take())

    def tell(self, problem: Problem) -> None:
        """Add a problem to those of the file; also after it was read."""
        line = problem_line(problem, import_id=self._import_id, ordinal=self._problem_count)
        self.problems.write(line.encode())
        self._problem_count += 1


class _Pages:
    """Which entries stand on pages of statements; those of one that may be a page are held until a piece ends."""

    def __init__(self, known: Mapping[int, Page]) -> None:
        self._known = known
        self._statements: dict[int, Statement] = {}
        """Those that are pages, or may be, by index; of entries that are held, or that are to come."""
        self._ended: list[int] = []
        self._held: list[tuple[str, Entry]] = []
        self._whole: set[int] = set()
        """Statements that go on, of which entries were taken as those of no page."""
        self.belated: dict[int, Page] = {}

    def begin(self, statement: Statement) -> None:
        """Take note of a statement that begins."""
        if statement.is_page is not False:
            self._statements[statement.index] = statement

    def add(self, entries: Sequence[Entry], ids: Sequence[str]) -> None:
        """Take note of entries, and of the ids of their rows."""
        if self._statements and (watched := self._statements.keys() - self._whole):
            found = zip(ids, entries, strict=True)
            self._held += [(row, entry) for row, entry in found if entry.statement in watched]

    def end(self, statement: Statement) -> None:
        """Take note that all of a statement is known; some of its entries may still come."""
        if statement.index in self._statements:
            self._ended.append(statement.index)
            if statement.index in self._whole and (page := self._page(statement.index)) is not None:
                self.belated[statement.index] = page

    def take(self) -> list[tuple[str, PageLine]]:
        """Return what stands on pages of the entries that were added since the last time; a piece ends."""
        pages = {index: self._page(index) for index in self._statements}
        found = []
        for row, entry in self._held:
            page = pages[entry.statement]
            if page is None:
                self._whole.add(entry.statement)
            elif (line := page_line(page, entry)) is not None:
                found.append((row, line))
        self._held.clear()
        for index in self._ended:
            del self._statements[index]
            self._whole.discard(index)
        self._ended.clear()
        return found

    def _page(self, index: int) -> Page | None:
        """Return the page that a statement is, as far as it is known; None for one that is none."""
        statement = self._statements[index]
        return self._known.get(index) or (page_of(statement) if statement.is_page else None)


def _render(entries: Sequence[Entry], writer: PieceWriter, first_id: int, pages: _Pages) -> None:
    identities = list(map(identity_of, entries))
    ids = [f"{transaction_id:032x}" for transaction_id in range(first_id, first_id + len(entries))]
    writer.add(
        stored_columns(entries, transaction_ids=ids, identities=identities),
        key_columns(entries, identities=identities),
        before=list(map(identity_before, entries)),
    )
    pages.add(entries, ids)
