"""Jobs: looked at while they run and after."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.errors import NotFoundError
from payrec.models.common import Page
from payrec.models.jobs import JobPublic, JobQuery
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Unit, Work
from payrec.storage.jobs import JobStore
from payrec.storage.listing import BY_CREATION

COLLECTION: Final = "/jobs"


class JobService:
    """Lists the jobs of the caller's tenant environment."""

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
        request = self._pager.request(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await JobStore(connection).page(request, query)
        return self._pager.page(
            JobPublic,
            rows,
            data=[public_of(row) for row in rows],
            more=more,
            collection=COLLECTION,
            query=query,
            sort=request.sort,
            scope=caller.scope,
        )


def queued_job(unit: Unit, job_id: UUID, kind: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a new job of the unit's caller."""
    return {
        "id": job_id,
        "created_at": unit.now,
        "updated_at": unit.now,
        "kind": kind,
        "status": "queued",
        "actor": unit.caller.principal.actor,
        "request_id": unit.caller.request_id,
        "params": params,
    }


def public_of(row: dict[str, Any]) -> JobPublic:
    """Return the resource of a stored job."""
    return JobPublic.model_validate({**row, "progress": {"done": row["done"], "total": row["total"]}})
