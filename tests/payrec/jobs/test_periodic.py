"""The tasks that the clock starts: each finds in a worker what it needs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from payrec.jobs.app import create_app
from payrec.jobs.runner import JobRunner
from payrec.jobs.worker import context_of
from support.service import Service, Tenant, direct_url

pytestmark = pytest.mark.anyio


async def test_every_task_of_the_clock_runs_with_what_a_worker_gives_it(service: Service, acme: Tenant) -> None:
    factory = service.factory
    app = create_app(url=direct_url(factory.context.config))
    given = SimpleNamespace(additional_context=context_of(factory, JobRunner(factory)))
    names = {periodic.task.name for periodic in app.periodic_registry.periodic_tasks.values()}
    assert {"announce_expiring_keys", "drop_expired", "start_due_syncs", "look_at_outboxes"} <= names
    assert "drop_tombstones" in names
    for periodic in app.periodic_registry.periodic_tasks.values():
        await periodic.task.func(given, timestamp=0)
    assert (await acme.get("/events")).status_code == 200
