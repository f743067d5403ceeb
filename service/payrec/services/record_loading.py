"""Files of the interface's own records: read record by record, counted, and loaded with as much care as it takes."""

from __future__ import annotations

import asyncio
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any, BinaryIO, Final, Generic, Self, TypeVar
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.money import MoneyError
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.domain.statements import Problem
from payrec.errors import FieldError, PayrecError, ValidationFailedError
from payrec.formats.accounting import Counts
from payrec.formats.base import RecordError
from payrec.formats.records import RecordFile
from payrec.metrics import Metrics
from payrec.models.common import minor_of
from payrec.models.expected_transactions import RecordFileOptions
from payrec.models.match_imports import MatchImportOptions
from payrec.services.import_rendering import ERRORS_SHOWN_MAX
from payrec.services.loading import with_care
from payrec.services.work import Work
from payrec.storage.copy_text import problem_line

T = TypeVar("T")
P = TypeVar("P")

PIECE_RECORDS: Final = 5_000
"""Records that are looked up and stored together."""

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of rendered problems that stay in memory; more goes to a file of the same life."""

FIELDS_TOLD_MAX: Final = 5
"""Wrong fields of one record that its problem names."""

_DEFAULTS: Final = ("account", "currency", "direction")
"""Options that stand for what a record does not say."""


class RecordReading(ABC, Generic[T]):
    """One reading of a file of records; counts what becomes of each."""

    def __init__(
        self,
        stream: BinaryIO,
        row: dict[str, Any],
        options: RecordFileOptions | MatchImportOptions,
        *,
        fields: frozenset[str],
        integers: frozenset[str],
        monotonic: Callable[[], float],
    ) -> None:
        self._import_id: UUID = row["id"]
        self.defaults = {name: value for name in _DEFAULTS if (value := getattr(options, name, None)) is not None}
        self._file = RecordFile(
            stream, name=row["name"], format=options.format, fields=fields, integers=integers, monotonic=monotonic
        )
        self._records = iter(self._file)
        self._problem_count = 0
        self._first: list[FieldError] = []
        self.problems: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by __exit__
            max_size=SPOOL_MEMORY_BYTES
        )
        """Every problem, as COPY text."""
        self.counts = Counts()
        self.duplicates = 0
        """Records that were right, and say again what is known."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.problems.close()

    @abstractmethod
    def understood(self, record: dict[str, Any]) -> T:
        """Return what a record says; ``record`` has no member that is null.

        Raises
        ------
        RecordError, PayrecError
            It is rejected.
        """

    async def next_piece(self) -> list[tuple[int, T]]:
        """Return the next records that are right, with their lines; none when the file is over.

        Raises
        ------
        UnreadableFileError, PayloadTooLargeError
            The file; nothing of it is to be kept.
        """
        coming = asyncio.create_task(asyncio.to_thread(self._piece))
        try:
            return await asyncio.shield(coming)
        finally:
            # The thread cannot be stopped; whoever closes the file must know that nobody reads it any more.
            await asyncio.wait([coming])
            if not coming.cancelled():
                coming.exception()

    def _piece(self) -> list[tuple[int, T]]:
        found: list[tuple[int, T]] = []
        while not found:
            taken = list(islice(self._records, PIECE_RECORDS))
            if not taken:
                break
            found = list(self._right(taken))
        return found

    def _right(self, taken: list[tuple[int, Any]]) -> Iterator[tuple[int, T]]:
        for line, record in taken:
            if isinstance(record, Problem):
                self._tell(record)
                continue
            try:
                yield line, self._understood(record)
                self.counts.accepted += 1
            except (RecordError, PayrecError) as error:
                self.reject(line, error)

    def _understood(self, record: Any) -> T:
        if isinstance(record, RecordError):
            raise record
        if not isinstance(record, dict):
            raise RecordError("invalid_entry", "a record is an object")
        return self.understood({name: value for name, value in record.items() if value is not None})

    def form(self) -> dict[str, Any]:
        """Return what the import tells of the file itself, once it was read."""
        file = self._file.file
        return {"format": file.format, "format_version": None, "encoding": file.encoding}

    def values(self) -> dict[str, Any]:
        """Return what the import tells of the file that was read."""
        return {
            **self.form(),
            "records": self.counts.records + self.duplicates,
            "accepted": self.counts.accepted,
            "duplicates": self.duplicates,
            "skipped": 0,
            "rejected": self.counts.rejected,
        }

    def refusal(self) -> ValidationFailedError:
        """Return why nothing is stored of a file that is to be stored whole."""
        detail = f"{self.counts.rejected} records were rejected, so nothing is stored"
        return ValidationFailedError(detail, errors=self._first)

    def repeated(self) -> None:
        """Note that a record that could be read says again what is known: the same again changes nothing."""
        self.counts.accepted -= 1
        self.duplicates += 1

    def refuse(self, line: int, error: RecordError | PayrecError) -> None:
        """Note that a record that could be read is not taken."""
        self.counts.accepted -= 1
        self.reject(line, error)

    def reject(self, line: int, error: RecordError | PayrecError) -> None:
        """Note that the record of a line is not taken."""
        code = error.code
        if isinstance(error, PayrecError) and error.errors:
            code = error.errors[0].code
        detail = told(error)
        self.counts.rejected += 1
        if len(self._first) < ERRORS_SHOWN_MAX:
            self._first.append(FieldError(pointer=f"/line/{line}", code=code, detail=detail))
        self._tell(Problem(code, "error", rejects=True, line=line, detail=detail))

    def _tell(self, problem: Problem) -> None:
        line = problem_line(problem, import_id=self._import_id, ordinal=self._problem_count)
        self.problems.write(line.encode())
        self._problem_count += 1


def told(error: RecordError | PayrecError) -> str:
    """Return what is said of a record that is wrong: of its first fields, what is wrong with each."""
    if isinstance(error, PayrecError) and error.errors:
        return "; ".join(f"{field.pointer}: {field.detail}" for field in error.errors[:FIELDS_TOLD_MAX])
    return error.detail


def minor_said(amount_minor: int | None, amount: str | None, currency: str, *, name: str = "amount") -> int:
    """Return what a record says of an amount, which is more than nothing; as ``minor_of``.

    Raises
    ------
    RecordError
    """
    try:
        return minor_of(amount_minor, amount, currency, least=1, name=name)
    except MoneyError as error:
        raise RecordError(error.code, f"/{name}: {error.detail}") from None


R = TypeVar("R", bound=RecordReading[Any])


class RecordUploads(ABC, Generic[R, P]):
    """Takes in files of records: of each its effect, the end of its import and of its job in one transaction."""

    def __init__(self, *, work: Work, metrics: Metrics) -> None:
        self._work = work
        self._metrics = metrics
        self._logger = structlog.get_logger("payrec.imports")

    async def load(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        *,
        attempt: int,
        stream: BinaryIO,
        progress: Progress,
    ) -> P:
        """Read a file and load it; ``row`` is its import.

        Raises
        ------
        UnreadableFileError, ValidationFailedError, ControlTotalsMismatchError, PayloadTooLargeError
            Nothing of the file is stored.
        LostLeaseError
            Another worker does it, or it was cancelled.
        UnavailableError
            It cannot be loaded now: a worker tries again.
        """

        async def load(*, alone: bool) -> P:
            with self._reading(stream, row) as reading:
                return await self._load(caller, scope, row, reading, attempt=attempt, progress=progress, alone=alone)

        return await with_care(load)

    @abstractmethod
    def _reading(self, stream: BinaryIO, row: dict[str, Any]) -> R:
        """Return a reading of a file from its beginning."""

    @abstractmethod
    async def _load(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        reading: R,
        *,
        attempt: int,
        progress: Progress,
        alone: bool,
    ) -> P:
        """Load what is read, in one transaction; ``alone`` where others have stored the same rows again and again."""
