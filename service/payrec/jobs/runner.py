"""Does the jobs of a tenant environment: claims a row, keeps its lease while it works, and lets the service finish it.

Whatever ends a worker, its job is run again: taking a job and asking for a wake-up after its lease are one transaction.
The row's attempt is the fence: only the newest one can finish the job, in the transaction of the job's effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.progress import Progress
from payrec.domain.scope import TenantScope
from payrec.errors import PayrecError, UnavailableError
from payrec.factory import Factory
from payrec.problems import problem
from payrec.services.learning import LearningService
from payrec.services.matching import MatchingService
from payrec.services.work import LostLeaseError
from payrec.storage.jobs import LEASE, JobStore
from payrec.storage.tenants import TenantStore, scope_of

ATTEMPTS_MAX: Final = 5
"""How often a job is run again after its worker was lost or something failed, before it is failed itself."""

RENEWALS: Final = 10
"""How often a lease is renewed, and the progress shown, within its time."""

AFTER_LEASE: Final = timedelta(seconds=1)
"""How long after the end of a lease the wake-up comes that looks whether somebody has died."""

UNAVAILABLE_SECONDS: Final = 5.0
"""Between two looks at a database that does not answer."""

Work = Callable[[Caller, TenantScope, dict[str, Any], Progress], Awaitable[None]]
Failure = Callable[[Caller, TenantScope, dict[str, Any], PayrecError], Awaitable[None]]


class JobRunner:
    """What a worker does for a wake-up."""

    def __init__(self, factory: Factory, *, lease: timedelta = LEASE) -> None:
        self._factory = factory
        self._lease = lease
        self._clock = factory.context.clock
        self._metrics = factory.context.metrics
        self._logger = structlog.get_logger("payrec.jobs")
        imports = factory.create_import_processor()
        matching = MatchingService(
            work=factory.work,
            metrics=factory.context.metrics,
            returns=factory.create_return_service(),
            learning=LearningService(work=factory.work),
        )
        self._kinds: dict[str, Work] = {"match": matching.run, "import": imports.process_job}
        self._failures: dict[str, Failure] = {"import": imports.fail_job}

    async def drain(self, environment_id: UUID, kind: str) -> None:
        """Run every waiting job of a kind in an environment, one after the other, until none waits."""
        while True:
            try:
                await self._drain(environment_id, kind)
            except UnavailableError:
                # A wake-up that is given up would be lost, and the job with it.
                self._logger.warning("worker.database_unavailable", kind=kind)
                await asyncio.sleep(UNAVAILABLE_SECONDS)
            else:
                return

    async def _drain(self, environment_id: UUID, kind: str) -> None:
        async with self._factory.context.database.control(readonly=True) as connection:
            row = await TenantStore(connection).scope(environment_id)
        if row is None or row["revision"] is None:
            return
        scope = scope_of(row)
        while (job := await self._claim(scope, kind)) is not None:
            await self._run(scope, job)
        await self._look_again(scope, kind)

    async def _claim(self, scope: TenantScope, kind: str) -> dict[str, Any] | None:
        async with self._factory.context.database.tenant(scope) as connection:
            store = JobStore(connection)
            job = await store.claim(kind, now=self._clock.now(), lease=self._lease)
            if job is not None:
                await store.wake(scope.environment_id, kind, delay=self._lease + AFTER_LEASE)
            return job

    async def _look_again(self, scope: TenantScope, kind: str) -> None:
        """Come back when the lease of a job that somebody else runs is over, in case that somebody has died."""
        async with self._factory.context.database.tenant(scope) as connection:
            store = JobStore(connection)
            left = await store.lease_left(kind)
            if left is not None:
                await store.wake(scope.environment_id, kind, delay=left + AFTER_LEASE)

    async def _run(self, scope: TenantScope, job: dict[str, Any]) -> None:
        """Run one attempt. Nothing that the job does wrong keeps the next one from running."""
        caller = Caller(
            principal=Principal(kind="system", name=job["actor"], tenant_id=scope.tenant_id),
            request_id=job["request_id"],
            scope=scope,
        )
        with structlog.contextvars.bound_contextvars(
            tenant=scope.slug, environment=scope.environment, job_id=str(job["id"]), request_id=job["request_id"]
        ):
            began = self._clock.monotonic()
            status = "interrupted"
            try:
                status = await self._attempt(caller, scope, job)
            finally:
                seconds = self._clock.monotonic() - began
                self._metrics.observe_job(job["kind"], status, seconds)
                self._logger.info(
                    "job.finished",
                    kind=job["kind"],
                    status=status,
                    attempt=job["attempts"],
                    ms=round(seconds * 1000),
                )

    async def _attempt(self, caller: Caller, scope: TenantScope, job: dict[str, Any]) -> str:
        """Return how the attempt ended; one that crashed leaves the row as it is, to be run again after its lease."""
        try:
            if job["attempts"] > ATTEMPTS_MAX:
                await self._fail(caller, scope, job, PayrecError(f"given up after {ATTEMPTS_MAX} attempts"))
                return "failed"
            try:
                async with self._kept(scope, job) as progress:
                    await self._kinds[job["kind"]](caller, scope, job, progress)
            except UnavailableError:
                raise
            except PayrecError as error:
                self._logger.info("job.refused", kind=job["kind"], code=error.code)
                await self._fail(caller, scope, job, error)
                return "failed"
        except LostLeaseError:
            return "lost"
        except Exception as error:
            self._logger.exception("job.crashed", kind=job["kind"], error=type(error).__name__)
            return "crashed"
        return "succeeded"

    @asynccontextmanager
    async def _kept(self, scope: TenantScope, job: dict[str, Any]) -> AsyncIterator[Progress]:
        """Renew the job's lease, and show its progress, for as long as it runs."""
        progress = Progress()

        async def renew() -> None:
            while True:
                await asyncio.sleep(self._lease.total_seconds() / RENEWALS)
                try:
                    async with self._factory.context.database.tenant(scope) as connection:
                        store = JobStore(connection)
                        await store.renew(job["id"], attempt=job["attempts"], lease=self._lease, progress=progress)
                except Exception:
                    # The next try may do; if none does, the lease runs out and the attempt can finish nothing.
                    self._logger.exception("job.lease_not_renewed")

        task = asyncio.create_task(renew())
        try:
            yield progress
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _fail(self, caller: Caller, scope: TenantScope, job: dict[str, Any], error: PayrecError) -> None:
        """End the job as failed, with its problem, and whatever it is about as well."""
        if job["kind"] in self._failures:
            await self._failures[job["kind"]](caller, scope, job, error)
            return
        body = problem(error, request_id=caller.request_id)
        async with self._factory.work.tenant(caller, scope, resumed=True) as unit:
            store = JobStore(unit.connection)
            if not await store.finish(job["id"], attempt=job["attempts"], now=unit.now, error=body):
                raise LostLeaseError
            unit.record(Record(action="job.failed", resource_id=job["id"], after={"code": error.code}))
