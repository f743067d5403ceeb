"""Matching runs: started as jobs, one at a time for a tenant environment, waited for when asked to."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.errors import FieldError, MatchRunInProgressError, ValidationFailedError
from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.models.jobs import JobCreate, JobPublic
from payrec.models.matches import MatchRunCreate, MatchRunPublic
from payrec.services.jobs import public_of as job_public
from payrec.services.queued_jobs import queued_job
from payrec.services.tenant_settings import check_settings
from payrec.services.validation import check_amount_filters, refuse_members, validated
from payrec.services.work import Unit, Work
from payrec.storage.jobs import JobStore

POLL_SECONDS: Final = 0.06
"""Before the first look at a run that a request waits for: the least that a run takes. Grows to POLL_SECONDS_MAX."""

POLL_GROWTH: Final = 1.15
"""By how much each pause is longer. An answer is one pause late at most, which is a fifth of a run of a second."""

POLL_SECONDS_MAX: Final = 0.25
"""The longest pause between two looks."""


class MatchRunService:
    """Starts runs and waits for them."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def start(self, caller: Caller, given: MatchRunCreate) -> MatchRunPublic:
        """Queue a run and wait for its end at most ``wait`` seconds.

        Raises
        ------
        MatchRunInProgressError
            With ``jobId``: one run at a time.
        ValidationFailedError
            A filter is not one of its list.
        """
        params = _checked(given)
        job_id = self._work.ids.new()
        async with self._work.tenant(caller) as unit:
            await self._queue(unit, caller, job_id, params)
            queued = MatchRunPublic(
                job_id=job_id,
                status="queued",
                counts=None,
                duration_ms=None,
                engine_version=None,
                rules_version=None,
                dry_run=given.dry_run,
            )
            unit.answer(202, queued, {"Location": f"/jobs/{job_id}"})
        return await self._ended(caller, queued, seconds=given.wait)

    async def start_job(self, caller: Caller, given: JobCreate) -> JobPublic:
        """Queue a run as a job and return the job at once; raises as ``start``."""
        run = validated(MatchRunCreate, given.params, pointer="/params")
        params = _checked(run, pointer="/params")
        job_id = self._work.ids.new()
        async with self._work.tenant(caller) as unit:
            await self._queue(unit, caller, job_id, params)
            row = await JobStore(unit.connection).get(job_id)
            public = job_public(row or {})
            unit.answer(202, public, public.headers)
        return public

    async def _queue(self, unit: Unit, caller: Caller, job_id: UUID, params: dict[str, Any]) -> None:
        store = JobStore(unit.connection)
        running = await store.add_match_run(queued_job(unit, job_id, "match", params))
        if running is not None:
            raise MatchRunInProgressError(jobId=str(running))
        await store.wake(caller.tenant.environment_id, "match")

    async def _ended(self, caller: Caller, run: MatchRunPublic, *, seconds: float) -> MatchRunPublic:
        until = self._work.clock.monotonic() + seconds
        pause = POLL_SECONDS
        while run.status in {"queued", "running"} and (left := until - self._work.clock.monotonic()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(pause * POLL_GROWTH, POLL_SECONDS_MAX)
            async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
                row = await JobStore(connection).get(run.job_id)
            run = run_of(row or {})
        return run


def run_of(job: dict[str, Any]) -> MatchRunPublic:
    """Return the run that a job's row describes."""
    result = job["result"] or {}
    return MatchRunPublic.model_validate(
        {
            "job_id": job["id"],
            "status": job["status"],
            "counts": result.get("counts"),
            "duration_ms": result.get("durationMs"),
            "engine_version": result.get("engineVersion"),
            "rules_version": result.get("rulesVersion"),
            "dry_run": bool(job["params"].get("dryRun", False)),
            "proposals": result.get("proposals"),
            "proposals_url": result.get("proposalsUrl"),
            "proposals_expire_at": result.get("proposalsExpireAt"),
            "error": job["error"],
        },
        by_alias=True,
        by_name=True,
    )


def filters_of(
    params: dict[str, Any], *, pointer: str = ""
) -> tuple[ExpectedTransactionQuery | None, IncomingTransactionQuery | None]:
    """Return the filters of a run; None looks at all that is open.

    Raises
    ------
    ValidationFailedError
    """
    expected = incoming = None
    if params.get("expectedFilter"):
        expected = validated(ExpectedTransactionQuery, params["expectedFilter"], pointer=f"{pointer}/expectedFilter")
        check_amount_filters(expected, pointer=f"{pointer}/expectedFilter/")
    if params.get("incomingFilter"):
        incoming = validated(IncomingTransactionQuery, params["incomingFilter"], pointer=f"{pointer}/incomingFilter")
        check_amount_filters(incoming, pointer=f"{pointer}/incomingFilter/")
    for name in ("expectedFilter", "incomingFilter"):
        given, place = params.get(name) or {}, f"{pointer}/{name}"
        refuse_members(given, ("asOf", "cutOff"), "a run looks at what is open now", pointer=place)
        refuse_members(given, ("limit", "cursor", "sort"), "a run looks at all that the filter names", pointer=place)
    return expected, incoming


def _checked(given: MatchRunCreate, *, pointer: str = "") -> dict[str, Any]:
    params = given.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"wait"})
    filters_of(params, pointer=pointer)
    if given.settings is not None:
        if not given.dry_run:
            detail = "a run goes by the tenant's settings: only a dry run may try others"
            fault = FieldError(pointer=f"{pointer}/settings", code="only_for_dry_run", detail=detail)
            raise ValidationFailedError.of(fault)
        # As it was given: null goes back to the default, and would be lost with what was left out.
        params["settings"] = given.settings.model_dump(mode="json", by_alias=True)
        check_settings(params["settings"], pointer=f"{pointer}/settings")
    return params
