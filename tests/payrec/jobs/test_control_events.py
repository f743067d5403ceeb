"""Events of tenants and keys: each environment that they concern is told once, in order, whatever crashes between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from payrec.commands.administration import ADMINISTRATOR
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.jobs.outgoing import Outgoing
from payrec.models.tenants import TenantPatch
from payrec.services.sealing import Sealer
from payrec.storage.changes import ChangeStore
from payrec.storage.control_outbox import ControlOutboxStore
from payrec.storage.migrations import head
from payrec.storage.sealing import SealingStore
from payrec.storage.tenants import TenantStore
from payrec.storage.wakeups import Unsealed, WakeUpStore
from support.events import on_their_way
from support.outgoing import telling
from support.postgres import cloned
from support.receivers import receiving
from support.service import Service, Tenant, make_config, running
from support.wire import add_key, in_control, rows, until

pytestmark = pytest.mark.anyio

ENVIRONMENTS = ("production", "test")
EVENTS = "SELECT type, resource_id::text AS resource, position FROM event ORDER BY position"


class Killed(BaseException):
    """The process has died here: nothing catches it."""


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service without a worker: nobody tells but the test."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as started:
            yield started


@pytest.fixture(scope="module")
async def acme(service: Service) -> Tenant:
    """Return a tenant with two environments, which were told of it."""
    tenant = await service.tenant("acme", environments=list(ENVIRONMENTS))
    await tell(service)
    return tenant


@pytest.fixture(scope="module")
async def globex(service: Service) -> Tenant:
    """Return another such tenant."""
    tenant = await service.tenant("globex", environments=list(ENVIRONMENTS))
    await tell(service)
    return tenant


async def tell(service: Service) -> None:
    """Do what a worker does, once, for every environment."""
    outgoing = Outgoing(service.factory)
    for waiting in await waits(service):
        async with service.factory.context.database.control(readonly=True) as connection:
            scopes = await outgoing._scopes(TenantStore(connection), [waiting], [])
        await outgoing._seal(waiting, scopes.get(waiting.environment_id))


async def waits(service: Service) -> list[Unsealed]:
    """Return what a worker finds to be told."""
    async with service.factory.context.database.control(readonly=True) as connection:
        found, _ = await WakeUpStore(connection).look(
            not_sealed=(), changes_max=1000, not_delivered=(), webhooks_max=0, crowded=(), crowded_max=0
        )
    return found


async def feed(service: Service, tenant: Tenant, environment: str = "production") -> list[tuple[str, str]]:
    """Return types and resources of the feed in its order; its places have no gap."""
    found = await rows(service, tenant, EVENTS, environment)
    assert [row["position"] for row in found] == list(range(1, len(found) + 1))
    return [(row["type"], row["resource"]) for row in found]


async def test_each_environment_is_told_of_what_concerns_it_in_order(service: Service) -> None:
    one = await service.tenant("one", environments=list(ENVIRONMENTS))
    other = await service.tenant("other", environments=["production"])
    key, elsewhere = await add_key(one), await add_key(one, "test")
    made = await one.post("/expected-transactions", {"direction": "credit", "currency": "EUR", "amount": "1.00"})
    await one.request("PATCH", f"/tenants/{one.id}/settings", json={"timezone": "Europe/Berlin"})
    for _ in range(2):
        assert (await one.request("DELETE", f"/auth/api-keys/{key['id']}")).status_code == 204
    for _ in range(2):
        wanted = TenantPatch(status="suspended")
        await service.factory.create_tenant_service().patch(ADMINISTRATOR, one.id, wanted, None)
    await tell(service)
    told = await feed(service, one)
    told.remove(("expected_transaction.created", made.json()["id"]))
    # Of one resource in order; what is revoked or suspended again is told of once.
    created, *later = [(f"tenant.{verb}", one.id) for verb in ("created", "settings_updated", "suspended")]
    of_key = [(f"api_key.{verb}", key["id"]) for verb in ("created", "revoked")]
    assert [event for event in told if event[1] == one.id] == [created, *later]
    assert [event for event in told if event[1] == key["id"]] == of_key
    assert len(told) == 5
    assert await feed(service, one, "test") == [created, ("api_key.created", elsewhere["id"]), *later]
    assert await feed(service, other) == [("tenant.created", other.id)]
    assert await waits(service) == []
    # They are as old as what they tell of, and the records of them stay where they were written.
    dated = "SELECT count(*) AS n FROM event e JOIN change c ON c.at = e.occurred_at WHERE e.type ~ '^(tenant|api_key)'"
    assert await rows(service, one, dated) == [{"n": 5}]
    recorded = "SELECT 1 FROM audit_record r JOIN event e USING (resource_id) WHERE e.type ~ '^(tenant|api_key)'"
    assert await rows(service, one, recorded) == []


async def test_what_is_rolled_back_is_told_nobody(service: Service, acme: Tenant) -> None:
    before = await feed(service, acme)
    refused = await acme.request("PATCH", f"/tenants/{acme.id}/settings", json={"timezone": "Nowhere/Else"})
    assert refused.status_code == 422
    assert await on_their_way(service, acme) == []
    await tell(service)
    assert await feed(service, acme) == before


async def test_an_environment_without_tables_is_told_when_it_has_some(service: Service) -> None:
    tenant = await service.tenant("halfway", environments=["production"])
    revision = "UPDATE tenant_environment SET revision = %s WHERE tenant_id = %s"
    await in_control(service, revision, None, tenant.id)
    environments = {UUID(str(row["environment_id"])) for row in await on_their_way(service, tenant)}
    assert len(environments) == 1
    assert environments.isdisjoint(waiting.environment_id for waiting in await waits(service))
    await in_control(service, revision, head("tenant"), tenant.id)
    await tell(service)
    assert await feed(service, tenant) == [("tenant.created", tenant.id)]


async def test_what_was_on_its_way_goes_with_its_environment(service: Service) -> None:
    tenant = await service.tenant("leaving", environments=["production"])
    assert len(await on_their_way(service, tenant)) == 1
    await in_control(service, "DELETE FROM app_user WHERE tenant_id = %s", tenant.id)
    await in_control(service, "DELETE FROM tenant_environment WHERE tenant_id = %s", tenant.id)
    async with service.factory.context.database.control(readonly=True) as connection:
        found = await connection.execute("SELECT 1 FROM outbox WHERE resource_id = %s", (tenant.id,))
        assert await found.fetchall() == []


@pytest.mark.parametrize(
    ("of", "name", "is_after"),
    [
        (ControlOutboxStore, "get", False),
        (ControlOutboxStore, "get", True),
        (ChangeStore, "take_over", False),
        (ChangeStore, "take_over", True),
        (SealingStore, "hold", False),
        (SealingStore, "look", True),
        (SealingStore, "move", False),
        (SealingStore, "move", True),
        (Sealer, "seal", True),
        (WakeUpStore, "sealed", False),
        (ControlOutboxStore, "forget", False),
        (ControlOutboxStore, "forget", True),
    ],
)
async def test_whoever_dies_between_two_steps_loses_and_doubles_nothing(
    service: Service,
    acme: Tenant,
    globex: Tenant,
    monkeypatch: pytest.MonkeyPatch,
    of: type,
    name: str,
    is_after: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    before = {tenant.slug: await feed(service, tenant) for tenant in (acme, globex)}
    mine, theirs = await add_key(acme), await add_key(globex)
    step = getattr(of, name)

    async def killed(*given: Any, **more: Any) -> Any:
        if is_after:
            await step(*given, **more)
        raise Killed

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(of, name, killed)
            with pytest.raises(Killed):
                await tell(service)
    assert await waits(service) != []
    await tell(service)
    assert await feed(service, acme) == [*before["acme"], ("api_key.created", mine["id"])]
    assert await feed(service, globex) == [*before["globex"], ("api_key.created", theirs["id"])]
    assert await waits(service) == []


async def test_many_at_once_tell_each_event_once_in_the_order_of_its_resource(
    service: Service, acme: Tenant, globex: Tenant
) -> None:
    before = {tenant.slug: len(await feed(service, tenant)) for tenant in (acme, globex)}
    chance = random.Random(5)  # noqa: S311 - the same each time, no secret

    async def busy(tenant: Tenant) -> str:
        await asyncio.sleep(chance.random() * 0.2)
        key = await add_key(tenant)
        await asyncio.sleep(chance.random() * 0.2)
        await tenant.request("DELETE", f"/auth/api-keys/{key['id']}")
        return str(key["id"])

    tenants = [acme, globex] * 10
    async with telling(service), telling(service), telling(service):
        keys = await asyncio.gather(*(busy(tenant) for tenant in tenants))

        async def all_told() -> bool | None:
            return await waits(service) == [] or None

        await until(all_told)
    for tenant in (acme, globex):
        told = (await feed(service, tenant))[before[tenant.slug] :]
        mine = [key for key, of in zip(keys, tenants, strict=True) if of is tenant]
        assert sorted(told) == sorted((f"api_key.{verb}", key) for key in mine for verb in ("created", "revoked"))
        assert all(told.index(("api_key.created", key)) < told.index(("api_key.revoked", key)) for key in mine)


async def test_a_webhook_is_told_of_its_own_environment_s_keys(service: Service, acme: Tenant, globex: Tenant) -> None:
    async with receiving() as receiver, telling(service):
        for tenant in (acme, globex):
            wanted = {"url": f"{receiver.url}?{tenant.slug}", "events": ["api_key.created"]}
            assert (await tenant.post("/webhooks", wanted)).status_code == 201
        mine, theirs, _unheard = await add_key(acme), await add_key(globex), await add_key(acme, "test")

        async def both() -> bool | None:
            return len(receiver.received) == 2 or None

        await until(both)
    came = {(one.resource, one.request.query_string) for one in receiver.received}
    assert came == {(mine["id"], "acme"), (theirs["id"], "globex")}
