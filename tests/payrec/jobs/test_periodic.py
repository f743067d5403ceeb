"""The tasks that the clock starts: each finds in a worker what it needs."""

from __future__ import annotations

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
