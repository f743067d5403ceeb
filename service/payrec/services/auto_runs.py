"""Matching as transactions arrive, where a tenant has switched that on (``matching.autoRun``)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

from payrec.services.queued_jobs import queued_job
from payrec.services.work import Unit
from payrec.storage.jobs import Ended, JobStore

AUTO_RUN_DELAY: Final = timedelta(seconds=1)
"""Between an arrival and the run that it starts: what arrives meanwhile needs no run of its own."""


async def match_soon(unit: Unit, job_id: UUID) -> None:
    """Have what this transaction stores matched after its commit: by a new run, which gets ``job_id``, or a repeat.

    To be called last: whoever stores at the same time waits for the commit. A run that waits or is at work, which may
    have read before that commit, is asked to be followed by another one.
    """
    scope = unit.caller.tenant
    if not scope.auto_run:
        return
    store = JobStore(unit.connection)
    while await store.add_match_run(queued_job(unit, job_id, "match", {})) is not None:
        if await store.request_repeat():
            return
        # The run that was in the way has ended between the two statements.
    await store.wake(scope.environment_id, "match", delay=AUTO_RUN_DELAY)


async def repeat_if_asked(unit: Unit, ended: Ended, job_id: UUID, *, again: bool) -> None:
    """Start another run, in the transaction that ``ended`` one, if anything arrived that this one may not have read.

    So it does where runs go by themselves and this one has opened ``again`` what it had matched.
    """
    store = JobStore(unit.connection)
    if ended.repeat_requested or (again and unit.caller.tenant.auto_run):
        await store.add_match_run(queued_job(unit, job_id, "match", {}))
        await store.wake(unit.caller.tenant.environment_id, "match", delay=AUTO_RUN_DELAY)
