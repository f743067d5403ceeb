"""Uploads: a file comes in whole or not at all, every record of it is accounted for, and again is safe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, BinaryIO, Final
from uuid import UUID

from payrec.domain.blobs import Blob
from payrec.domain.caller import Caller
from payrec.domain.progress import Progress
from payrec.errors import NotFoundError, UnavailableError
from payrec.models.common import Page
from payrec.models.expected_transactions import ExpectedUploadOptions
from payrec.models.imports import ImportPublic, ImportQuery, RecordProblem, RecordProblemQuery, UploadOptions
from payrec.models.match_imports import MatchImportOptions
from payrec.models.snapshots import SnapshotOptions, SnapshotPublic
from payrec.services.approvals import check_may_accept
from payrec.services.blobs import begun
from payrec.services.csv_text import csv_pages
from payrec.services.data_sources import with_source
from payrec.services.import_processing import ImportProcessor
from payrec.services.import_rendering import COLLECTION, EXPECTED, INCOMING, MATCHES, SNAPSHOT, rendered_imports
from payrec.services.jobs import end_cancelled
from payrec.services.paging import Pager
from payrec.services.queued_jobs import check_queue, queued_job
from payrec.services.read_options import profile_of
from payrec.services.snapshot_rendering import control_totals, rendered_snapshots
from payrec.services.validation import identifier
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.database import Connection
from payrec.storage.imports import ImportStore
from payrec.storage.jobs import INLINE_LEASE, JobStore
from payrec.storage.listing import BY_CREATION, PageRequest
from payrec.storage.snapshots import SnapshotStore

INLINE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a file that is read within the request; a larger one is a job, because others wait while it is read."""

PROBLEMS_COUNTED_MAX: Final = 1_001
"""Problems of an import that are counted for a list: one more than is told as a number."""

Options = UploadOptions | ExpectedUploadOptions | SnapshotOptions | MatchImportOptions
"""What is said of a file; which of them tells what the file is of."""

Uploaded = ImportPublic | SnapshotPublic
"""What an upload is answered with."""


class UploadedFile:
    """A file that came in whole: spooled, counted and hashed."""

    def __init__(self, stream: BinaryIO, *, name: str, size: int, sha256: bytes) -> None:
        self.stream = stream
        self.name = name
        self.size = size
        self.sha256 = sha256


class ImportService:
    """Takes files in, reads them, and tells what became of them."""

    def __init__(self, *, work: Work, pager: Pager, processor: ImportProcessor) -> None:
        self._work = work
        self._pager = pager
        self._processor = processor

    async def upload(self, caller: Caller, file: UploadedFile, options: Options) -> tuple[Uploaded, int]:
        """Store a file and read it, within the request when it is small; return the import and the status.

        Of a snapshot it is the snapshot.

        The status is 201 for a new import that is completed, 200 for an earlier one of the same bytes and options,
        202 while a worker reads it.

        Raises
        ------
        UnreadableFileError, ValidationFailedError, ControlTotalsMismatchError, PayloadTooLargeError
            Nothing of the file is stored but that it failed.
        AsOfOutOfRangeError
            A snapshot is of an instant that cannot be told.
        UnavailableError
            A worker reads it, if it was stored before.
        RateLimitedError
            As many files wait for a worker as may.
        NotFoundError, ConflictError
            As ``with_source``.
        ForbiddenError
            The caller is an API key, which the settings do not let accept, and the file is of decisions.
        """
        if isinstance(options, UploadOptions):
            profile_of(options)
        elif isinstance(options, SnapshotOptions):
            control_totals(options)
        elif isinstance(options, MatchImportOptions):
            check_may_accept(caller)
        inline = file.size <= INLINE_BYTES_MAX
        import_id, job_id = self._work.ids.new(), self._work.ids.new()
        written = self._work.blobs.written(caller.tenant, file.stream)
        async with written as blob, self._work.tenant(caller) as unit:
            # What the source says now is kept with the import: a later change of it changes nothing that came before.
            if isinstance(options, UploadOptions):
                options = await with_source(unit.connection, options)
            elif isinstance(options, SnapshotOptions):
                await SnapshotStore(unit.connection).check(options.taken_at)
            content_key = _content_key(file, options)
            row = self._row(file, options, content_key, import_id=import_id, job_id=job_id, unit=unit)
            row["object_id"] = blob.object_id
            earlier = await ImportStore(unit.connection).add(row)
            if earlier is not None:
                public = await _rendered(unit.connection, earlier)
                status = 202 if public.status == "processing" else 200
                unit.answer(status, public, public.headers)
                return public, status
            await blob.store(unit.connection, import_id)
            await self._add_job(unit, caller, import_id, job_id, inline=inline)
            if row["resource"] == SNAPSHOT:
                await SnapshotStore(unit.connection).add(import_id)
            public = await _rendered(unit.connection, row)
            headers = {**public.headers, "Location": f"/jobs/{job_id}"}
            unit.answer(202, public, headers)
        if not inline:
            return public, 202
        try:
            public = await self._processor.process(
                caller, caller.tenant, row, attempt=1, stream=file.stream, progress=Progress()
            )
        except LostLeaseError:
            # It was cancelled, or took so long that a worker has taken over; what becomes of it is told by the job.
            job = {"id": job_id, "kind": "import", "attempts": 1}
            await end_cancelled(self._work, caller, caller.tenant, job)
            return public, 202
        except UnavailableError:
            # Nothing of it is stored, and this request is not going to try again.
            with suppress(UnavailableError):
                await self._give_back(caller, job_id)
            raise
        return public, 201

    async def _give_back(self, caller: Caller, job_id: UUID) -> None:
        """Let a worker read the file of a request that could not; else it would wait for the end of the lease."""
        async with self._work.database.tenant(caller.tenant) as connection:
            store = JobStore(connection)
            if await store.give_back(job_id, attempt=1, now=self._work.clock.now()):
                await store.wake(caller.tenant.environment_id, "import")

    async def get(self, caller: Caller, import_id: str) -> ImportPublic:
        """Return an import.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await ImportStore(connection).get(identifier(import_id))
            if row is None:
                raise NotFoundError
            return (await rendered_imports(connection, [row]))[0]

    async def page(self, caller: Caller, query: ImportQuery) -> Page[ImportPublic]:
        """Return a page of imports.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await ImportStore(connection).page(listing.request, query)
            found = await rendered_imports(connection, rows)
        return listing.page(
            ImportPublic,
            rows,
            data=found,
            more=more,
        )

    async def errors(self, caller: Caller, import_id: str, query: RecordProblemQuery) -> Page[RecordProblem]:
        """Return a page of all problems of an import, in the order of the file.

        Raises
        ------
        NotFoundError, InvalidCursorError
        """
        wanted = identifier(import_id)
        collection = f"{COLLECTION}/{wanted}/errors"
        listing = self._pager.listing(collection, query, {"line": BY_CREATION["createdAt"]}, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            store = ImportStore(connection)
            if await store.get(wanted) is None:
                raise NotFoundError
            rows, more = await store.problems(wanted, listing.request)
        return listing.page(
            RecordProblem,
            rows,
            more=more,
        )

    async def problem_counts(self, caller: Caller, import_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return how many problems each import has, up to ``PROBLEMS_COUNTED_MAX``."""
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            return await ImportStore(connection).problem_counts(import_ids, limit=PROBLEMS_COUNTED_MAX)

    async def errors_csv(self, caller: Caller, import_id: str) -> AsyncIterator[bytes]:
        """Return all problems of an import as CSV, in the order of the file; they are read while they are sent.

        Raises
        ------
        NotFoundError
        """
        row = await self._existing(caller, import_id)

        async def page(request: PageRequest) -> tuple[Sequence[dict[str, Any]], bool]:
            async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
                return await ImportStore(connection).problems(row["id"], request)

        return csv_pages({name: name for name in ("line", "statement", "code", "severity", "detail")}, page)

    async def content(self, caller: Caller, import_id: str) -> tuple[ImportPublic, AsyncIterator[bytes]]:
        """Return an import and its file as it came, which is read while it is sent, a chunk in memory.

        Raises
        ------
        NotFoundError
            Also where nothing was stored of the file, and after its retention.
        UnavailableError
            It cannot be read at present.
        """
        row = await self._existing(caller, import_id)
        if row["blob_id"] is None:
            raise NotFoundError("the file is not kept")
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            public = (await rendered_imports(connection, [row]))[0]
        blob = Blob(id=row["blob_id"], object_id=row["object_id"], size=row["bytes"])
        return public, await begun(self._work.blobs.chunks(caller.tenant, blob))

    async def _existing(self, caller: Caller, import_id: str) -> dict[str, Any]:
        wanted = identifier(import_id)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await ImportStore(connection).get(wanted)
        if row is None:
            raise NotFoundError
        return row

    def _row(
        self,
        file: UploadedFile,
        options: Options,
        content_key: bytes,
        *,
        import_id: UUID,
        job_id: UUID,
        unit: Unit,
    ) -> dict[str, Any]:
        return {
            "id": import_id,
            "job_id": job_id,
            "blob_id": import_id,
            "content_key": content_key,
            "bytes": file.size,
            "created_at": unit.now,
            "updated_at": unit.now,
            "status": "processing",
            "name": file.name,
            "sha256": file.sha256.hex(),
            "options": options.model_dump(mode="json", exclude_none=True),
            "data_source_id": options.data_source_id if isinstance(options, UploadOptions) else None,
            "resource": _resource(options),
            "version": 1,
        }

    async def _add_job(self, unit: Unit, caller: Caller, import_id: UUID, job_id: UUID, *, inline: bool) -> None:
        jobs = JobStore(unit.connection)
        if not inline:
            await check_queue(unit, "import")
        await jobs.add(queued_job(unit, job_id, "import", {"importId": str(import_id)}))
        if inline:
            # This request is the job's first worker; if it dies, the lease runs out and another takes over.
            await jobs.claim_own(job_id, now=unit.now)
        await jobs.wake(caller.tenant.environment_id, "import", delay=INLINE_LEASE if inline else timedelta())


def _resource(options: Options) -> str:
    if isinstance(options, SnapshotOptions):
        return SNAPSHOT
    if isinstance(options, MatchImportOptions):
        return MATCHES
    return INCOMING if isinstance(options, UploadOptions) else EXPECTED


async def _rendered(connection: Connection, row: dict[str, Any]) -> Uploaded:
    """Return what an upload is answered with, of the import's row."""
    if row["resource"] != SNAPSHOT:
        return (await rendered_imports(connection, [row]))[0]
    return (await rendered_snapshots(connection, [await SnapshotStore(connection).get(row["id"]) or row]))[0]


def _content_key(file: UploadedFile, options: Options) -> bytes:
    """Return what two uploads have in common that are the same: bytes, options, and whose file it is."""
    said = options.model_dump(mode="json")
    if not isinstance(options, UploadOptions):
        said["resource"] = _resource(options)
    elif options.data_source_id is None:
        # As it was before there were data sources, so that what came then is still known.
        del said["data_source_id"]
    return hashlib.sha256(file.sha256 + json.dumps(said, sort_keys=True).encode()).digest()
