"""Does the jobs of a tenant environment: claims a row, keeps its lease while it works, and lets the service finish it.

A job is claimed when there is room for it (``admission``), and others have their turn between two of its environment.
What fails is tried again, later each time. Whatever ends a worker, its job is run again: taking a job and asking for a
wake-up after its lease are one transaction. The row's attempt is the fence: only the newest one can finish the job, in
the transaction of the job's effect. A job that is to be cancelled is stopped at its next renewal or piece, and could
not succeed if it were not.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from payrec.constants.jobs import JOB_ATTEMPTS_MAX, JOB_SUSPECT_ATTEMPTS
from payrec.domain.caller import Caller
from payrec.domain.principal import Principal
from payrec.domain.progress import Progress, StoppedError
from payrec.domain.retries import retry_delay
from payrec.domain.scope import TenantScope
from payrec.errors import PayrecError, UnavailableError
from payrec.factory import Factory
from payrec.jobs.admission import PLACES_MAX, Admission, Asked
from payrec.jobs.memory import memory_limit_bytes
from payrec.services.backtesting import BacktestRunner
from payrec.services.job_sizes import SIZE_UNKNOWN, JobSize, size_of
from payrec.services.jobs import end_cancelled, end_without_effect
from payrec.services.learning import LearningService
from payrec.services.match_import_learning import MatchImportLearning
from payrec.services.matching import MatchingService
from payrec.services.work import LostLeaseError
from payrec.storage.database import Connection
from payrec.storage.jobs import LEASE, JobStore
from payrec.storage.tenants import TenantStore, scope_of

RENEWALS: Final = 10
"""How often a lease is renewed, and the progress shown, within its time."""

AFTER_LEASE: Final = timedelta(seconds=1)
"""How long after the end of a lease the wake-up comes that looks whether somebody has died."""

BUSY_DELAY: Final = timedelta(seconds=5)
"""When a job comes again for which there was no room; room that is made in this process calls it earlier."""

CONNECTIONS_KEPT: Final = 2
"""Connections of the pool that no job counts on, so that those who hold one can always get another."""

HELD_SECONDS: Final = 0.05
"""Between two looks at a job that somebody else's transaction holds."""

UNAVAILABLE_SECONDS: Final = 5.0
"""Between two looks at a database that does not answer."""

Work = Callable[[Caller, TenantScope, dict[str, Any], Progress], Awaitable[None]]


class _Taken(NamedTuple):
    """A job that there is room for; None where somebody else's transaction holds it."""

    job: dict[str, Any] | None
    asked: Asked


class _NotSizedError(Exception):
    """Something is wrong with a job, so that nobody can say how large it is."""


async def _size_of(connection: Connection, job: dict[str, Any]) -> JobSize:
    try:
        return await size_of(connection, job)
    except Exception as error:
        if connection.broken:
            # That the database is away says nothing of the job.
            raise
        raise _NotSizedError from error


def _is_suspect(job: dict[str, Any]) -> bool:
    """Tell whether a job that waits may be what has killed its workers; what is only to be failed kills nobody."""
    return job["status"] == "running" and JOB_SUSPECT_ATTEMPTS <= _tried(job) < JOB_ATTEMPTS_MAX


def _tried(job: dict[str, Any]) -> int:
    """Return how many attempts say something of the job; those that were handed over ended with their worker."""
    tried: int = job["attempts"] - job["handed_over"]
    return tried


class JobRunner:
    """What a worker does for a wake-up."""

    def __init__(
        self,
        factory: Factory,
        *,
        lease: timedelta = LEASE,
        memory_bytes: int | None = None,
        drawn: Callable[[], float] = random.random,
    ) -> None:
        """Take the memory that there is, else what the process may use, and what draws the jitter, in 0..1."""
        self._factory = factory
        self._lease = lease
        self._drawn = drawn
        self._clock = factory.context.clock
        self._is_stopping = False
        self.admission = Admission(
            memory_bytes=memory_limit_bytes() if memory_bytes is None else memory_bytes,
            places=min(PLACES_MAX, factory.context.config.database_pool_size - CONNECTIONS_KEPT),
            monotonic=self._clock.monotonic,
        )
        self._metrics = factory.context.metrics
        self._logger = structlog.get_logger("payrec.jobs")
        imports = factory.create_import_processor()
        learning = LearningService(work=factory.work)
        matching = MatchingService(
            work=factory.work,
            metrics=factory.context.metrics,
            returns=factory.create_return_service(),
            learning=learning,
        )
        self._kinds: dict[str, Work] = {
            "match": matching.run,
            "backtest": BacktestRunner(work=factory.work).run,
            "import": imports.process_job,
            "export": factory.create_export_service().run,
            "sync": factory.sources.create_syncer().run,
            "learn": MatchImportLearning(work=factory.work, learning=learning).run,
            "erasure": factory.create_erasure_service().run,
            "redeliver": factory.webhooks.create_redelivery_service().run,
        }

    def stop(self) -> None:
        """Begin no further job; those that wait are others'."""
        self._is_stopping = True

    async def drain(self, environment_id: UUID, kind: str, *, seconds: float = math.inf) -> None:
        """Run the waiting jobs of a kind in an environment, one after the other.

        Until none waits, there is no room, or ``seconds`` have gone by; then there is another wake-up for the rest,
        behind everybody else's. Whoever cancels this gives what it runs, and the rest, to others.
        """
        while True:
            try:
                await self._drain(environment_id, kind, until=self._clock.monotonic() + seconds)
            except asyncio.CancelledError:
                with contextlib.suppress(UnavailableError):
                    await self._wake(environment_id, kind)
                raise
            except UnavailableError:
                # A wake-up that is given up would be lost, and the job with it.
                self._logger.warning("worker.database_unavailable", kind=kind)
                await asyncio.sleep(UNAVAILABLE_SECONDS)
                # Where it is there for others, as before an environment is migrated, they go first.
                with contextlib.suppress(UnavailableError):
                    await self._wake(environment_id, kind)
                    return
            else:
                return

    async def _drain(self, environment_id: UUID, kind: str, *, until: float) -> None:
        async with self._factory.context.database.control(readonly=True) as connection:
            row = await TenantStore(connection).scope(environment_id)
        if row is None or row["revision"] is None:
            return
        scope = scope_of(row)
        has_begun = False
        while True:
            is_over = self._is_stopping or (has_begun and self._clock.monotonic() >= until)
            taken = await self._claim(scope, kind, is_over=is_over)
            if taken is None:
                return
            has_begun = True
            try:
                if taken.job is not None:
                    await self._run(scope, taken.job)
            finally:
                await self._release(taken.asked)
            if taken.job is None:
                # Somebody holds it, and may leave it as it is.
                await asyncio.sleep(HELD_SECONDS)

    async def _claim(self, scope: TenantScope, kind: str, *, is_over: bool = False) -> _Taken | None:
        """Take the job that is next; None where nothing is to be done here now, and somebody comes back in time.

        Whoever ``is_over`` takes none.
        """
        try:
            return await self._taken(scope, kind, is_over=is_over)
        except _NotSizedError:
            # What is wrong with it ends the job's attempts, where everybody sees it; here it would wait for ever.
            self._logger.exception("job.not_sized", kind=kind)
            return await self._taken(scope, kind, is_over=is_over, size=SIZE_UNKNOWN)

    async def _taken(
        self, scope: TenantScope, kind: str, *, is_over: bool, size: JobSize | None = None
    ) -> _Taken | None:
        asked = None
        try:
            async with self._factory.context.database.tenant(scope) as connection:
                store = JobStore(connection)
                job = await store.next(kind)
                if job is None:
                    await self._look_again(store, scope, kind)
                    return None
                if is_over:
                    await store.wake(scope.environment_id, kind)
                    return None
                wanted = Asked(
                    tenant_id=scope.tenant_id,
                    environment_id=scope.environment_id,
                    kind=kind,
                    size=size or await _size_of(connection, job),
                    is_suspect=_is_suspect(job),
                )
                if not self.admission.admit(wanted):
                    await store.wake(scope.environment_id, kind, delay=BUSY_DELAY)
                    return None
                asked = wanted
                claimed = await store.claim(job["id"], now=self._clock.now(), lease=self._lease)
                if claimed is not None:
                    await store.wake(scope.environment_id, kind, delay=self._lease + AFTER_LEASE)
        except BaseException:
            if asked is not None:
                await self._release(asked)
            raise
        return _Taken(claimed, asked)

    async def _release(self, asked: Asked) -> None:
        """Make room, and call who waits for it."""
        for called in self.admission.release(asked):
            await self._wake(called.environment_id, called.kind)

    async def _wake(self, environment_id: UUID, kind: str) -> None:
        """Have a worker look at once; this one's own wake-up is over when this drain is."""
        async with self._factory.context.database.control() as connection:
            await JobStore(connection).wake(environment_id, kind)

    @staticmethod
    async def _look_again(store: JobStore, scope: TenantScope, kind: str) -> None:
        """Come back when a job is tried again, or when the lease of somebody else's is over who may have died."""
        left = await store.time_left(kind)
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
        """Return how the attempt ended."""
        try:
            if job["cancel_requested_at"] is not None:
                raise StoppedError  # noqa: TRY301 - its worker has died before it could stop
            if _tried(job) > JOB_ATTEMPTS_MAX:
                # Each of its workers has died, perhaps of it.
                await self._fail(caller, scope, job, given_up())
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
        except (LostLeaseError, StoppedError):
            return await self._ended_elsewhere(caller, scope, job)
        except asyncio.CancelledError:
            # The worker ends. Where the database does not answer, the lease does the same later.
            with contextlib.suppress(UnavailableError):
                if not await self._give_back(scope, job):
                    await self._ended_elsewhere(caller, scope, job)
            raise
        except Exception as error:
            self._logger.exception("job.crashed", kind=job["kind"], error=type(error).__name__)
            return await self._after_crash(caller, scope, job, error)
        return "succeeded"

    async def _after_crash(self, caller: Caller, scope: TenantScope, job: dict[str, Any], error: Exception) -> str:
        """Have a job tried again later, or fail it after its last attempt; return how it ended."""
        delay = retry_delay(_tried(job), drawn=self._drawn())
        try:
            if _tried(job) >= JOB_ATTEMPTS_MAX:
                await self._fail(caller, scope, job, error if isinstance(error, UnavailableError) else given_up())
                return "failed"
            given = await self._give_back(scope, job, delay=delay)
        except LostLeaseError:
            given = False
        except Exception:
            # Then it is run again after its lease, as if this worker had died.
            self._logger.exception("job.not_given_back", kind=job["kind"])
            return "crashed"
        if given:
            return "crashed"
        return await self._ended_elsewhere(caller, scope, job)

    async def _ended_elsewhere(self, caller: Caller, scope: TenantScope, job: dict[str, Any]) -> str:
        """Return how an attempt has ended that may not go on: its job was cancelled, or is another's."""
        return "cancelled" if await end_cancelled(self._factory.work, caller, scope, job) else "lost"

    async def _give_back(self, scope: TenantScope, job: dict[str, Any], *, delay: timedelta | None = None) -> bool:
        """Let others have a job of which nothing is done; return whether it was still ours, and wanted.

        They may have it after ``delay``; without one they have it because this worker ends.
        """
        async with self._factory.context.database.tenant(scope) as connection:
            store = JobStore(connection)
            given = await store.give_back(job["id"], attempt=job["attempts"], now=self._clock.now(), delay=delay)
            if given:
                await store.wake(scope.environment_id, job["kind"], delay=delay or timedelta())
        return given

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
                        kept = await store.renew(
                            job["id"], attempt=job["attempts"], lease=self._lease, progress=progress
                        )
                    progress.stopped |= not kept
                except Exception:
                    # The next try may do; if none does, the lease runs out and the attempt can finish nothing.
                    self._logger.exception("job.lease_not_renewed")

        task = asyncio.create_task(renew())
        try:
            yield progress
        except asyncio.CancelledError:
            # What computes in a thread of its own cannot be cancelled, but stops where it would show its progress.
            progress.stopped = True
            raise
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _fail(self, caller: Caller, scope: TenantScope, job: dict[str, Any], error: PayrecError) -> None:
        """End the job as failed, with its problem, and whatever it is about as well."""
        async with self._factory.work.tenant(caller, scope, resumed=True) as unit:
            await end_without_effect(unit, job, error, ids=self._factory.work.ids)


def given_up() -> PayrecError:
    """Return the problem of a job that was tried as often as it may be."""
    return PayrecError(f"given up after {JOB_ATTEMPTS_MAX} attempts")
