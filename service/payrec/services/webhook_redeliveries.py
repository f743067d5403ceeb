"""Many deliveries again, as a job: the events of a time at one endpoint, piece by piece."""

from __future__ import annotations

from typing import Any

from payrec.constants.events import WEBHOOK_REDELIVERED_PLACES, WEBHOOK_REDELIVERIES_JOB_MAX
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.errors import ConflictError, NotFoundError
from payrec.models.jobs import JobCreate, JobPublic
from payrec.models.webhooks import RedeliverParams, RedeliverResult
from payrec.services.jobs import check_permitted, queue_job
from payrec.services.validation import validated
from payrec.services.work import LostLeaseError, Unit, Work
from payrec.storage.events import EventStore
from payrec.storage.jobs import JobStore
from payrec.storage.webhook_deliveries import WebhookDeliveryStore
from payrec.storage.webhooks import WebhookStore


class WebhookRedeliveryService:
    """Starts redeliveries and does them."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def start_job(self, caller: Caller, given: JobCreate) -> JobPublic:
        """Queue a redelivery and return its job.

        Raises
        ------
        ForbiddenError
            The caller may start jobs, but not manage webhooks.
        ValidationFailedError, NotFoundError
        ConflictError
            The endpoint is disabled.
        RateLimitedError
            As many redeliveries wait as may.
        """
        check_permitted(caller, "redeliver")
        wanted = validated(RedeliverParams, given.params, pointer="/params")
        params = wanted.model_dump(mode="json", by_alias=True, exclude_none=True)
        job_id = self._work.ids.new()
        async with self._work.tenant(caller) as unit:
            await _active(unit, wanted)
            public = await queue_job(unit, job_id, "redeliver", params)
            unit.answer(202, public, public.headers)
        return public

    async def run(self, caller: Caller, scope: TenantScope, job: dict[str, Any], progress: Progress) -> None:
        """Do a job. Each piece is committed with the place that it came to, so the next attempt repeats none of them.

        What was begun again stays so when the job is cancelled.

        Raises
        ------
        NotFoundError, ConflictError
            The endpoint is gone, or disabled, before everything was begun.
        LostLeaseError
            Another worker goes on, or nobody wants it any more.
        StoppedError
        """
        wanted = RedeliverParams.model_validate(job["params"], by_alias=True)
        so_far = await self._begin(scope, job, wanted)
        first = so_far.position or 0
        progress.total = (so_far.through or 0) - first
        while so_far.has_more:
            progress.reach((so_far.position or 0) - first)
            async with self._work.tenant(caller, scope, resumed=True) as unit:
                so_far = await self._piece(unit, scope, wanted, so_far)
                progress.done = (so_far.position or 0) - first
                await self._note(unit, job, so_far, progress)

    async def _begin(self, scope: TenantScope, job: dict[str, Any], wanted: RedeliverParams) -> RedeliverResult:
        """Return what an earlier attempt came to, or where the first one begins."""
        if job["result"] is not None:
            return RedeliverResult.model_validate(job["result"], by_alias=True)
        async with self._work.database.tenant(scope, readonly=True) as connection:
            span = await EventStore(connection).span(wanted.from_, wanted.to)
        first, last = span or (1, 0)
        return RedeliverResult(count=0, has_more=True, position=first - 1, through=last)

    async def _piece(
        self, unit: Unit, scope: TenantScope, wanted: RedeliverParams, so_far: RedeliverResult
    ) -> RedeliverResult:
        """Have the next places delivered again, as many as there may be."""
        webhook = await _active(unit, wanted)
        after, last = so_far.position or 0, so_far.through or 0
        through, left = min(after + WEBHOOK_REDELIVERED_PLACES, last), WEBHOOK_REDELIVERIES_JOB_MAX - so_far.count
        begun = await WebhookDeliveryStore(unit.connection, webhook["id"]).redeliver_between(
            wanted.from_, wanted.to, at=unit.now, limit=left, states=wanted.status, after=after, through=through
        )
        if begun:
            await WebhookStore(unit.connection).schedule(webhook["id"], scope.environment_id, unit.now)
        count = so_far.count + begun
        return RedeliverResult(
            count=count,
            has_more=through < last and begun < left,
            position=through,
            through=last,
        )

    async def _note(self, unit: Unit, job: dict[str, Any], so_far: RedeliverResult, progress: Progress) -> None:
        """Store how far the job is, and that it is over when it is."""
        store = JobStore(unit.connection)
        if so_far.has_more:
            told = so_far.model_dump(mode="json", by_alias=True)
            kept = await store.advance(job["id"], attempt=job["attempts"], now=unit.now, result=told, progress=progress)
        else:
            is_full = so_far.count == WEBHOOK_REDELIVERIES_JOB_MAX
            told = RedeliverResult(count=so_far.count, has_more=is_full).model_dump(
                mode="json", by_alias=True, exclude_none=True
            )
            ended = await store.finish(
                job["id"], attempt=job["attempts"], now=unit.now, result=told, done=progress.total
            )
            kept = ended is not None
            after = {"count": so_far.count, "jobId": str(job["id"])}
            webhook_id = RedeliverParams.model_validate(job["params"], by_alias=True).webhook_id
            unit.record(Record(action="webhook.redelivered", resource_id=webhook_id, after=after))
            unit.record(Record(action="job.succeeded", resource_id=job["id"]))
        if not kept:
            raise LostLeaseError


async def _active(unit: Unit, wanted: RedeliverParams) -> dict[str, Any]:
    """Return the endpoint, which nobody changes meanwhile."""
    row = await WebhookStore(unit.connection).get(wanted.webhook_id, lock=True)
    if row is None:
        raise NotFoundError("there is no such webhook")
    if row["status"] != "active":
        raise ConflictError("the webhook is disabled; make it active first")
    return row
