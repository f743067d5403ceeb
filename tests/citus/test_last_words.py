"""The coordinator commits before the worker does: what it tells of is not lost, however late the worker hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.services.sealing import Sealer
from payrec.storage.rows import fetch_one
from support.causes import feed
from support.citus import CitusServer
from support.citus_wire import Wire
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
