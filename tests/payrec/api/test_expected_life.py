"""The life of an expected transaction, walked at random: only what its table allows happens, and the sums hold."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import pytest

from payrec.domain.expected_states import EXPECTED_STATES
from payrec.domain.states import BEGIN
from support.matching_world import World, matching_world
from support.seeds import seeds
from support.service import Service, Tenant
from support.wire import code

pytestmark = pytest.mark.anyio

STEPS = 60
REFERENCE = "INV-2026-7777"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


class Life:
    """One item and all that happens to it; ``taken`` says what matches have of it."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.item = ""
        self.amount = 0
        self.taken: dict[str, int] = {}
        self.seen: set[tuple[str, str, str]] = set()
        self.refused: set[tuple[str, str]] = set()
        self.changes = 0

    async def create(self) -> None:
        """State the item anew."""
        self.amount, self.taken = 10_000, {}
        self.item = await self.world.expect(amount="100.00", reference=f"{REFERENCE}{self.chance.randrange(10**6)}")

    async def change(self) -> Any:
        """Change an amount, not below what is taken of it: that is refused for another reason."""
        self.wanted = self.chance.randrange(5_000, 20_000)
        body = {"amountMinor": self.wanted}
        return await self.world.tenant.request("PATCH", f"/expected-transactions/{self.item}", json=body)

    async def annotate(self) -> Any:
        """Change a text or a date."""
        self.changes += 1
        day = date(2026, 1, 1) + timedelta(days=self.changes)
        body = self.chance.choice([{"description": f"{self.changes}"}, {"dueDate": day.isoformat()}])
        return await self.world.tenant.request("PATCH", f"/expected-transactions/{self.item}", json=body)

    async def void(self) -> Any:
        """Say that it is not expected any more."""
        return await self.world.tenant.post(f"/expected-transactions/{self.item}/void", {"reason": "walk"})

    async def match(self) -> Any:
        """Take some of what is left, or all of it, by hand."""
        left = self.amount - sum(self.taken.values())
        minor = left if self.chance.random() < 0.4 else self.chance.randrange(1, max(2, left))
        minor = max(1, min(minor, max(left, 1)))
        line = await self.world.receive(amount=f"{minor // 100}.{minor % 100:02}")
        leg = {"expectedTransactionId": self.item, "incomingTransactionId": line, "amountMinor": minor}
        answer = await self.world.tenant.post("/matches", {"legs": [leg], "reason": "walk"})
        if answer.is_success:
            self.taken[answer.json()["id"]] = minor
        return answer

    async def release(self) -> Any:
        """Reverse one of the matches, if there is one."""
        if not self.taken:
            return None
        match = self.chance.choice(sorted(self.taken))
        answer = await self.world.tenant.post(f"/matches/{match}/reverse", {"reason": "walk"})
        if answer.is_success:
            del self.taken[match]
        return answer

    async def step(self) -> None:
        """Do one thing, and compare what came of it with the table."""
        verb = self.chance.choice(["change", "annotate", "annotate", "match", "match", "release", "release", "void"])
        if verb == "void" and self.chance.random() < 0.6:
            return
        before = await self.world.expected(self.item)
        self.wanted = self.amount
        answer = await getattr(self, verb)()
        if answer is None:
            return
        after = await self.world.expected(self.item)
        if EXPECTED_STATES.allows(before["status"], verb):
            assert answer.is_success, (before, verb, answer.text)
            self.amount = self.wanted
            assert after["status"] in EXPECTED_STATES.after(before["status"], verb)
            assert after["version"] > before["version"]
            self.seen.add((before["status"], verb, after["status"]))
        else:
            assert (answer.status_code, after) == (409 if verb != "match" else answer.status_code, before), answer.text
            assert verb == "match" or code(answer) == "invalid_state"
            assert answer.status_code in {409, 422}
            self.refused.add((before["status"], verb))
        await self.check(after)

    async def check(self, found: dict[str, Any]) -> None:
        """Look whether everything that says how much is open says the same."""
        taken = sum(self.taken.values())
        assert (found["amountMinor"], found["matchedAmountMinor"]) == (self.amount, taken)
        assert found["settledBeforeMinor"] + found["matchedAmountMinor"] + found["openAmountMinor"] == self.amount
        if found["status"] != "void":
            expected = "open" if not taken else "matched" if taken == self.amount else "partially_matched"
            assert found["status"] == expected
        is_open = found["status"] in {"open", "partially_matched"}
        opened = await self.world.sql("SELECT * FROM expected_open WHERE transaction_id = %s", self.item)
        assert [row["open_minor"] for row in opened] == ([self.amount - taken] if is_open else [])
        revisions = await self.world.sql("SELECT revision FROM expected_transaction WHERE id = %s", self.item)
        assert [row["revision"] for row in opened] == ([revisions[0]["revision"]] if is_open else [])


@pytest.mark.parametrize("seed", seeds(0, 1, 2, 3))
async def test_only_what_the_table_allows_happens(world: World, seed: int) -> None:
    life = Life(world, random.Random(seed))  # noqa: S311 - a walk
    await life.create()
    for _ in range(STEPS):
        await life.step()
        if (await world.expected(life.item))["status"] == "void" and life.chance.random() < 0.5:
            await life.create()
    audited = await world.sql("SELECT count(*) AS n FROM audit_record WHERE resource_id = %s", life.item)
    assert audited[0]["n"] > 0
    table = {(row.before, row.verb, row.after) for row in EXPECTED_STATES.rows if row.before != BEGIN}
    assert life.seen <= table
    assert len(life.seen) >= 8
    assert {verb for _, verb in life.refused} >= {"change"}
