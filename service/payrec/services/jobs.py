"""Jobs: looked at while they run and after."""

from __future__ import annotations

from typing import Any, Final

from payrec.domain.caller import Caller
from payrec.errors import NotFoundError
from payrec.models.common import Page
from payrec.models.jobs import JobPublic, JobQuery
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
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
        cursor = self._pager.next_cursor(COLLECTION, query, request.sort, rows[-1], caller.scope) if more else None
        return Page[JobPublic].model_construct(data=[public_of(row) for row in rows], has_more=more, next_cursor=cursor)


def public_of(row: dict[str, Any]) -> JobPublic:
    """Return the resource of a stored job."""
    return JobPublic.model_validate({**row, "progress": {"done": row["done"], "total": row["total"]}})
