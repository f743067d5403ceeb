"""Requests of one tenant that take long, whatever for, leave connections to those of other tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support.places import held, look, wait_for
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.tenant_data import scope_of_tenant
from support.wire import add_user, in_control, until

pytestmark = pytest.mark.anyio

CONNECTIONS = 4
REQUESTS = 12
LISTS = "/expected-transactions"
ITEM = {"amountMinor": 500, "currency": "EUR", "direction": "credit", "dueDate": "2026-01-02"}
WAITING = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
"""Requests that wait in the database."""

SECONDS_MAX = 5.0
"""Within which somebody else is answered; who waits for a connection is refused after ten."""


@dataclass(slots=True, kw_only=True)
class Site:
    """A service with few connections, and two tenants."""

    database: EmbeddedDatabase
    service: Service
    slow: Tenant
    other: Tenant

    @asynccontextmanager
    async def held(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """Keep everybody from a table of the slow tenant, as a query does that never ends."""
        scope = await scope_of_tenant(self.service.factory, self.slow)
        async with held(self.database.superuser_url, scope, "expected_transaction") as connection:
            yield connection

    async def share_is_had(self) -> None:
        """Wait until as many requests wait in the database as a tenant has connections."""
        await wait_for(self.database.superuser_url, f"{WAITING} HAVING count(DISTINCT pid) >= {CONNECTIONS // 2}")

    async def others_are_answered(self) -> None:
        """Look that the other tenant is answered in time, again and again."""
        async with asyncio.timeout(SECONDS_MAX):
            for _ in range(20):
                assert (await self.other.get(LISTS)).status_code == 200


@pytest.fixture(scope="module")
async def site(postgres: EmbeddedPostgres) -> AsyncIterator[Site]:
    """Run the service."""
    with cloned(postgres) as database:
        async with running(make_config(database, database_pool_size=CONNECTIONS), worker=False) as service:
            slow, other = await service.tenant("slow"), await service.tenant("other")
            yield Site(database=database, service=service, slow=slow, other=other)


async def test_a_tenant_whose_requests_hang_keeps_no_other_waiting(site: Site) -> None:
    async with site.held() as holder, asyncio.TaskGroup() as group:
        asked = [group.create_task(site.slow.get(LISTS)) for _ in range(REQUESTS)]
        await site.share_is_had()
        await site.others_are_answered()
        assert await look(site.database.superuser_url, WAITING) == [(CONNECTIONS // 2,)]
        await holder.rollback()
    assert {task.result().status_code for task in asked} == {200}


async def test_who_waits_for_its_share_has_no_connection_meanwhile_even_where_it_wants_two(site: Site) -> None:
    name, _ = await add_user(site.service, site.slow, "approver")
    users = await site.service.factory.create_user_service().of_tenant(UUID(site.slow.id))
    [user_id] = [user["id"] for user in users if user["username"] == name]
    await in_control(site.service, "UPDATE app_user SET status = 'disabled' WHERE id = %s", user_id)
    wanted = {"userId": str(user_id), "reason": "asked for it"}
    async with site.held() as holder, asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS // 2):
            group.create_task(site.slow.get(LISTS))
        await site.share_is_had()
        asked = [group.create_task(site.slow.post("/privacy/erasures", wanted)) for _ in range(REQUESTS)]
        await site.others_are_answered()
        await holder.rollback()
    assert {task.result().status_code for task in asked} == {201}


async def test_who_waits_for_too_long_is_told_that_its_own_requests_are_too_many(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.storage.database.POOL_TIMEOUT_SECONDS", 2.0)
    async with site.held() as holder, asyncio.TaskGroup() as group:
        asked = [group.create_task(site.slow.get(LISTS)) for _ in range(REQUESTS)]

        async def others_are_refused() -> bool | None:
            return sum(task.done() for task in asked) == REQUESTS - CONNECTIONS // 2 or None

        await until(others_are_refused)
        await holder.rollback()
    answers = [task.result() for task in asked]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) == REQUESTS - CONNECTIONS // 2
    assert {(a.status_code, a.json()["code"]) for a in refused} == {(429, "rate_limited")}
    assert {a.headers["retry-after"] for a in refused} == {"1"}
    assert (await site.slow.get(LISTS)).status_code == 200, "what was taken is given back"


async def test_who_waits_for_what_another_transaction_holds_is_told_so_in_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.storage.database.LOCK_SECONDS_MAX", 0.2)
    async with site.held():
        for asked in (site.slow.get(LISTS), site.slow.post(LISTS, ITEM)):
            refused = await asked
            assert (refused.status_code, refused.json()["code"]) == (503, "service_unavailable")
            assert refused.json()["detail"] == "others were changing the same"
            assert int(refused.headers["retry-after"]) > 0
        await site.others_are_answered()
    assert (await site.slow.get(LISTS)).json()["data"] == []
