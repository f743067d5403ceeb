"""The coordinator commits before the worker does: what it tells of is not lost, however late the worker hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.services.sealing import Sealer
from payrec.storage.rows import fetch_one
from support.causes import ended, feed
from support.citus import CitusServer
from support.citus_wire import Wire
from support.clock_tasks import clock_tasks
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.tenant_data import scope_of_tenant
from support.wire import until

pytestmark = pytest.mark.anyio

ITEM = {"direction": "credit", "currency": "EUR", "amount": "1.00"}


@pytest.fixture(scope="module")
def addresses(postgres: CitusServer) -> Iterator[EmbeddedDatabase]:
    with cloned(cast("EmbeddedPostgres", postgres)) as made:
        yield made


@pytest.fixture(scope="module")
async def wire(postgres: CitusServer, addresses: EmbeddedDatabase) -> AsyncIterator[Wire]:
    made = Wire(postgres.nodes[1])
    async with made.laid(addresses):
        yield made


@pytest.fixture(scope="module")
async def service(addresses: EmbeddedDatabase, wire: Wire) -> AsyncIterator[Service]:  # noqa: ARG001 - it is laid
    async with running(make_config(addresses)) as started:
        yield started


async def tenant_behind(wire: Wire, service: Service, addresses: EmbeddedDatabase, slug: str) -> Tenant:
    """Make a tenant whose schema is on the worker at the end of the wire."""
    tenant = await service.tenant(slug, environments=["production"])
    await feed(tenant, 1, {"tenant.created"})
    scope = await scope_of_tenant(service.factory, tenant)
    await asyncio.to_thread(wire.take, addresses, scope.schema_name)
    return tenant


def recover(database: EmbeddedDatabase) -> None:
    """Commit what is left of transactions whose connections were lost, as Citus does by itself every minute."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("SELECT recover_prepared_transactions()")


async def test_an_event_gets_its_place_though_it_was_told_of_before_it_could_be_seen(
    service: Service, addresses: EmbeddedDatabase, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await tenant_behind(wire, service, addresses, "acme")
    settled, looks = Sealer.settled, []

    async def noted(sealer: Sealer, *given: Any) -> Any:
        looks.append(await settled(sealer, *given))
        return looks[-1]

    monkeypatch.setattr(Sealer, "settled", noted)
    with wire.holding():
        posting = asyncio.create_task(tenant.post("/expected-transactions", ITEM))
        await asyncio.wait_for(wire.is_waited_for.wait(), 10)

        async def looked_twice() -> bool | None:
            return len(looks) > 1 or None

        await until(looked_twice)
        assert not any(looks), "the change cannot be seen"
    made = (await posting).json()["id"]
    *_, event = await feed(tenant, 1, {"expected_transaction.created"})
    assert event["resourceId"] == made

    async def none_is_left() -> bool | None:
        async with service.factory.context.database.control(readonly=True) as connection:
            return await fetch_one(connection, "SELECT FROM unsealed_change") is None or None

    await until(none_is_left)


async def test_a_job_is_done_though_its_wake_up_came_while_it_was_not_committed(
    service: Service, addresses: EmbeddedDatabase, wire: Wire
) -> None:
    tenant = await tenant_behind(wire, service, addresses, "globex")
    body = {"kind": "export", "params": {"resource": "matches", "format": "csv"}}
    with wire.cutting():
        job_id = (await tenant.post("/jobs", body)).json()["id"]
        assert (await tenant.get(f"/jobs/{job_id}")).status_code == 404

        async def has_looked() -> bool | None:
            async with service.factory.context.database.queue() as connection:
                return await fetch_one(connection, "SELECT FROM procrastinate_jobs") is None or None

        await until(has_looked)
    await asyncio.to_thread(recover, addresses)
    assert (await tenant.get(f"/jobs/{job_id}")).json()["status"] == "queued"
    await clock_tasks(service.factory)["tell_of_waiting"]()
    assert (await ended(tenant, f"/jobs/{job_id}"))["status"] == "succeeded"
