"""All decide at once, whatever they like, while files come in and runs go on: nothing breaks and nobody deadlocks."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support.contention import compete
from support.invariants import deadlocks, violations
from support.matching_world import World, matching_world
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running

pytestmark = pytest.mark.anyio

CLIENTS = 32
SOAK_SECONDS = float(os.environ.get("PAYREC_SOAK_SECONDS", "6"))
ROUND_SECONDS = 3.0
MORE_SECONDS = 60.0
"""How much longer it may take until each thing has been done once: on Citus the same time has fewer requests."""
DOINGS = {"accept", "reject", "reverse", "state", "many", "void", "ignore", "upload", "run"}
REFUSALS = {
    (404, "not_found"),
    (409, "already_matched"),
    (409, "invalid_state"),
    (409, "match_run_in_progress"),
    (409, "stale_proposal"),
    (422, "amount_exceeds_open"),
}
"""What somebody may hear who was not the first."""


@pytest.fixture(scope="module")
def addresses(postgres: EmbeddedPostgres) -> Any:
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
async def service(addresses: EmbeddedDatabase) -> AsyncIterator[Service]:
    """Return a service with its worker, in a database of the test's own."""
    async with running(make_config(addresses)) as started:
        yield started


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


class Storm:
    """Clients who all know the same matches and transactions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tenant = world.tenant
        self.matches: list[str] = []
        self.items: list[str] = []
        self.lines: list[str] = []
        self.answers: Counter[tuple[str, int, str]] = Counter()
        self.uploads = 0

    async def begin(self, seed: int) -> None:
        """Store transactions and proposals that compete for them."""
        context = self.world.service.factory.context
        made = await compete(context.database, self.world.scope, context.ids, seed=seed)
        self.matches = [str(match_id) for match_id in made] + self.matches[:40]
        await self.look()

    async def look(self) -> None:
        """Learn what there is to decide about."""
        page = {"limit": 60}
        self.items = [
            row["id"] for row in (await self.tenant.get("/expected-transactions", params=page)).json()["data"]
        ]
        self.lines = [
            row["id"] for row in (await self.tenant.get("/incoming-transactions", params=page)).json()["data"]
        ]

    async def client(self, chance: random.Random, *, until: float) -> None:
        """Do one thing after the other until the time is over."""
        doings = [self.accept, self.accept, self.reject, self.reverse, self.state, self.many, self.void, self.ignore]
        while asyncio.get_running_loop().time() < until:
            doing = chance.choice(doings)
            self.note(doing.__name__, await doing(chance))

    def note(self, name: str, answer: httpx2.Response) -> None:
        """Keep count of an answer."""
        code = "" if answer.status_code < 400 else answer.json()["code"]
        self.answers[name, answer.status_code, code] += 1

    @property
    def done(self) -> set[str]:
        """What somebody was let do."""
        return {name for name, status, _ in self.answers if status < 300}

    async def accept(self, chance: random.Random) -> httpx2.Response:
        return await self.tenant.post(f"/matches/{chance.choice(self.matches)}/accept")

    async def reject(self, chance: random.Random) -> httpx2.Response:
        return await self.tenant.post(f"/matches/{chance.choice(self.matches)}/reject", {"reason": "no"})

    async def reverse(self, chance: random.Random) -> httpx2.Response:
        return await self.tenant.post(f"/matches/{chance.choice(self.matches)}/reverse", {"reason": "wrong"})

    async def many(self, chance: random.Random) -> httpx2.Response:
        verb = chance.choice(["accept", "accept", "reject"])
        return await self.tenant.post(f"/matches/{verb}", {"ids": chance.choices(self.matches, k=5)})

    async def void(self, chance: random.Random) -> httpx2.Response:
        return await self.tenant.post(f"/expected-transactions/{chance.choice(self.items)}/void", {"reason": "gone"})

    async def ignore(self, chance: random.Random) -> httpx2.Response:
        verb = chance.choice(["ignore", "restore", "restore"])
        body = {"reason": "noise"} if verb == "ignore" else None
        return await self.tenant.post(f"/incoming-transactions/{chance.choice(self.lines)}/{verb}", body)

    async def state(self, chance: random.Random) -> httpx2.Response:
        """Match by hand, a leg or two, small ones, so that several fit."""
        pairs = {(chance.choice(self.items), chance.choice(self.lines)) for _ in range(chance.randint(1, 2))}
        legs = [
            {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": chance.randint(1, 200)}
            for item, line in pairs
        ]
        answer = await self.tenant.post("/matches", {"legs": legs, "reason": "seen"})
        if answer.status_code == 201:
            self.matches[chance.randrange(len(self.matches))] = answer.json()["id"]
        return answer

    async def others(self, *, until: float) -> None:
        """Upload files and run matching, one after the other."""
        while asyncio.get_running_loop().time() < until:
            self.uploads += 1
            money = {"currency": "EUR", "direction": "credit", "bookingDate": "2026-03-12"}
            records = [
                {
                    **money,
                    "amount": f"{n + 1}.00",
                    "remittance": f"INV-{self.uploads}-{n}",
                    "externalId": f"{self.uploads}-{n}",
                }
                for n in range(5)
            ]
            self.note("upload", await self.tenant.post("/incoming-transactions/upload", records))
            self.note("run", await self.tenant.post("/matches/match", {"wait": 20}))
            proposed = (await self.tenant.get("/matches", params={"limit": 40})).json()["data"]
            for place, match in enumerate(proposed):
                self.matches[place % len(self.matches)] = match["id"]


async def test_whatever_all_decide_at_once_nothing_breaks(world: World, addresses: EmbeddedDatabase) -> None:
    storm = Storm(world)
    # Who empties the tables before a test may have met a task of the worker.
    before = await deadlocks(addresses.superuser_url)
    loop = asyncio.get_running_loop()
    end = loop.time() + SOAK_SECONDS
    seed = 0
    while loop.time() < end or (storm.done != DOINGS and loop.time() < end + MORE_SECONDS):
        seed += 1
        await storm.begin(seed)
        until = loop.time() + ROUND_SECONDS
        clients = [
            storm.client(random.Random(seed * CLIENTS + number), until=until)  # noqa: S311 - no secret
            for number in range(CLIENTS)
        ]
        await asyncio.gather(storm.others(until=until), *clients)
        assert await violations(addresses.superuser_url, world.scope.schema_name) == {}
    print(f"\n{seed} rounds, {sum(storm.answers.values())} answers: {sorted(storm.answers.items())}")  # noqa: T201 - shown by -s
    assert {(status, code) for _, status, code in storm.answers if status >= 400} <= REFUSALS
    assert storm.done == DOINGS
    assert await deadlocks(addresses.superuser_url) == before
    upkeep = world.service.factory.upkeep
    await upkeep.create_audit_sealer().seal(world.scope, "test")
    verified = await upkeep.create_audit_verification_service().verify(world.scope, {})
    assert verified.holds, verified.breaks
