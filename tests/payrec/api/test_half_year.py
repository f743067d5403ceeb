"""Half a year of three accounts: whatever happens in whatever order, each statement explains the bank's balance."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.account_facts import Figure, Known, Line, told
from support.account_lives import PARTS
from support.half_year import DAYS, HalfYear, on
from support.matching_world import World, matching_world
from support.report_figures import everything
from support.seeds import seeds
from support.service import Service, Tenant
from support.statements import IBAN
from support.wire import fields

pytestmark = pytest.mark.anyio

STEPS = int(os.environ.get("PAYREC_STATE_STEPS", "1000")) // 20
"""Steps of one life, which take longer than those of other machines, and the longer the more there is."""
INSTANTS = 4
"""Instants that are remembered."""
DAYS_OF_INSTANT, DAYS_AT_LAST = 2, 8
"""Cut-offs at which each account is looked at, as of each instant and at last."""


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def ids_of(tenant: Tenant) -> dict[str, str]:
    """Return the accounts that there are, by identifier."""
    return {row["identifier"]: row["id"] for row in (await tenant.get("/accounts")).json()["data"]}


async def said(tenant: Tenant, account_id: str, day: str, **asked: str) -> dict[str, Any] | None:
    """Return what the statement says; None if the cut-off is before what the account begins with."""
    answer = await tenant.get(f"/accounts/{account_id}/reconciliation", params={"cutOff": day, **asked})
    if answer.status_code != 200:
        assert fields(answer) == {("cutOff", "cut_off_before_opening")}, answer.text
        return None
    return dict(answer.json())


def figures(found: dict[str, Any], names: Any) -> dict[str, Any]:
    """Return what is counted, as the facts have it."""
    return {name: (found[name]["count"], found[name]["sumMinor"]) if name in PARTS else found[name] for name in names}


async def check(life: HalfYear, account: str, account_id: str, day: str, known: int, **asked: str) -> None:
    """Compare a statement with what the first facts of a life come to, so many as were known."""
    expected, locked = told(life.facts[:known], account, day)
    found = await said(life.world.tenant, account_id, day, **asked)
    if expected is None or found is None:
        assert found is expected, (account, day, asked)
        return
    assert figures(found, expected) == expected, (account, day, asked)
    assert (found["lockedAt"] is not None) == locked
    balance = found["openingBalanceMinor"] + sum(found[part]["sumMinor"] for part in PARTS if part != "pending")
    assert balance == found["balanceMinor"]


@pytest.mark.parametrize("seed", seeds(1, 2))
async def test_parts_sum_to_the_balance_for_every_account_cut_off_and_instant(world: World, seed: int) -> None:
    life = HalfYear(world, seed)
    await life.begin()
    instants: list[tuple[str, int, dict[str, str]]] = []
    for number in range(STEPS):
        await life.step()
        if (number + 1) % (STEPS // INSTANTS) == 0:
            [row] = await world.sql("SELECT clock_timestamp() AS at")
            instants.append((row["at"].isoformat(), len(life.facts), await ids_of(world.tenant)))
            for account, account_id in instants[-1][2].items():
                for day in life.some_days(1):
                    await check(life, account, account_id, day, len(life.facts))
    # As of each instant, what was known then.
    for at, known, ids in instants:
        for account, account_id in ids.items():
            for day in life.some_days(DAYS_OF_INSTANT):
                await check(life, account, account_id, day, known, asOf=at)
    # Whatever is still to come comes, and nothing is locked any more.
    await life.send(how_many=DAYS)
    await life.reopen(every=True)
    ids = await ids_of(world.tenant)
    for account, account_id in ids.items():
        for day in [on(-2), on(DAYS), *life.some_days(DAYS_AT_LAST)]:
            await check(life, account, account_id, day, len(life.facts))
    await check_the_bank(life, ids[IBAN])
    # The other tenant has the same lines, of which nobody decided anything.
    of_bystander = Known.of(
        fact
        for fact in life.facts
        if isinstance(fact, Line) or (isinstance(fact, Figure) and fact.kind in {"opening", "begins", "closing"})
    )
    for account, account_id in (await ids_of(world.bystander)).items():
        expected = of_bystander.statement(account, on(DAYS)) or {}
        assert figures(await said(world.bystander, account_id, on(DAYS)) or {}, expected) == expected


async def check_the_bank(life: HalfYear, account_id: str) -> None:
    """See that we say what the bank said at cut-offs at which all of its statements are there, line by line."""
    closed = sorted(life.known.figures["closing", IBAN].items())
    for day, closing in life.chance.sample(closed, 4):
        found = await said(life.world.tenant, account_id, day) or {}
        assert (found["balanceMinor"], found["differenceMinor"]) == (closing, 0)
        for part in life.chance.sample(PARTS, 2):
            path = f"/accounts/{account_id}/reconciliation/lines"
            listed = await everything(life.world.tenant, path, part=part, cutOff=day)
            assert (len(listed), sum(line["shareMinor"] for line in listed)) == figures(found, [part])[part]
