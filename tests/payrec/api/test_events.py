"""The feed over HTTP: every event once, in an order that is right for each resource, whenever who commits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from payrec.domain.events import EVENT_TYPES
from payrec.domain.scope import TenantScope
from payrec.services.event_retention import EventRetention
from payrec.storage import changes
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


async def expect(tenant: Tenant, environment: str = "production") -> str:
    answer = await tenant.post("/expected-transactions", MONEY, environment)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_a_poll_goes_on_after_the_last_position(service: Service) -> None:
    tenant = await service.tenant("polling", environments=["production", "test"])
    made = [await expect(tenant) for _ in range(5)]
    elsewhere = await expect(tenant, "test")
    seen: list[dict[str, Any]] = []

    async def all_seen() -> bool | None:
        seen.extend(await feed(tenant, limit=2, after=seen[-1]["position"] if seen else 0))
        return len(seen) >= 5 or None

    await until(all_seen)
    assert [event["resourceId"] for event in seen] == made
    assert [event["position"] for event in seen] == [1, 2, 3, 4, 5]
    assert await feed(tenant, after=5) == []

    async def other() -> list[dict[str, Any]] | None:
        return await feed(tenant, "test") or None

    assert [(e["resourceId"], e["position"]) for e in await until(other)] == [(elsewhere, 1)]
    # By pages and by filters.
    whole = (await tenant.get(PATH, params={"limit": 200})).json()["data"]
    assert whole == list(reversed(seen))
    url, paged = f"{PATH}?limit=2", []
    while url:
        answer = await tenant.get(url)
        paged += answer.json()["data"]
        url = answer.links["next"]["url"] if "next" in answer.links else ""
    assert paged == whole
    assert await feed(tenant, resourceId=made[2]) == [seen[2]]
    assert await feed(tenant, type="match.accepted") == []
    assert await feed(tenant, **{"from": seen[3]["createdAt"]}) == seen[3:]
    assert await feed(tenant, to=seen[1]["createdAt"]) == seen[:2]
    assert fields(await tenant.get(PATH, params={"after": -1})) == {("after", "greater_than_equal")}
    assert (await tenant.get(f"{PATH}/x")).status_code == 404


async def commit(service: Service, scope: TenantScope, *, gate: asyncio.Event, began: asyncio.Event) -> str:
    """Write an event and commit when the gate opens."""
    ids = service.factory.context.ids
    resource = ids.new()
    async with service.factory.context.database.tenant(scope) as connection:
        await connection.execute(
            changes._FINISH,
            {
                "id": ids.new(),
                "environment_id": scope.environment_id,
                "actor": "test",
                "request_id": "test",
                "actions": ["match.accepted"],
                "resources": [resource],
                "reasons": [None],
                "befores": [None],
                "afters": [None],
                "data": [None],
                "events": ["match.accepted"],
            },
        )
        began.set()
        await gate.wait()
    return str(resource)


async def test_no_poll_ever_skips_what_commits_late_and_nobody_waits_for_it(service: Service) -> None:
    slow, other = await service.tenant("slow"), await service.tenant("other")
    scope = await scope_of_tenant(service.factory, slow)
    gate, began = asyncio.Event(), asyncio.Event()
    late = asyncio.create_task(commit(service, scope, gate=gate, began=began))
    await began.wait()
    # Its number in the outbox is smaller than those of all that follow, and it has not committed.
    made, theirs = [await expect(slow) for _ in range(3)], await expect(other)

    async def others_are_there() -> list[dict[str, Any]] | None:
        found = await feed(slow)
        return found if len(found) == 3 and len(await feed(other)) == 1 else None

    seen = await until(others_are_there, seconds=10)
    assert [event["resourceId"] for event in seen] == made
    assert [event["resourceId"] for event in await feed(other)] == [theirs]
    gate.set()
    resource = await late

    async def more() -> list[dict[str, Any]] | None:
        return await feed(slow, after=seen[-1]["position"]) or None

    [event] = await until(more)
    assert (event["resourceId"], event["position"]) == (resource, 4)


async def test_old_events_go_and_places_do_not_come_again(service: Service) -> None:
    tenant = await service.tenant("forgetful", environments=["production", "test"])
    scope = await scope_of_tenant(service.factory, tenant)
    await expect(tenant)
    await expect(tenant, "test")

    async def sealed() -> bool | None:
        return (bool(await feed(tenant)) and bool(await feed(tenant, "test"))) or None

    await until(sealed)
    await rows(service, tenant, "UPDATE event SET occurred_at = now() - interval '29 days 23 hours'")
    retention = EventRetention(database=service.factory.context.database)
    assert await retention.prune_one(scope) == 0
    await rows(service, tenant, "UPDATE event SET occurred_at = now() - interval '30 days 1 hour'")
    delivery = (
        "INSERT INTO webhook_delivery (webhook_id, position, event_id, resource_id, created_at, status, type)"
        " SELECT gen_random_uuid(), 1, id, id, now(), 'failed', 't' FROM event RETURNING position"
    )
    assert await rows(service, tenant, delivery) == [{"position": 1}]
    assert await retention.prune() >= 1
    assert await feed(tenant) == []
    assert await rows(service, tenant, "SELECT 1 FROM webhook_delivery") == []
    assert len(await feed(tenant, "test")) == 1
    await expect(tenant)

    async def next_one() -> list[dict[str, Any]] | None:
        return await feed(tenant) or None

    assert [event["position"] for event in await until(next_one)] == [2]


async def test_an_outbox_that_nobody_spoke_of_is_found_once_a_day(service: Service) -> None:
    tenant = await service.tenant("silent", environments=["production"])
    made = "INSERT INTO outbox (change_id, ordinal, type, resource_ids) VALUES (%s, 1, 'job.failed', ARRAY[%s]::uuid[])"
    await rows(service, tenant, made.replace("%s", "gen_random_uuid()") + " RETURNING ordinal")
    assert await feed(tenant) == []
    await EventRetention(database=service.factory.context.database).prune()

    async def found() -> list[dict[str, Any]] | None:
        return await feed(tenant) or None

    assert [event["type"] for event in await until(found)] == ["job.failed"]


def test_whatever_is_told_is_a_known_type() -> None:
    assert changes.EVENT_TYPES <= EVENT_TYPES
