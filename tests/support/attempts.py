"""Attempts at jobs within the test's own process, held where it wants them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from payrec.domain.scope import TenantScope
from payrec.factory import ProcessContext
from payrec.jobs.runner import JobRunner
from payrec.storage.jobs import JobStore
from support.events import TOLD
from support.matching_world import World

LAPSE = "UPDATE job SET lease_until = statement_timestamp() - interval '1 second' WHERE status = 'running'"
"""Ends the leases of all running jobs, as if their workers had died."""

DUE = "UPDATE job SET next_attempt_at = statement_timestamp() WHERE status = 'queued'"
"""Lets whatever has failed be tried again now."""


class Pause:
    """Stops whoever comes first at a method, before it, until told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        original = getattr(owner, name)
        first = True

        async def paused(*given: Any, **more: Any) -> Any:
            nonlocal first
            stop, first = first, False
            if stop:
                self.reached.set()
                await self.go_on.wait()
            return await original(*given, **more)

        monkeypatch.setattr(owner, name, paused)


def drain(world: World, kind: str = "match", lease: float = 15.0) -> asyncio.Task[None]:
    """Be a worker that does what waits in the first environment; ``lease`` is in seconds."""
    runner = JobRunner(world.service.factory, lease=timedelta(seconds=lease))
    return asyncio.create_task(runner.drain(world.scope.environment_id, kind))


async def queued_run(world: World) -> str:
    """Ask for a run, and return its job's id; nobody waits for it."""
    return str((await world.tenant.post("/matches/match", {"wait": 0})).json()["jobId"])


async def events_of(world: World, job_id: str) -> list[str]:
    """Return the types of what was told of a job, in order."""
    rows = await world.sql(f"SELECT type FROM {TOLD} WHERE resource_id = %s ORDER BY place", job_id)  # noqa: S608
    return [row["type"] for row in rows]


async def queue(context: ProcessContext, scope: TenantScope, kind: str = "import", **params: Any) -> UUID:
    """Queue a job of a tenant environment, and tell the workers."""
    job_id, now = context.ids.new(), context.clock.now()
    async with context.database.tenant(scope) as connection:
        store = JobStore(connection)
        await store.add(
            {
                "id": job_id,
                "created_at": now,
                "updated_at": now,
                "kind": kind,
                "status": "queued",
                "actor": "user:test",
                "request_id": "test",
                "params": params,
            }
        )
        await store.wake(scope.environment_id, kind)
    return job_id
