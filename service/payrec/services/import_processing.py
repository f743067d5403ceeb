"""Reading a stored file and loading it: its effect, the end of its import and of its job in one transaction."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from typing import Any, BinaryIO, Final

import structlog

from payrec.constants import CONTINUITY_STATEMENTS_MAX, FILE_ACCOUNTS_MAX
from payrec.domain.blobs import Blob
from payrec.domain.caller import Caller
from payrec.domain.disk import disk_room
from payrec.domain.pages import Page
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.domain.statements import Problem
from payrec.errors import (
    FieldError,
    NotFoundError,
    PayloadTooLargeError,
    PayrecError,
    UnavailableError,
    UnprocessableError,
    ValidationFailedError,
)
from payrec.metrics import Metrics
from payrec.models.imports import ImportPublic, UploadOptions
from payrec.models.snapshots import SnapshotPublic
from payrec.services.accounts import move_openings, name_accounts
from payrec.services.auto_runs import match_soon
from payrec.services.data_source_status import follow_import
from payrec.services.expected_uploads import ExpectedUploads
from payrec.services.import_ends import count_records, end_job
from payrec.services.import_rendering import ERRORS_SHOWN_MAX, EXPECTED, MATCHES, SNAPSHOT, rendered_imports
from payrec.services.ingestion import BelatedPagesError, Ingestion
from payrec.services.jobs import end_without_effect
from payrec.services.match_imports import MatchImports
from payrec.services.read_options import read_options
from payrec.services.snapshot_loading import SnapshotUploads
from payrec.services.statements import store_statements
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.accounts import AccountStore
from payrec.storage.idempotency import IdempotencyStore
from payrec.storage.imports import ImportStore
from payrec.storage.loading import ContendedError
from payrec.storage.period_locks import hold_periods
from payrec.storage.pieces import Piece, Stamp
from payrec.storage.staging import Care, Staging


class ImportProcessor:
    """Does the work of an import, within a request or as a job."""

    def __init__(self, *, work: Work, metrics: Metrics) -> None:
        self._work = work
        self._metrics = metrics
        self._records: dict[str, ExpectedUploads | SnapshotUploads | MatchImports] = {
            EXPECTED: ExpectedUploads(work=work, metrics=metrics),
            SNAPSHOT: SnapshotUploads(work=work, metrics=metrics),
            MATCHES: MatchImports(work=work, metrics=metrics),
        }
        self._logger = structlog.get_logger("payrec.imports")

    async def process(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        *,
        attempt: int,
        stream: BinaryIO,
        progress: Progress | None = None,
    ) -> ImportPublic | SnapshotPublic:
        """Read a file and load it; ``row`` is its import.

        Raises
        ------
        UnreadableFileError, ValidationFailedError, ControlTotalsMismatchError, PayloadTooLargeError
            After the import and its job were marked as failed; nothing else of the file is stored.
        LostLeaseError
            Another worker does it, or it was cancelled.
        StoppedError
            The keeper of ``progress`` said so.
        UnavailableError
            It cannot be loaded now: a worker tries again.
        """
        try:
            if (records := self._records.get(row["resource"])) is not None:
                with disk_room():
                    return await records.load(
                        caller, scope, row, attempt=attempt, stream=stream, progress=progress or Progress()
                    )
            async with self._work.database.tenant(scope, readonly=True) as connection:
                accounts = await AccountStore(connection).named_by_files()
            pages: dict[int, Page] = {}
            cares = list(Care)
            # The last one once more: that something is a page may turn out as late as that.
            for care in (*cares, cares[-1]):
                again = suppress(ContendedError, BelatedPagesError)
                with again, disk_room(), self._ingestion(row, stream, pages, accounts) as ingestion:
                    return await self._load(
                        caller, scope, row, ingestion, attempt=attempt, progress=progress or Progress(), care=care
                    )
                pages |= ingestion.belated_pages
            raise UnavailableError("somebody else changes the same rows")
        except (UnprocessableError, PayloadTooLargeError) as refusal:
            await self._fail(caller, scope, row, refusal, attempt=attempt)
            raise

    async def process_job(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Read the file of a job from the blob store and load it; raises as ``process``.

        Raises
        ------
        NotFoundError
            The file is not there any more.
        UnavailableError
            It cannot be read now: a worker tries again.
        """
        with disk_room(), tempfile.TemporaryFile() as stream:
            async with self._work.database.tenant(scope, readonly=True) as connection:
                row = await ImportStore(connection).of_job(job["id"])
                if row is None or row["blob_id"] is None:
                    raise NotFoundError("the file of this job is not there any more")
            blob = Blob(id=row["blob_id"], object_id=row["object_id"], size=row["bytes"])
            async for data in self._work.blobs.chunks(scope, blob):
                stream.write(data)
            await self.process(caller, scope, row, attempt=job["attempts"], stream=stream, progress=progress)

    def _ingestion(
        self, row: dict[str, Any], stream: BinaryIO, pages: Mapping[int, Page], accounts: Collection[str]
    ) -> Ingestion:
        options = UploadOptions.model_validate(row["options"], by_name=True)
        return Ingestion(
            stream,
            name=row["name"],
            options=read_options(options, accounts=accounts),
            import_id=row["id"],
            ids=self._work.ids,
            monotonic=self._work.clock.monotonic,
            pages=pages,
        )

    async def _load(
        self,
        caller: Caller,
        scope: TenantScope,
        row: dict[str, Any],
        ingestion: Ingestion,
        *,
        attempt: int,
        progress: Progress,
        care: Care,
    ) -> ImportPublic:
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            # Of a file without lines as well: what it says of balances is known to a lock, or comes after it.
            await hold_periods(unit.connection)
            stamp = Stamp(at=unit.now, change_id=unit.change_id, import_id=row["id"])
            staging = Staging(unit.connection, stamp=stamp, care=care, reject=scope.reject_duplicates)
            async with aclosing(_ahead(ingestion.pieces(stamp))) as pieces:
                async for piece in pieces:
                    await staging.add(piece)
                    progress.reach(ingestion.transactions)
            if ingestion.belated_pages:
                raise BelatedPagesError
            if row["options"].get("mode") == "all_or_nothing" and ingestion.file.counts.rejected:
                raise _refusal(ingestion.file.problems, ingestion.file.counts.rejected)
            await staging.finish()
            for reused in staging.reused:
                detail = "its id belongs to a stored record of another amount, direction or date: known by its content"
                ingestion.tell(
                    Problem("identity_reused", statement=reused["statement_index"], line=reused["line"], detail=detail)
                )
            repeated = [
                Problem(
                    "duplicate",
                    "error",
                    rejects=True,
                    statement=of["statement_index"],
                    line=of["line"],
                    detail=_REPEATED,
                )
                for of in staging.rejected
            ]
            if row["options"].get("mode") == "all_or_nothing" and repeated:
                raise _refusal(repeated, len(repeated))
            for problem in repeated:
                ingestion.tell(problem)
            values = await self._complete(unit, row, ingestion, new=staging.new, repeated=len(repeated))
            result = {"importId": str(row["id"]), "accepted": values["accepted"], "duplicates": values["duplicates"]}
            stored = await end_job(unit, row, values, attempt=attempt, result=result)
            public = (await rendered_imports(unit.connection, [stored]))[0]
            unit.answer(201, public, public.headers)
            if staging.new:
                await match_soon(unit, self._work.ids.new())
        count_records(self._metrics, values)
        self._logger.info("import.completed", import_id=str(row["id"]), **values)
        return public

    async def _complete(
        self, unit: Unit, row: dict[str, Any], ingestion: Ingestion, *, new: int, repeated: int
    ) -> dict[str, Any]:
        file = ingestion.file
        duplicates = ingestion.transactions - new - repeated
        values: dict[str, Any] = {
            "format": file.format,
            "format_version": file.version,
            "encoding": file.encoding,
            "records": file.counts.records,
            "accepted": file.counts.accepted - duplicates - repeated,
            "duplicates": duplicates,
            "skipped": file.counts.skipped,
            "rejected": file.counts.rejected + repeated,
        }
        store = ImportStore(unit.connection)
        if not await store.complete(row["id"], values, at=unit.now):
            raise LostLeaseError
        if len(ingestion.statements) > CONTINUITY_STATEMENTS_MAX:
            detail = f"only the first {CONTINUITY_STATEMENTS_MAX} statements were compared with those before them"
            ingestion.tell(Problem("continuity_not_checked", "info", detail=detail))
        accounts = {
            (s["account"], s["currency"]): "psp" if s["kind"] == "settlement" else "bank"
            for s in ingestion.statements
            if s["account"] is not None and s["currency"] is not None
        }
        if len(accounts) > FILE_ACCOUNTS_MAX:
            detail = f"only the first {FILE_ACCOUNTS_MAX} accounts that the file names are listed as accounts"
            ingestion.tell(Problem("accounts_not_listed", "info", detail=detail))
            accounts = dict(islice(accounts.items(), FILE_ACCOUNTS_MAX))
        ingestion.problems.seek(0)
        await store.add_problems(ingestion.problems)
        await store_statements(unit, row["id"], ingestion.statements)
        await name_accounts(unit, self._work.ids, accounts)
        begun = {(s["account"], s["currency"]) for s in ingestion.statements if s["opening_minor"] is not None}
        await move_openings(unit, begun & accounts.keys())
        await follow_import(unit, row)
        return values

    async def _fail(
        self, caller: Caller, scope: TenantScope, row: dict[str, Any], error: PayrecError, *, attempt: int
    ) -> None:
        async with self._work.tenant(caller, scope, resumed=True) as unit:
            job = {"id": row["job_id"], "kind": "import", "attempts": attempt}
            await end_without_effect(unit, job, error, ids=self._work.ids)
            if caller.idempotency is not None:
                await IdempotencyStore(unit.connection).release(caller.idempotency)


async def _ahead(pieces: Iterator[Piece]) -> AsyncGenerator[Piece, None]:
    """Yield what a blocking iterator yields, reading the next piece in a thread while this one is used."""
    coming = asyncio.create_task(asyncio.to_thread(next, pieces, None))
    try:
        while (piece := await coming) is not None:
            coming = asyncio.create_task(asyncio.to_thread(next, pieces, None))
            yield piece
    finally:
        # The thread cannot be stopped; whoever closes the file must know that nobody reads it any more.
        await asyncio.wait([coming])
        if not coming.cancelled():
            coming.exception()


_REPEATED: Final = "its content is stored under another identity"


def _refusal(problems: Sequence[Problem], count: int) -> ValidationFailedError:
    rejected = [p for p in problems if p.rejects][:ERRORS_SHOWN_MAX]
    errors = [FieldError(pointer=f"/line/{p.line}", code=p.code, detail=p.detail) for p in rejected]
    return ValidationFailedError(f"{count} records were rejected, so nothing is stored", errors=errors)
