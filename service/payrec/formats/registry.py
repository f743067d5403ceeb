"""Reading a bank file: container, encoding, detection, the reader and the accounting, as one stream."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, Final

from payrec.constants import FILE_PROBLEMS_MAX
from payrec.domain.continuity import Continuity
from payrec.domain.statements import Entry, Parsed, Problem, Statement, StatementEnd
from payrec.errors import PayrecError, UnreadableFileError
from payrec.formats.account_names import kept_names
from payrec.formats.accounting import Accounting, Counts, TimeBudget
from payrec.formats.bai2.reader import READER as BAI2
from payrec.formats.base import Reader, ReadOptions, Source
from payrec.formats.camt.reader import READER as CAMT
from payrec.formats.containers import Container, Member, Opened, open_members
from payrec.formats.csv.reader import READER as CSV
from payrec.formats.detection import detect, look, with_tried
from payrec.formats.encoding import guess
from payrec.formats.json.reader import READER as JSON
from payrec.formats.mt940.reader import READER as MT940
from payrec.formats.ofx.reader import READER as OFX
from payrec.formats.psp.reader import READER as PSP
from payrec.formats.xlsx.reader import READER as XLSX

BLOCK_ITEMS: Final = 32
"""Entries that are read ahead of whoever asks for them."""

READERS: Final[tuple[Reader, ...]] = (CAMT, OFX, BAI2, MT940, JSON, PSP, XLSX, CSV)
"""In the order in which they are asked."""


@dataclass(slots=True)
class FileMember:
    """One file of a container."""

    name: str
    bytes: int = 0
    """Expanded bytes that were read."""
    skipped_by: str | None = None
    """The rule that left it out by its name."""


@dataclass(slots=True)
class ParsedFile:
    """What is known of a file; complete when all of it was read."""

    name: str
    format: str | None = None
    """Of the first member, where a container holds several."""
    version: str | None = None
    encoding: str | None = None
    encoding_guessed: bool = False
    dialect: dict[str, Any] | None = None
    container: Container | None = None
    members: list[FileMember] = field(default_factory=list)
    """The files of a container; empty for a file that is not one."""
    counts: Counts = field(default_factory=Counts)
    continuity: dict[int, Continuity] = field(default_factory=dict)
    """Whether each statement follows another one of its account in this file, by index; empty until all was read."""
    problems: list[Problem] = field(default_factory=list)
    """The first FILE_PROBLEMS_MAX."""
    problem_count: int = 0
    error: PayrecError | None = None
    """Why it could not be read to its end; the iteration raised it."""


class _Timed:
    """A source that looks at the clock with every piece: a reader that finds nothing to yield is stopped as well."""

    __slots__ = ("_budget", "_opened", "_source")

    def __init__(self, source: Source, budget: TimeBudget, opened: Opened) -> None:
        self._source = source
        self._budget = budget
        self._opened = opened

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._budget.check(self._opened.expanded_bytes)
        return data

    def expanded(self, size: int, /) -> None:
        self._opened.count(size)
        self._budget.check(self._opened.expanded_bytes)


class FileParse:
    """One pass over a file. Iterate it once; ``file`` is complete when the iteration is over."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        name: str,
        options: ReadOptions,
        monotonic: Callable[[], float],
        readers: Sequence[Reader] = READERS,
    ) -> None:
        self.file = ParsedFile(name)
        self._stream = stream
        self._options = options
        self._budget = TimeBudget(monotonic)
        self._readers = readers
        self._begun = False

    def __iter__(self) -> Iterator[Parsed]:
        """Yield statements, entries and problems, in file order.

        Raises
        ------
        UnreadableFileError
            At any point: the file cannot be read to its end, and what came so far is not to be kept.
        PayloadTooLargeError
            Too many records, or too many bytes after its container was opened.

        """
        if self._begun:
            raise RuntimeError("a file is read once")
        self._begun = True
        return chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[list[Parsed]]:
        """Yield some items at a time, and whatever is no entry without delay: the clock runs only in between."""
        budget = self._budget
        items = self._read()
        ended = False
        while not ended:
            block: list[Parsed] = []
            budget.resume()
            try:
                for item in items:
                    block.append(item)
                    if item.__class__ is not Entry or len(block) == BLOCK_ITEMS:
                        break
                else:
                    ended = True
            except PayrecError as error:
                self.file.error = error
                yield block
                raise
            finally:
                budget.pause()
            if block and isinstance(block[-1], Problem):
                self._keep(block[-1])
            yield block

    def _keep(self, problem: Problem) -> None:
        self.file.problem_count += 1
        if len(self.file.problems) < FILE_PROBLEMS_MAX:
            self.file.problems.append(problem)

    def _read(self) -> Iterator[Parsed]:
        file = self.file
        self._stream.seek(0, io.SEEK_SET)
        opened = open_members(self._stream, name=file.name)
        file.container = opened.container
        accounting = Accounting(budget=self._budget, bytes_read=lambda: opened.expanded_bytes)
        file.counts, file.continuity = accounting.counts, accounting.continuity
        read_any = False
        for member in opened.members:
            summary = FileMember(member.name, skipped_by=member.skipped_by)
            if opened.container is not None:
                file.members.append(summary)
            if member.source is None:
                continue
            read_any = True
            yield from self._read_member(member, opened, accounting)
            summary.bytes = member.bytes
        if not read_any:
            raise UnreadableFileError("empty_file", "the archive holds no file")
        yield from accounting.finish()

    def _settle_encoding(self, fallback: Callable[[bytes], str], seen: bytes) -> str:
        """Keep what the file turns out to be behind its head; also for whoever saves its dialect as a profile."""
        file = self.file
        file.encoding, file.encoding_guessed = fallback(seen), True
        if file.dialect is not None and "encoding" in file.dialect:
            file.dialect["encoding"] = file.encoding
        return file.encoding

    def _read_member(self, member: Member, opened: Opened, accounting: Accounting) -> Iterator[Parsed]:
        assert member.source is not None  # the caller leaves out members without one
        file = self.file
        source = _Timed(member.source, self._budget, opened)
        tried: list[dict[str, str]] = []
        head, rewound = look(source, self._options, inside=opened.container is not None)
        reader, detected = detect(head, self._options, self._readers)
        if file.format is None:
            file.format, file.version, file.dialect = detected.format, detected.version, detected.dialect
            file.encoding, file.encoding_guessed = head.encoding, head.encoding_guessed
            if head.encoding_fallback is not None:
                head = replace(head, encoding_fallback=partial(self._settle_encoding, head.encoding_fallback))
        if head.encoding_guessed:
            yield guess(head.encoding)
        tried.append({"format": detected.format, "reason": "refused"})
        first_index = accounting.counts.statements
        try:
            items = reader.read(rewound, head, detected, self._options)
            if self._options.accounts:
                items = kept_names(items, self._options.accounts)
            yield from accounting.account(_shifted(items, first_index) if first_index else items)
        except UnreadableFileError as error:
            tried[-1]["reason"] = error.reason
            raise with_tried(error, tried) from error


def _shifted(items: Iterator[Parsed], first_index: int) -> Iterator[Parsed]:
    """Go on numbering the statements over the members of a container.

    A reader numbers from 0 and may look at ``Statement.index`` again, so whenever it goes on the number is its own,
    and whenever the consumer looks it is the file's.
    """
    active: dict[int, Statement] = {}
    for item in items:
        if isinstance(item, Statement):
            active[item.index] = item
        elif isinstance(item, StatementEnd):
            statement = active.pop(item.statement.index, None)
            if statement is not None:
                statement.index += first_index
        elif item.statement is not None:
            item.statement += first_index
        for statement in active.values():
            statement.index += first_index
        yield item
        for statement in active.values():
            statement.index -= first_index


def parse(stream: BinaryIO, *, name: str, options: ReadOptions, monotonic: Callable[[], float]) -> FileParse:
    """Return a pass over the file, not begun yet.

    Parameters
    ----------
    stream
        Seekable; read from its start.
    name
        For people only; it decides nothing.
    options
        What the caller knows about the file.
    monotonic
        Seconds of a clock that never goes back, for the time limit.

    """
    return FileParse(stream, name=name, options=options, monotonic=monotonic)
