"""The tasks that the clock starts: each finds in a worker what it needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.clock_tasks import clock_tasks
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


async def test_every_task_of_the_clock_runs_with_what_a_worker_gives_it(service: Service, acme: Tenant) -> None:
    tasks = clock_tasks(service.factory)
    assert {"announce_expiring_keys", "drop_expired", "start_due_syncs", "look_at_outboxes"} <= tasks.keys()
    assert "drop_tombstones" in tasks
    for do in tasks.values():
        await do()
    assert (await acme.get("/events")).status_code == 200


async def test_the_connections_of_jobs_and_requests_come_past_none_of_its_rounds(
    service: Service, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = service.factory.context.database._pool
    getconn, borrowers = pool.getconn, set()

    async def noted(*given: Any) -> Any:
        borrowers.add(asyncio.current_task())
        return await getconn(*given)

    monkeypatch.setattr(pool, "getconn", noted)
    started = {asyncio.ensure_future(do()) for do in clock_tasks(service.factory).values()}
    await asyncio.gather(*started)
    assert (await acme.get("/events")).status_code == 200
    assert borrowers, "requests have theirs"
    assert not borrowers & started
