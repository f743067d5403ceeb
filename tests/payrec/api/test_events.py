"""The feed over HTTP: every event once, in an order that is right for each resource, whenever who commits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from payrec.domain.changes import Record
from payrec.domain.events import EVENT_TYPES
from payrec.domain.scope import TenantScope
from payrec.storage import changes, control_outbox
from payrec.storage.changes import ChangeStore
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant
from support.wire import fields, rows, until

pytestmark = pytest.mark.anyio

PATH = "/events"
MONEY = {"direction": "credit", "currency": "EUR", "amount": "10.00"}


async def feed(tenant: Tenant, environment: str = "production", **parameters: Any) -> list[dict[str, Any]]:
    answer = await tenant.get(PATH, environment, params={"sort": "createdAt", "limit": 200, **parameters})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def told_of_itself(tenant: Tenant, *environments: str) -> None:
    """Wait for the first event of a new tenant's environments: that it was made."""

    async def all_told() -> bool | None:
        return all([await feed(tenant, environment) for environment in environments]) or None

    await until(all_told)


async def expect(tenant: Tenant, environment: str = "production") -> str:
    answer = await tenant.post("/expected-transactions", MONEY, environment)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_a_poll_goes_on_after_the_last_position(service: Service) -> None:
    tenant = await service.tenant("polling", environments=["production", "test"])
    await told_of_itself(tenant, "production", "test")
    made = [await expect(tenant) for _ in range(5)]
    elsewhere = await expect(tenant, "test")
    seen: list[dict[str, Any]] = []

    async def all_seen() -> bool | None:
        seen.extend(await feed(tenant, limit=2, after=seen[-1]["position"] if seen else 1))
        return len(seen) >= 5 or None

    await until(all_seen)
    assert [event["resourceId"] for event in seen] == made
    assert [event["position"] for event in seen] == [2, 3, 4, 5, 6]
    assert await feed(tenant, after=6) == []

    async def other() -> list[dict[str, Any]] | None:
        return await feed(tenant, "test", after=1) or None

    assert [(e["resourceId"], e["position"]) for e in await until(other)] == [(elsewhere, 2)]
    # By pages and by filters.
    whole = (await tenant.get(PATH, params={"limit": 200})).json()["data"]
    [first] = await feed(tenant, to=seen[0]["createdAt"], type="tenant.created")
    assert whole == [*reversed(seen), first]
    url, paged = f"{PATH}?limit=2", []
    while url:
        answer = await tenant.get(url)
        paged += answer.json()["data"]
        url = answer.links["next"]["url"] if "next" in answer.links else ""
    assert paged == whole
    assert await feed(tenant, resourceId=made[2]) == [seen[2]]
    assert await feed(tenant, type="match.accepted") == []
    assert await feed(tenant, **{"from": seen[3]["createdAt"]}) == seen[3:]
    assert await feed(tenant, to=seen[1]["createdAt"]) == [first, *seen[:2]]
    assert fields(await tenant.get(PATH, params={"after": -1})) == {("after", "greater_than_equal")}
    assert (await tenant.get(f"{PATH}/x")).status_code == 404


async def commit(service: Service, scope: TenantScope, *, gate: asyncio.Event, began: asyncio.Event) -> str:
    """Write an event and commit when the gate opens."""
    ids = service.factory.context.ids
    resource = ids.new()
    async with service.factory.context.database.tenant(scope) as connection:
        await ChangeStore(connection).finish(
            ids.new(),
            environment_id=scope.environment_id,
            actor="test",
            request_id="test",
            records=[Record(action="match.accepted", resource_id=resource)],
        )
        began.set()
        await gate.wait()
    return str(resource)


async def test_no_poll_ever_skips_what_commits_late_and_nobody_waits_for_it(service: Service) -> None:
    slow, other = await service.tenant("slow"), await service.tenant("other")
    await told_of_itself(slow, "production")
    await told_of_itself(other, "production")
    scope = await scope_of_tenant(service.factory, slow)
    gate, began = asyncio.Event(), asyncio.Event()
    late = asyncio.create_task(commit(service, scope, gate=gate, began=began))
    await began.wait()
    # Its number in the outbox is smaller than those of all that follow, and it has not committed.
    made, theirs = [await expect(slow) for _ in range(3)], await expect(other)

    async def others_are_there() -> list[dict[str, Any]] | None:
        found = await feed(slow, after=1)
        return found if len(found) == 3 and len(await feed(other, after=1)) == 1 else None

    seen = await until(others_are_there, seconds=10)
    assert [event["resourceId"] for event in seen] == made
    assert [event["resourceId"] for event in await feed(other, after=1)] == [theirs]
    gate.set()
    resource = await late

    async def more() -> list[dict[str, Any]] | None:
        return await feed(slow, after=seen[-1]["position"]) or None

    [event] = await until(more)
    assert (event["resourceId"], event["position"]) == (resource, 5)


async def test_an_outbox_that_nobody_spoke_of_is_found_once_a_day(service: Service) -> None:
    tenant = await service.tenant("silent", environments=["production"])
    await told_of_itself(tenant, "production")
    made = "INSERT INTO outbox (change_id, ordinal, type, resource_ids) VALUES (%s, 1, 'job.failed', ARRAY[%s]::uuid[])"
    await rows(service, tenant, made.replace("%s", "gen_random_uuid()") + " RETURNING ordinal")
    assert await feed(tenant, after=1) == []
    await service.factory.upkeep.create_sealer().look_everywhere()

    async def found() -> list[dict[str, Any]] | None:
        return await feed(tenant, after=1) or None

    assert [event["type"] for event in await until(found)] == ["job.failed"]


def test_whatever_is_told_is_a_known_type() -> None:
    assert changes.EVENT_TYPES | control_outbox.EVENT_TYPES <= EVENT_TYPES
    assert changes.EVENT_TYPES.isdisjoint(control_outbox.EVENT_TYPES)
