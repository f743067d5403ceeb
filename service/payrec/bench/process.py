"""The timed run, in a process of its own: what a worker does that was just started, and nothing else.

So that time and memory are the run's, not those of whoever made and loaded the data.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import structlog
import uvicorn

from payrec.config import Config
from payrec.errors import PayrecError
from payrec.factory import Factory, create_context
from payrec.jobs.runner import JobRunner
from payrec.storage.jobs import JobStore
from payrec.storage.tenants import TenantStore, scope_of

FINISHED: Final = "match_run.finished"
"""Log line of a run, which has the time of each stage."""

STATUS_FILE: Final = Path("/proc/self/status")
"""Where Linux tells the peak of this address space."""

_CRASHED: Final = "job.crashed"
_STAGE_SUFFIX: Final = "_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one run took."""

    seconds: dict[str, float]
    """``total``, from the queued job to its end, and the stages that the service tells: read, engine, commit."""
    peak_rss_mib: int
    engine_version: str
    counts: dict[str, Any]


def run_in_process(config: Config, environment_id: UUID, job_id: UUID) -> Timing:
    """Do a queued run in a new process.

    Raises
    ------
    PayrecError
        The run failed, or its process died.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(_run, config, environment_id, job_id).result()
        except BrokenProcessPool:
            raise PayrecError("the process of the run died, perhaps for want of memory") from None
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _run(config: Config, environment_id: UUID, job_id: UUID) -> Timing:
    told: list[dict[str, Any]] = []

    def keep(_logger: Any, _method: str, event: Any) -> Any:
        told.append(dict(event))
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.processors.format_exc_info, keep])
    # The loop of a worker.
    with asyncio.Runner(loop_factory=uvicorn.Config("", log_config=None).get_loop_factory()) as runner:
        total, job = runner.run(_drain(config, environment_id, job_id))
    if job["status"] != "succeeded":
        crash = next((event for event in told if event["event"] == _CRASHED), None)
        if crash is not None:
            sys.stderr.write(f"{crash.get('exception', '')}\n")
        detail = (job["error"] or {}).get("detail", "it crashed")
        raise PayrecError(f"the run ended as {job['status']}: {detail}")
    line = next(event for event in told if event["event"] == FINISHED)
    stages = {
        name.removesuffix(_STAGE_SUFFIX): value / 1000 for name, value in line.items() if name.endswith(_STAGE_SUFFIX)
    }
    return Timing(
        seconds={"total": round(total, 3), **stages},
        peak_rss_mib=peak_rss_mib(),
        engine_version=job["result"]["engineVersion"],
        counts=job["result"]["counts"],
    )


async def _drain(config: Config, environment_id: UUID, job_id: UUID) -> tuple[float, dict[str, Any]]:
    context = create_context(config)
    await context.database.open()
    try:
        runner = JobRunner(Factory(context))
        start = time.perf_counter()
        await runner.drain(environment_id, "match")
        total = time.perf_counter() - start
        async with context.database.control(readonly=True) as connection:
            scope = scope_of(await TenantStore(connection).scope(environment_id) or {})
        async with context.database.tenant(scope, readonly=True) as connection:
            job = await JobStore(connection).get(job_id)
    finally:
        await context.aclose()
    return total, job or {}


def peak_rss_mib() -> int:
    """Return the most memory that this process had at once.

    From the kernel's account of this address space where there is one: ``getrusage`` inherits the peak of the process
    that this one was started from.
    """
    if STATUS_FILE.exists():
        for line in STATUS_FILE.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024 * 1024 if sys.platform == "darwin" else 1024)
