"""Files of expected transactions: read record by record as requests are, and stored as sets."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any, BinaryIO, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.domain.statements import Problem
from payrec.errors import FieldError, PayrecError, UnavailableError, ValidationFailedError
from payrec.formats.accounting import Counts
from payrec.formats.base import RecordError
from payrec.formats.records import RecordFile
from payrec.metrics import Metrics
from payrec.models.expected_transactions import ExpectedTransactionCreate, ExpectedUploadOptions
from payrec.models.imports import ImportPublic
from payrec.services.auto_runs import match_soon
from payrec.services.expected_rows import Stated, rows_of, stated
from payrec.services.import_rendering import ERRORS_SHOWN_MAX, rendered_imports
from payrec.services.validation import validated
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.copy_text import problem_line
from payrec.storage.expected_loading import ExpectedLoadingStore
from payrec.storage.expected_transactions import ExpectedTransactionStore
from payrec.storage.imports import ImportStore
from payrec.storage.jobs import JobStore
from payrec.storage.loading import LOADING_ATTEMPTS_MAX, ContendedError

PIECE_RECORDS: Final = 5_000
"""Records that are looked up and stored together."""

SPOOL_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of rendered problems that stay in memory; more goes to a file of the same life."""

FIELDS_TOLD_MAX: Final = 5
"""Wrong fields of one record that its problem names."""

_NAMES: Final = {
    field.alias or name: name for name, field in ExpectedTransactionCreate.model_fields.items() if name != "metadata"
}
_INTEGERS: Final = frozenset(alias for alias, name in _NAMES.items() if name.endswith("_minor"))
_DEFAULTS: Final = ("account", "currency", "direction")
"""Options that stand for what a record does not say."""


class ExpectedUploads:
    """Loads a file of expected transactions: its effect, the end of its import and of its job in one transaction."""

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
    ) -> ImportPublic:
        """Read a file and load it; ``row`` is its import.

        Raises
        ------
        UnreadableFileError, ValidationFailedError, PayloadTooLargeError
            Nothing of the file is stored.
        LostLeaseError
            Another worker does it, or it was cancelled.
        UnavailableError
            It cannot be loaded now: a worker tries again.
        """
        for care in range(1, LOADING_ATTEMPTS_MAX + 1):
            with _Reading(stream, row, monotonic=self._work.clock.monotonic) as reading:
                try:
                    return await self._load(
                        caller,
                        scope,
                        row,
                        reading,
                        attempt=attempt,
                        progress=progress,
                        alone=care == LOADING_ATTEMPTS_MAX,
                    )
                except ContendedError:
                    continue
        raise UnavailableError("somebody else changes the same rows")

    async def _load(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        reading: _Reading,
        *,
        attempt: int,
        progress: Progress,
        alone: bool,
    ) -> ImportPublic:
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            loading = ExpectedLoadingStore(unit.connection)
            await loading.begin(alone=alone)
            while piece := await _read(reading):
                await self._store(unit, reading, piece)
                progress.reach(reading.counts.records)
            if row["options"].get("mode") == "all_or_nothing" and reading.counts.rejected:
                raise reading.refusal()
            values = reading.values()
            await loading.finish(values["accepted"])
            store = ImportStore(unit.connection)
            if not await store.complete(row["id"], values, at=unit.now):
                raise LostLeaseError
            reading.problems.seek(0)
            await store.add_problems(reading.problems)
            result = {"importId": str(row["id"]), "accepted": values["accepted"], "duplicates": values["duplicates"]}
            done = values["records"]
            jobs = JobStore(unit.connection)
            if not await jobs.finish(row["job_id"], attempt=attempt, now=unit.now, result=result, done=done):
                raise LostLeaseError
            stored = await store.get(row["id"])
            public = (await rendered_imports(unit.connection, [stored or row]))[0]
            unit.record(Record(action="import.completed", resource_id=row["id"], after=values))
            unit.record(Record(action="job.succeeded", resource_id=row["job_id"]))
            unit.answer(201, public, public.headers)
            if values["accepted"]:
                await match_soon(unit, self._work.ids.new())
        for outcome in ("accepted", "duplicates", "skipped", "rejected"):
            self._metrics.records.labels(outcome=outcome).inc(values[outcome])
        self._logger.info("import.completed", import_id=str(row["id"]), **values)
        return public

    async def _store(self, unit: Unit, reading: _Reading, piece: list[tuple[int, Stated]]) -> None:
        """Store what of a piece is not there yet."""
        names = [item.given.external_id for _, item in piece if item.given.external_id is not None]
        known = await ExpectedTransactionStore(unit.connection).known(names)
        new = reading.without_known(piece, known)
        first_id = self._work.ids.block(len(new) or 1)
        rows, opened = await asyncio.to_thread(rows_of, new, first_id=first_id, at=unit.now, change_id=unit.change_id)
        await ExpectedLoadingStore(unit.connection).add(rows, opened)


class _Reading:
    """One reading of a file, by the fields and rules of requests; counts what becomes of each record."""

    def __init__(self, stream: BinaryIO, row: dict[str, Any], *, monotonic: Any) -> None:
        options = ExpectedUploadOptions.model_validate(row["options"], by_name=True)
        self._import_id: UUID = row["id"]
        self._defaults = {name: value for name in _DEFAULTS if (value := getattr(options, name)) is not None}
        self._file = RecordFile(
            stream,
            name=row["name"],
            format=options.format,
            fields=frozenset(_NAMES),
            integers=_INTEGERS,
            monotonic=monotonic,
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

    def __enter__(self) -> _Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.problems.close()

    def piece(self) -> list[tuple[int, Stated]]:
        """Return the next records that are right, with their lines; none when the file is over. Blocking.

        Raises
        ------
        UnreadableFileError, PayloadTooLargeError
            The file; nothing of it is to be kept.
        """
        found: list[tuple[int, Stated]] = []
        while not found:
            taken = list(islice(self._records, PIECE_RECORDS))
            if not taken:
                break
            found = list(self._right(taken))
        return found

    def _right(self, taken: list[tuple[int, Any]]) -> Iterator[tuple[int, Stated]]:
        for line, record in taken:
            if isinstance(record, Problem):
                self._tell(record)
                continue
            try:
                yield line, self._stated(record)
                self.counts.accepted += 1
            except (RecordError, PayrecError) as error:
                self._reject(line, error)

    def _stated(self, record: Any) -> Stated:
        if isinstance(record, RecordError):
            raise record
        if not isinstance(record, dict):
            raise RecordError("invalid_entry", "an expected transaction is an object")
        found = stated(
            validated(
                ExpectedTransactionCreate, {**self._defaults, **{k: v for k, v in record.items() if v is not None}}
            )
        )
        if found.given.external_id is None:
            raise RecordError("missing_external_id", "a record of a file needs an externalId, which it is known by")
        return found

    def without_known(self, piece: list[tuple[int, Stated]], known: dict[str, dict[str, Any]]) -> list[Stated]:
        """Return those of a piece that are new; one that says something else than what is there is rejected."""
        new: list[Stated] = []
        there = {name: (row["direction"], row["amount_minor"], row["currency"]) for name, row in known.items()}
        for line, item in piece:
            name = item.given.external_id or ""
            says = (item.given.direction, item.amount_minor, item.given.currency)
            if name not in there:
                there[name] = says
                new.append(item)
                continue
            self.counts.accepted -= 1
            if there[name] == says:
                self.duplicates += 1
            else:
                detail = "the externalId is there already, with another amount, currency or direction"
                self._reject(line, RecordError("duplicate_external_id", detail))
        return new

    def values(self) -> dict[str, Any]:
        """Return what the import tells of the file that was read."""
        return {
            "format": self._file.file.format,
            "format_version": None,
            "encoding": self._file.file.encoding,
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

    def _reject(self, line: int, error: RecordError | PayrecError) -> None:
        code, detail = error.code, error.detail
        if isinstance(error, PayrecError) and error.errors:
            code = error.errors[0].code
            detail = "; ".join(f"{field.pointer}: {field.detail}" for field in error.errors[:FIELDS_TOLD_MAX])
        self.counts.rejected += 1
        if len(self._first) < ERRORS_SHOWN_MAX:
            self._first.append(FieldError(pointer=f"/line/{line}", code=code, detail=detail))
        self._tell(Problem(code, "error", rejects=True, line=line, detail=detail))

    def _tell(self, problem: Problem) -> None:
        line = problem_line(problem, import_id=self._import_id, ordinal=self._problem_count)
        self.problems.write(line.encode())
        self._problem_count += 1


async def _read(reading: _Reading) -> list[tuple[int, Stated]]:
    """Return the next piece of a reading."""
    coming = asyncio.create_task(asyncio.to_thread(reading.piece))
    try:
        return await asyncio.shield(coming)
    finally:
        # The thread cannot be stopped; whoever closes the file must know that nobody reads it any more.
        await asyncio.wait([coming])
        if not coming.cancelled():
            coming.exception()
