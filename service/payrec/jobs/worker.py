"""The worker process: takes wake-ups, and gives those of dead workers to the living."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from procrastinate import App
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status

from payrec.factory import Factory
from payrec.jobs.app import QUEUE, create_app
from payrec.jobs.runner import JobRunner
from payrec.storage.jobs import LEASE

CONCURRENCY: Final = 4
"""Wake-ups that one worker works on at once; a run computes in a thread of its own."""

HEARTBEAT_SECONDS: Final = 5.0
"""Between two signs of life of a worker."""

STALLED_SECONDS: Final = 15.0
"""Silence after which a worker is taken for dead."""

POLLING_SECONDS: Final = 5.0
"""Between two looks for wake-ups whose time has come; those for now are notified."""


async def run_worker(
    factory: Factory,
    *,
    ready: asyncio.Event | None = None,
    lease: timedelta = LEASE,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    stalled_seconds: float = STALLED_SECONDS,
    polling_seconds: float = POLLING_SECONDS,
) -> None:
    """Work until cancelled; then finish what runs, within the lease that others wait for."""
    config = factory.context.config
    app = create_app(url=config.jobs_database_url or config.database_url)
    async with app.open_async():
        rescuer = asyncio.create_task(_rescue(app, every=heartbeat_seconds, stalled_seconds=stalled_seconds))
        try:
            if ready is not None:
                ready.set()
            await app.run_worker_async(
                queues=[QUEUE],
                concurrency=CONCURRENCY,
                delete_jobs="always",
                install_signal_handlers=False,
                shutdown_graceful_timeout=30.0,
                fetch_job_polling_interval=polling_seconds,
                update_heartbeat_interval=heartbeat_seconds,
                stalled_worker_timeout=stalled_seconds,
                additional_context={
                    "runner": JobRunner(factory, lease=lease),
                    "key_expiry": factory.create_api_key_expiry_service(),
                },
            )
        finally:
            rescuer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await rescuer


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
        await app.job_manager.retry_job(job, retry_at=datetime.now(UTC))
    except UniqueViolation:
        await app.job_manager.finish_job(job, status=Status.FAILED, delete_job=True)
