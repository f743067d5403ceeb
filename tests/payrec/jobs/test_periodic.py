"""The tasks that the clock starts: each finds in a worker what it needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from payrec.domain.scope import TenantScope
from payrec.errors import UnavailableError
from payrec.storage.database import Database
from support.clock_tasks import clock_tasks
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


async def test_every_task_of_the_clock_runs_with_what_a_worker_gives_it(service: Service, acme: Tenant) -> None:
    tasks = clock_tasks(service.factory)
    assert {
        "announce_expiring_keys",
        "drop_expired",
        "start_due_syncs",
        "look_at_outboxes",
        "tell_of_waiting",
    } <= tasks.keys()
    assert {"drop_tombstones", "tell_of_waiting"} <= tasks.keys()
    for do in tasks.values():
        await do()
    assert (await acme.get("/events")).status_code == 200


ROUNDS = (
    "announce_missing_statements",
    "announce_overdue",
    "drop_expired",
    "seal_audit_logs",
    "start_due_syncs",
    "take_census",
    "tell_of_waiting",
)
"""Tasks that come through the tenant environments, whatever is kept outside of the database."""


@pytest.mark.parametrize("name", ROUNDS)
async def test_a_round_ends_where_the_database_is_away_and_at_no_single_environment(
    service: Service, acme: Tenant, globex: Tenant, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    asked: list[str] = []
    opened = Database.tenant

    def failing(database: Database, scope: TenantScope, **how: Any) -> Any:
        # The service's own worker goes on.
        if asyncio.current_task() is not begun:
            return opened(database, scope, **how)
        asked.append(str(scope.environment_id))
        raise UnavailableError("no database connection is available")

    async def away(_database: Database) -> None:
        raise UnavailableError("the database cannot be reached")

    assert acme.id != globex.id
    monkeypatch.setattr(Database, "tenant", failing)
    begun = asyncio.ensure_future(clock_tasks(service.factory)[name]())
    await begun
    assert len(set(asked)) >= len((acme, globex))
    asked.clear()
    monkeypatch.setattr(Database, "ping", away)
    begun = asyncio.ensure_future(clock_tasks(service.factory)[name]())
    with pytest.raises(UnavailableError):
        await begun
    assert len(asked) == 1


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
