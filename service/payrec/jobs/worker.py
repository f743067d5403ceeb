"""The worker process: takes wake-ups, gives those of dead workers to the living, and tells others of events."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from procrastinate import App
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status

from payrec.constants.jobs import WORKER_GRACE_SECONDS
from payrec.factory import Factory
from payrec.jobs.app import QUEUE, create_app
from payrec.jobs.outgoing import Outgoing
from payrec.jobs.pauses import Pauses
from payrec.jobs.runner import JobRunner
from payrec.services.overdue_notices import OverdueNoticeService
from payrec.services.statement_notices import StatementNoticeService
from payrec.storage.jobs import LEASE

WAKE_UPS_BESIDE: Final = 2
"""Wake-ups at once beside those whose jobs run: tasks of the clock, and those for which there is no room."""

THREADS_PER_JOB: Final = 4
"""Threads at once for a job: both sides of a run are read at the same time, while its learning computes."""

HEARTBEAT_SECONDS: Final = 5.0
"""Between two signs of life of a worker."""

STALLED_SECONDS: Final = 15.0
"""Silence after which a worker is taken for dead."""

POLLING_SECONDS: Final = 5.0
"""Between two looks for wake-ups whose time has come; those for now are notified."""

LONG_DUE: Final = datetime.fromtimestamp(0, UTC)
"""When a wake-up is due that is given away: by the database's clock, which alone counts. By one that is ahead it would
wait, and all wake-ups with it for which it stands, and so a match run that others may not begin beside."""


async def run_worker(
    factory: Factory,
    *,
    ready: asyncio.Event | None = None,
    lease: timedelta = LEASE,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    stalled_seconds: float = STALLED_SECONDS,
    polling_seconds: float = POLLING_SECONDS,
    grace_seconds: float = WORKER_GRACE_SECONDS,
    memory_bytes: int | None = None,
) -> None:
    """Work until cancelled; then begin nothing, finish what is over within the grace, and give the rest to others.

    ``memory_bytes`` is what jobs are admitted against, else what the process may use.
    """
    config = factory.context.config
    app = create_app(url=config.jobs_database_url or config.database_url)
    async with app.open_async(), Outgoing(factory).running():
        runner = JobRunner(factory, lease=lease, memory_bytes=memory_bytes)
        factory.context.metrics.watch_jobs(runner.admission)
        # The default has few more than there are cores, and small jobs would wait for the threads of large ones.
        threads = ThreadPoolExecutor(THREADS_PER_JOB * runner.admission.places, thread_name_prefix="job")
        asyncio.get_running_loop().set_default_executor(threads)
        rescuer = asyncio.create_task(_rescue(app, every=heartbeat_seconds, stalled_seconds=stalled_seconds))
        try:
            if ready is not None:
                ready.set()
            pauses, now = Pauses(), asyncio.get_running_loop().time
            while True:
                began = now()
                working = asyncio.create_task(
                    app.run_worker_async(
                        queues=[QUEUE],
                        concurrency=runner.admission.places + WAKE_UPS_BESIDE,
                        delete_jobs="always",
                        install_signal_handlers=False,
                        shutdown_graceful_timeout=grace_seconds,
                        fetch_job_polling_interval=polling_seconds,
                        update_heartbeat_interval=heartbeat_seconds,
                        stalled_worker_timeout=stalled_seconds,
                        additional_context=context_of(factory, runner),
                    )
                )
                await _taken(working, runner)
                await asyncio.sleep(pauses.after(now() - began))
        finally:
            rescuer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await rescuer


async def _taken(working: asyncio.Task[None], runner: JobRunner) -> None:
    """Take wake-ups until this is cancelled, or the database was away.

    The wake-ups that are under way then are given to others, as those of a worker that died: who begins again is
    another worker to procrastinate.
    """
    try:
        await asyncio.shield(working)
    except ConnectorException:
        pass
    except asyncio.CancelledError:
        runner.stop()
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectorException):
            await working
        raise
    structlog.get_logger("payrec.worker").warning("worker.queue_lost")


def context_of(factory: Factory, runner: JobRunner) -> dict[str, Any]:
    """Return what the tasks of ``create_app`` use or do, by the names under which they look for it."""
    return {
        "runner": runner,
        "announce_expiring_keys": factory.upkeep.create_api_key_expiry_service().announce,
        "announce_missing_statements": StatementNoticeService(work=factory.work).announce,
        "announce_overdue": OverdueNoticeService(work=factory.work).announce,
        "collect_objects": factory.upkeep.create_blob_collector().collect,
        "drop_expired": factory.upkeep.create_retention_service().drop_expired,
        "drop_tombstones": factory.tenants.create_tombstone_service().drop_due,
        "look_at_outboxes": factory.upkeep.create_sealer().look_everywhere,
        "seal_audit_logs": factory.upkeep.create_audit_sealer().seal_everywhere,
        "start_due_syncs": factory.sources.create_sync_service().start_due,
        "take_census": factory.measurement.take_census,
        "tell_of_waiting": factory.upkeep.create_waiting_service().tell_again,
    }


async def _rescue(app: App, *, every: float, stalled_seconds: float) -> None:
    """Give the wake-ups of workers that died to the living, for ever."""
    logger = structlog.get_logger("payrec.worker")
    while True:
        try:
            found = await app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=stalled_seconds)
            for job in found:
                await _give_away(app, job)
                logger.warning("worker.rescued", wake_up=job.id)
        except ConnectorException as error:
            logger.warning("worker.rescue_failed", error=type(error).__name__)
        await asyncio.sleep(every)


async def _give_away(app: App, job: Job) -> None:
    """Let another worker have a wake-up, unless the same one is waiting already: then this one is of no use."""
    try:
        await app.job_manager.retry_job(job, retry_at=LONG_DUE)
    except UniqueViolation:
        await app.job_manager.finish_job(job, status=Status.FAILED, delete_job=True)
