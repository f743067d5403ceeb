"""Jobs: looked at while they run and after, cancelled, and ended without their effect."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller, IdSource
from payrec.domain.changes import Record
from payrec.domain.principal import Permission
from payrec.domain.scope import TenantScope
from payrec.errors import ConflictError, ForbiddenError, JobCancelledError, NotFoundError, PayrecError
from payrec.models.common import Page
from payrec.models.jobs import JobPublic, JobQuery
from payrec.problems import problem
from payrec.services.auto_runs import repeat_if_asked
from payrec.services.data_source_status import follow_import, follow_sync
from payrec.services.paging import Pager
from payrec.services.queued_jobs import check_queue, queued_job
from payrec.services.validation import check_version, identifier
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.blobs import BlobStore
from payrec.storage.imports import ImportStore
from payrec.storage.jobs import JobStore
from payrec.storage.listing import BY_CREATION

COLLECTION: Final = "/jobs"

_PERMISSIONS: Final = {"erasure": Permission.PRIVACY_ERASE, "redeliver": Permission.WEBHOOKS_MANAGE}
"""What a kind of job asks for of whoever starts or cancels one, besides the permission to write."""


class JobService:
    """Lists and cancels the jobs of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def get(self, caller: Caller, job_id: str) -> JobPublic:
        """Return a job.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await JobStore(connection).get(identifier(job_id))
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: JobQuery) -> Page[JobPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await JobStore(connection).page(listing.request, query)
        return listing.page(
            JobPublic,
            rows,
            data=[public_of(row) for row in rows],
            more=more,
        )

    async def cancel(self, caller: Caller, job_id: str, if_match: str | None) -> tuple[JobPublic, int]:
        """Cancel a job; return it and the status: 200 when it is over, 202 while its worker has to stop. Again is same.

        Whatever it would have done is not done; from here on it cannot succeed.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ForbiddenError
            The caller may not start a job of this kind.
        ConflictError
            The job has succeeded or failed.
        """
        wanted = identifier(job_id)
        async with self._work.tenant(caller) as unit:
            store = JobStore(unit.connection)
            row = await store.get(wanted)
            if row is None:
                raise NotFoundError
            check_permitted(caller, row["kind"])
            check_version(if_match, row["version"])
            asked = await store.request_cancel(wanted, now=unit.now)
            if asked is not None and asked["status"] == "queued":
                await end_without_effect(unit, asked, JobCancelledError(), ids=self._work.ids)
            elif asked is not None:
                unit.record(Record(action="job.cancel_requested", resource_id=wanted))
            row = await store.get(wanted) or row
            if row["status"] in {"succeeded", "failed"}:
                raise ConflictError("the job has ended already")
            public = public_of(row)
            status = 200 if public.status == "cancelled" else 202
            unit.answer(status, public, public.headers)
        return public, status


def check_permitted(caller: Caller, kind: str) -> None:
    """Refuse a caller who may start and cancel jobs, but none of this kind; raises ``ForbiddenError``."""
    wanted = _PERMISSIONS.get(kind, Permission.WRITE)
    if not caller.principal.may(wanted):
        raise ForbiddenError(f"the permission {wanted.value} is required")


async def end_without_effect(unit: Unit, job: dict[str, Any], error: PayrecError, *, ids: IdSource) -> None:
    """End a job of which nothing is stored, and what it is about: as cancelled where the error says so, else as failed.

    What has arrived during a match run was told that another one follows; it does, with an id of ``ids``.

    ``job`` has ``id``, ``kind``, ``attempts``, the attempt that ends, and for a sync ``params``.

    Raises
    ------
    LostLeaseError
        It has ended already, is another worker's, or has to end as cancelled.
    """
    body = problem(error, request_id=unit.caller.request_id)
    is_cancelled = isinstance(error, JobCancelledError)
    if job["kind"] == "import":
        imports = ImportStore(unit.connection)
        row = await imports.of_job(job["id"])
        if row is None:
            raise AssertionError("an import is stored together with its job")
        await imports.fail(row["id"], body, at=unit.now)
        await BlobStore(unit.connection).delete(row["id"])
        unit.discard(row["object_id"])
        unit.record(Record(action="import.failed", resource_id=row["id"], after={"code": error.code}))
        if not is_cancelled:
            await follow_import(unit, row, body)
    if job["kind"] == "sync" and not is_cancelled:
        await follow_sync(unit, job, body)
    ended = await JobStore(unit.connection).finish(
        job["id"],
        attempt=job["attempts"],
        now=unit.now,
        status="cancelled" if is_cancelled else "failed",
        error=None if is_cancelled else body,
    )
    if not ended:
        raise LostLeaseError
    if job["kind"] == "match":
        await repeat_if_asked(unit, ended, ids.new(), again=False)
    if is_cancelled:
        unit.record(Record(action="job.cancelled", resource_id=job["id"]))
    else:
        unit.record(Record(action="job.failed", resource_id=job["id"], after={"code": error.code}))


async def end_cancelled(work: Work, caller: Caller, scope: TenantScope, job: dict[str, Any]) -> bool:
    """End a job whose attempt was given up, if that was because somebody cancelled it; return whether it was."""
    try:
        async with work.tenant(caller, scope, resumed=True) as unit:
            await end_without_effect(unit, job, JobCancelledError(), ids=work.ids)
    except LostLeaseError:
        return False
    return True


async def queue_job(
    unit: Unit, job_id: UUID, kind: str, params: dict[str, Any], *, environment_id: UUID | None = None
) -> JobPublic:
    """Queue a job, wake a worker for it, and return it; of the caller's environment unless another is named.

    Raises
    ------
    RateLimitedError
        As many of its kind wait as may.
    """
    await check_queue(unit, kind)
    store = JobStore(unit.connection)
    row = queued_job(unit, job_id, kind, params)
    await store.add(row)
    await store.wake(environment_id or unit.caller.tenant.environment_id, kind)
    return public_of(await store.get(job_id) or row)


def public_of(row: dict[str, Any]) -> JobPublic:
    """Return the resource of a stored job."""
    return JobPublic.model_validate({**row, "progress": {"done": row["done"], "total": row["total"]}})
