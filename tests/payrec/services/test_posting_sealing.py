"""Postings are numbered once, whoever dies or does so as well: played through, they are what is matched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.domain.scope import TenantScope
from payrec.services import posting_sealing
from payrec.services.posting_sealing import PostingSealer
from payrec.storage.posting_sealing import PostingSealingStore
from support.matching_world import World
from support.posting_storm import is_what_is_matched
from support.postings import number_all, posted, posting_world
from support.service import Service, Tenant
from support.wire import until

pytestmark = pytest.mark.anyio

MATCHES = "/matches"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with posting_world(service, acme, globex) as made:
        yield made


@pytest.mark.parametrize("point", ["decisions", "legs", "add_codes", "add", "move"])
async def test_who_dies_at_any_point_posts_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    # The worker's own comes to the same; small steps leave much between two commits.
    monkeypatch.setattr(posting_sealing, "POSTING_PLACES_AT_ONCE", 3)
    does, calls = getattr(PostingSealingStore, point), 0

    async def dies(self: PostingSealingStore, *given: Any, **named: Any) -> Any:
        nonlocal calls
        found = await does(self, *given, **named)
        calls += 1
        if calls in {1, 3}:
            raise ConnectionError("gone")
        return found

    monkeypatch.setattr(PostingSealingStore, point, dies)
    for n in range(4):
        item, line = await world.expect(externalId=f"E{n}"), await world.receive()
        legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 10_000}]
        assert (await world.tenant.post(MATCHES, {"legs": legs, "reason": "by hand"})).status_code == 201
    scope, upkeep = world.scope, world.service.factory.upkeep

    async def is_done() -> bool | None:
        try:
            sealed = await upkeep.create_sealer().seal(scope) is not None
            return (sealed and await upkeep.create_posting_sealer().number(scope)) or None
        except ConnectionError:
            return None

    await until(is_done)
    found = await posted(world)
    assert calls >= 1
    assert len({posting["sourceId"] for posting in found}) == len(found) == 4
    await is_what_is_matched(world.tenant, found)


async def test_what_is_no_decision_is_only_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reads(_: PostingSealer, scope: TenantScope) -> None:
        raise AssertionError(f"settings of {scope.slug} are read")

    monkeypatch.setattr(PostingSealer, "_settings", reads)
    await world.expect()
    await world.receive()
    await number_all(world)
    feed = "SELECT p.position, e.position AS head FROM event_feed e LEFT JOIN posting_feed p ON true"
    [row] = await world.sql(feed)
    assert row["position"] == row["head"] >= 2


async def test_several_who_number_at_once_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting_sealing, "POSTING_PLACES_AT_ONCE", 2)
    monkeypatch.setattr(posting_sealing, "POSTING_LEGS_AT_ONCE", 1)
    monkeypatch.setattr(posting_sealing, "POSTING_STEPS_PER_TURN", 2)
    for n in range(6):
        item, line = await world.expect(externalId=f"E{n}"), await world.receive()
        legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 10_000 - n}]
        made = await world.tenant.post(MATCHES, {"legs": legs, "reason": "by hand"})
        if n % 2:
            path = f"{MATCHES}/{made.json()['id']}/reverse"
            assert (await world.tenant.post(path, {"reason": "no"})).status_code == 200
    await asyncio.gather(*(number_all(world) for _ in range(4)))
    found = await posted(world)
    assert len(found) == 9
    await is_what_is_matched(world.tenant, found)
