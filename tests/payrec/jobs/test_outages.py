"""Service, worker and database go down in the middle of it: what was asked for is there in the end, each once."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from aiohttp import web

from payrec.domain.scope import TenantScope
from support.causes import everything_once, feed
from support.outages import Installation, Ledger, happened, installed
from support.outgoing import TYPE
from support.postgres import cloned, crashing
from support.receivers import Received, receiving
from support.tenant_data import scope_of_tenant
from support.wire import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.not_on_citus("it crashes a server that it has started itself, and none of the cluster's"),
]

RESOURCES = [UUID(int=n) for n in range(1, 6)]
CHANGES = 40
"""Changes of each resource."""


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    with crashing() as (postgres, crash), cloned(postgres) as database:
        async with installed(database, crash, tmp_path_factory.mktemp("installed")) as made:
            yield made


async def test_processes_that_stay_do_everything_once_while_the_database_crashes(place: Installation) -> None:
    await everything_once(place, await place.service.tenant("acme"), await place.service.tenant("globex"))


async def test_a_receiver_gets_each_event_in_order_through_restarts_of_everything(place: Installation) -> None:
    tenant = await place.service.tenant("initech", environments=["production"])
    factory = place.service.factory
    scope = await scope_of_tenant(factory, tenant)
    ledger = Ledger("")
    made, answers = dict.fromkeys(RESOURCES, 0), itertools.count(1)
    over = asyncio.Event()

    def take(came: Received) -> web.Response:
        ledger.take(came)
        # Now and then an answer is lost though the message was taken.
        return web.Response(status=503 if next(answers) % 50 == 0 else 204)

    async def causes(resource: UUID) -> None:
        while made[resource] < CHANGES or not over.is_set():
            made[resource] += 1
            await happened(factory, scope, resource, made[resource])
            await asyncio.sleep(0.2)

    async def faults() -> None:
        assert await place.end_worker(signal.SIGKILL) == -signal.SIGKILL
        async with place.service.factory.context.database.tenant(scope) as connection:
            # A dead worker's lease lasts for half a minute: it is over.
            await connection.execute("UPDATE webhook SET lease_until = now()")
        await place_due(place, scope)
        await place.work()
        await place.crash_database()
        assert await place.end_service(signal.SIGTERM) == 0
        await place.serve()
        assert await place.end_worker(signal.SIGTERM) == 0
        await place.work()
        assert await place.end_service(signal.SIGKILL) == -signal.SIGKILL
        await place.crash_database(seconds=1.0)
        await place.serve()
        over.set()

    async with receiving(take) as receiver:
        hook = await tenant.post("/webhooks", {"url": receiver.url, "events": [TYPE]})
        ledger.secret = hook.json()["secret"]
        await asyncio.gather(faults(), *(causes(resource) for resource in RESOURCES))
        count = sum(made.values())

        async def all_there() -> bool | None:
            await place_due(place, scope)
            return len(ledger.seen) >= count or None

        await until(all_there, seconds=240)
    found = ledger.by_resource()
    for resource in RESOURCES:
        messages = found[str(resource)]
        assert [m["data"]["number"] for m in messages] == list(range(1, made[resource] + 1))
        assert [m["timestamp"] for m in messages] == sorted(m["timestamp"] for m in messages)
    events = [event for event in await feed(tenant, count, {TYPE}) if event["type"] == TYPE]
    assert {event["id"] for event in events} == set(ledger.seen)
    assert len(events) == count


async def place_due(place: Installation, scope: TenantScope) -> None:
    """Let what waits for its next attempt be tried now."""
    database = place.service.factory.context.database
    async with database.tenant(scope) as connection:
        # Deliveries are changed by who holds their endpoint: without that, this and a worker could wait for each other.
        await connection.execute("SELECT FROM webhook FOR NO KEY UPDATE")
        await connection.execute("UPDATE webhook_delivery SET next_attempt_at = now() WHERE status = 'pending'")
    async with database.control() as connection:
        await connection.execute("UPDATE webhook_queue SET due_at = now()")
