"""Postings are numbered once, whoever dies and however many decide: played through, they are what is matched."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import httpx2
import pytest

from payrec.services import posting_sealing
from payrec.storage.posting_sealing import PostingSealingStore
from support.matching_world import World, matching_world
from support.postings import CODES, Row, number_all, played, posted, postings, set_codes
from support.report_figures import everything
from support.service import Service, Tenant
from support.wire import until

pytestmark = pytest.mark.anyio

WRITERS, STEPS = 16, 6
RETURN = {"direction": "debit", "bankTransactionCode": "PMNT-RCDT-RRTN"}
EXPECTED, LINES, MATCHES = "/expected-transactions", "/incoming-transactions", "/matches"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made
        await number_all(made)
        assert await postings(globex) == []


class Writer:
    """Decides at random, beside others, about the same items and lines; what is refused has changed nothing."""

    def __init__(self, world: World, seed: int, items: list[str], lines: list[str]) -> None:
        self.world = world
        self.chance = Random(seed)  # noqa: S311 - a test's own
        self.items, self.lines = items, lines
        self.seed = seed
        self.made: dict[str, Row] = {}
        self.done: Counter[str] = Counter()

    async def step(self) -> None:
        kind = self.chance.choice([*["match"] * 4, "reverse", "classify", "restore", "give_back", "give_back"])
        answer = await getattr(self, kind)()
        if answer is None:
            return
        assert answer.status_code in {200, 201, 409, 422}, answer.text
        self.done[kind] += answer.is_success
        if kind == "match" and answer.is_success:
            self.made[answer.json()["id"]] = answer.json()

    async def match(self) -> httpx2.Response:
        item, line = self.chance.choice(self.items), self.chance.choice(self.lines)
        minor = self.chance.randrange(100, 3_000)
        joined = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}
        fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 7, "currency": "EUR"}
        body: Row = {"legs": [joined], "reason": "by chance", "adjustments": [fee][: self.chance.randrange(2)]}
        return await self.world.tenant.post(MATCHES, body)

    async def reverse(self) -> httpx2.Response | None:
        if not self.made:
            return None
        return await self.world.tenant.post(
            f"{MATCHES}/{self.chance.choice(list(self.made))}/reverse", {"reason": "by chance"}
        )

    async def classify(self) -> httpx2.Response:
        return await self.world.tenant.post(
            f"{LINES}/{self.chance.choice(self.lines)}/classify", {"category": self.chance.choice(["interest", "gift"])}
        )

    async def restore(self) -> httpx2.Response:
        return await self.world.tenant.post(f"{LINES}/{self.chance.choice(self.lines)}/restore")

    async def give_back(self) -> httpx2.Response | None:
        if not self.made:
            return None
        [joined] = self.chance.choice(list(self.made.values()))["legs"]
        minor = self.chance.randrange(1, 100)
        name = f"R-{self.seed}-{self.chance.random()}"
        line = {"amountMinor": minor, "currency": "EUR", "bookingDate": "2026-03-20", "bankReference": name, **RETURN}
        back = (await self.world.tenant.post(LINES, line)).json()["id"]
        body = {name: joined[name] for name in ("expectedTransactionId", "incomingTransactionId")}
        return await self.world.tenant.post(f"{LINES}/{back}/link-reversal", body)


async def is_what_is_matched(world: World, found: list[Row]) -> None:
    """Compare what postings come to with what the lists say."""
    of_line, of_item, _ = played(found)
    lines = await everything(world.tenant, LINES)
    back: Counter[str] = Counter()
    for line in lines:
        for link in line["reversalOf"]:
            back[link["incomingTransactionId"]] += link["amountMinor"]
    wanted = {}
    for line in lines:
        minor = line["matchedAmountMinor"]
        if line["status"] == "classified":
            minor = line["amountMinor"] - back[line["id"]]
        wanted[line["id"]] = minor if line["direction"] == "credit" else -minor
    assert of_line == {line: minor for line, minor in wanted.items() if minor}
    items = await everything(world.tenant, EXPECTED)
    assert of_item == {i["externalId"]: -i["matchedAmountMinor"] for i in items if i["matchedAmountMinor"]}


async def test_sixteen_writers_are_posted_without_a_gap_and_played_through_they_are_the_state(world: World) -> None:
    await set_codes(world, CODES)
    items = [await world.expect("400.00", externalId=f"E{n}") for n in range(8)]
    lines = [await world.receive("500.00", account="GIRO") for _ in range(8)]
    writers = [Writer(world, seed, items, lines) for seed in range(WRITERS)]
    # The first match of an environment makes its partitions, for which it locks whole tables.
    while not writers[0].done["match"]:
        await writers[0].step()
    seen: list[Row] = []
    is_over = asyncio.Event()

    async def read() -> None:
        """Read on, as the books do: nothing comes before what was seen."""
        while not is_over.is_set():
            seen.extend(await postings(world.tenant, seen[-1]["sequence"] if seen else 0))
            await asyncio.sleep(0.01)

    async def write(writer: Writer) -> None:
        for _ in range(STEPS):
            await writer.step()

    reading = asyncio.create_task(read())
    await asyncio.gather(*(write(writer) for writer in writers))
    found = await posted(world)
    is_over.set()
    await reading
    assert seen + await postings(world.tenant, seen[-1]["sequence"] if seen else 0) == found
    done = sum((writer.done for writer in writers), Counter[str]())
    kinds = Counter(posting["kind"] for posting in found)
    assert kinds["match"] == done["match"] > 20
    assert (kinds["match_reversal"] > 0, kinds["classification"], kinds["return"] > 0) == (True, done["classify"], True)
    await is_what_is_matched(world, found)


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
    await is_what_is_matched(world, found)


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
    await is_what_is_matched(world, found)
