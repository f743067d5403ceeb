"""Exports: a list, with its filters, as a file that is kept for a day."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from payrec.constants.exports import EXPORT_KEPT, EXPORT_ROWS_MAX, EXPORTS_KEPT_BYTES_MAX
from payrec.domain.blobs import Blob
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.disk import disk_room
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope, today
from payrec.errors import FieldError, NotFoundError, RateLimitedError, ValidationFailedError
from payrec.models.common import ListQuery
from payrec.models.exports import ExportCreate, ExportFilePublic, ExportResult
from payrec.models.jobs import JobCreate, JobPublic
from payrec.services.blobs import NewBlob, begun
from payrec.services.export_files import ExportFile
from payrec.services.export_lists import LISTS, Reading, pages
from payrec.services.jobs import queue_job
from payrec.services.scratch import scratch_folder
from payrec.services.validation import check_amount_filters, identifier, refuse_members, validated
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.database import Connection
from payrec.storage.exports import ExportStore
from payrec.storage.history import HistoryStore
from payrec.storage.jobs import JobStore

COLLECTION: Final = "/exports"


class ExportService:
    """Starts exports, makes their files, and gives them out."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def start_job(self, caller: Caller, given: JobCreate) -> JobPublic:
        """Queue an export and return its job.

        Raises
        ------
        ValidationFailedError
        AsOfOutOfRangeError
            Nothing tells how the list was at that instant.
        RateLimitedError
            As many bytes of exports are kept as may be, or as many exports wait.
        """
        wanted = validated(ExportCreate, given.params, pointer="/params")
        query = query_of(wanted, pointer="/params/filter")
        params = wanted.model_dump(mode="json", by_alias=True, exclude_none=True)
        job_id = self._work.ids.new()
        async with self._work.tenant(caller) as unit:
            await HistoryStore(unit.connection).check(getattr(query, "as_of", None))
            await _check_kept(unit.connection, now=unit.now)
            public = await queue_job(unit, job_id, "export", params)
            unit.answer(202, public, public.headers)
        return public

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Make the file of a job and end the job in the transaction that stores it.

        Raises
        ------
        ValidationFailedError
            The list has more than ``EXPORT_ROWS_MAX`` rows.
        LostLeaseError
            Another worker does it; nothing of this attempt is kept.
        StoppedError
            Nobody wants it any more.
        StorageFullError
            There is no room for the file while it is made.
        RateLimitedError
            As ``start_job``: others that were queued before have made their files meanwhile.
        """
        wanted = ExportCreate.model_validate(job["params"], by_alias=True)
        async with self._work.database.tenant(scope, readonly=True) as connection:
            await _check_kept(connection, now=self._work.clock.now())
        with disk_room(), scratch_folder() as directory:
            rows, path = await self._write(scope, wanted, directory, progress)
            await self._store(caller, scope, job, wanted, rows, path)

    async def content(self, caller: Caller, export_id: str) -> tuple[ExportFilePublic, AsyncIterator[bytes]]:
        """Return what is known of an export, and its file, which is read while it is sent, a chunk in memory.

        Raises
        ------
        NotFoundError
            Also after it has expired.
        UnavailableError
            It cannot be read at present.
        """
        wanted, now = identifier(export_id), self._work.clock.now()
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await ExportStore(connection).get(wanted, now=now)
        if row is None:
            raise NotFoundError
        blob = Blob(id=row["id"], object_id=row["object_id"], size=row["bytes"])
        return ExportFilePublic.model_validate(row), await begun(self._work.blobs.chunks(caller.tenant, blob))

    async def _write(
        self, scope: TenantScope, wanted: ExportCreate, directory: Path, progress: Progress
    ) -> tuple[int, Path]:
        """Write the list into a file and return how many lines it has, and where it is."""
        of, query = LISTS[wanted.resource], query_of(wanted)
        database, day = self._work.database, today(scope, self._work.clock.now())
        with closing(ExportFile(of.public, wanted.format, directory, per_item=of.per_item)) as file:
            async with database.tenant(scope, readonly=True, snapshot=True) as connection:
                reading = Reading(database=database, connection=connection, scope=scope, day=day)
                async for resources in pages(of, reading, query):
                    await asyncio.to_thread(file.add, resources)
                    if file.rows > EXPORT_ROWS_MAX:
                        detail = f"the list has more than {EXPORT_ROWS_MAX} rows: narrow it"
                        field = FieldError(pointer="/params/filter", code="export_too_large", detail=detail)
                        raise ValidationFailedError.of(field)
                    progress.reach(file.rows)
            return file.rows, await asyncio.to_thread(file.finish)

    async def _store(
        self, caller: Caller, scope: TenantScope, job: dict[str, Any], wanted: ExportCreate, rows: int, path: Path
    ) -> None:
        size, sha256 = await asyncio.to_thread(measured, path)
        export_id = self._work.ids.new()
        with path.open("rb") as stream:
            written = self._work.blobs.written(scope, stream)
            async with written as blob, self._work.tenant(caller, scope, resumed=True) as unit:
                about = {"resource": wanted.resource, "format": wanted.format, "job_id": job["id"]}
                about |= {"rows": rows, "bytes": size, "sha256": sha256}
                result = await kept_export(unit, blob, export_id, about)
                finished = await JobStore(unit.connection).finish(
                    job["id"],
                    attempt=job["attempts"],
                    now=unit.now,
                    result=result.model_dump(mode="json", by_alias=True),
                    done=rows,
                )
                if not finished:
                    raise LostLeaseError
                after = {**job["params"], "rows": rows}
                unit.record(Record(action="export.created", resource_id=export_id, after=after))
                unit.record(Record(action="job.succeeded", resource_id=job["id"]))


def query_of(wanted: ExportCreate, *, pointer: str = "") -> ListQuery:
    """Return the query of an export's list.

    Raises
    ------
    ValidationFailedError
        A filter is not one of the list, or says which page.
    """
    given = wanted.filter or {}
    refuse_members(given, ("cursor", "limit"), "an export has all pages", pointer=pointer)
    query = validated(LISTS[wanted.resource].query, given, pointer=pointer)
    if hasattr(query, "amount_min"):
        check_amount_filters(query, pointer=f"{pointer}/")
    return query


async def kept_export(unit: Unit, blob: NewBlob, export_id: UUID, about: dict[str, Any]) -> ExportResult:
    """Store a file that was written, and return what a job's result says of it.

    ``about`` has its ``resource``, ``format``, ``job_id``, ``rows``, ``bytes`` and ``sha256``.

    Raises
    ------
    RateLimitedError
        As many bytes of exports are kept as may be.
    """
    await blob.store(unit.connection, export_id)
    store = ExportStore(unit.connection)
    # Last, because the others wait: of two that are stored at the same time the second one sees the first.
    await store.hold()
    await _check_kept(unit.connection, now=unit.now)
    row = {
        **about,
        "id": export_id,
        "created_at": unit.now,
        "expires_at": unit.now + EXPORT_KEPT,
        "object_id": blob.object_id,
    }
    await store.add(row)
    return ExportResult.model_validate({**row, "url": f"{COLLECTION}/{export_id}/content"})


async def _check_kept(connection: Connection, *, now: datetime) -> None:
    """Look that the files of a tenant environment do not fill what all have together."""
    kept, next_at = await ExportStore(connection).kept(now=now)
    if kept >= EXPORTS_KEPT_BYTES_MAX and next_at is not None:
        wait = next_at - now
        detail = f"exports of this environment have {kept} bytes, and each is kept for a day"
        raise RateLimitedError(detail, retry_after_seconds=math.ceil(wait.total_seconds()))


def measured(path: Path) -> tuple[int, str]:
    """Return the bytes and the SHA-256 of a file. Blocking."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
        return stream.tell(), digest.hexdigest()
