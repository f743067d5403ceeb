"""What is open at the end of a period keeps it from being locked, also where it is explained, or went back, later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import problem

pytestmark = pytest.mark.anyio

THROUGH, LATER = "2026-03-31", "2026-04-10"
INCOMING, MATCHES, LOCKS = "/incoming-transactions", "/matches", "/period-locks"
BACK = {"direction": "debit", "bankTransactionCode": "PMNT-RCDT-RRTN"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def receive(world: World, amount: str, **given: Any) -> str:
    return await world.receive(amount, **{"account": "GIRO", **given})


async def post(world: World, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await world.tenant.post(path, body)
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


async def settle(world: World, lines: dict[str, int], **given: Any) -> None:
    item = await world.expect(f"{sum(lines.values()) / 100:.2f}")
    legs = [
        {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}
        for line, minor in lines.items()
    ]
    await post(world, MATCHES, {"legs": legs, "reason": "by hand", **given})


async def test_a_lock_finds_open_what_the_statement_has_open(world: World) -> None:
    # Whole in the period, and what is explained from a later day on.
    await settle(world, {await receive(world, "9.00"): 900})
    later, fee = await receive(world, "100.00"), await receive(world, "50.00")
    await settle(world, {later: 10_000}, effectiveOn=LATER)
    await post(world, f"{INCOMING}/{fee}/classify", {"category": "fee", "effectiveOn": LATER})
    # What goes back later, of what nobody has explained and of what is; the latter is no more open for that.
    stray, kept, back = await receive(world, "30.00"), await receive(world, "8.00"), {**BACK, "bookingDate": LATER}
    await settle(world, {kept: 800})
    for payment, amount in ((stray, "30.00"), (kept, "8.00")):
        line = await receive(world, amount, **back)
        await post(world, f"{INCOMING}/{line}/link-reversal", {"incomingTransactionId": payment})
    # An instalment of two, and money in transit of which a part is of something else.
    part, rest = await receive(world, "20.00"), await receive(world, "40.00", bookingDate="2026-04-02")
    await settle(world, {part: 2_000, rest: 4_000})
    out = await receive(world, "70.00", direction="debit")
    leg = {
        "incomingTransactionId": await world.receive("70.00", account="OTHER", bookingDate="2026-04-02"),
        "contraIncomingTransactionId": out, "amountMinor": 6_900,
    }  # fmt: skip
    assert (await post(world, MATCHES, {"legs": [leg], "reason": "own accounts"}))["kind"] == "transfer"
    open_minor = {later: 10_000, fee: 5_000, stray: 3_000, part: 2_000, out: 100}

    [account] = (await world.tenant.get("/accounts", params={"identifier": "GIRO"})).json()["data"]
    path = f"/accounts/{account['id']}/reconciliation"
    said = (await world.tenant.get(path, params={"cutOff": THROUGH})).json()
    assert (said["open"]["count"], said["open"]["sumMinor"]) == (5, 19_900)
    lines = (await world.tenant.get(said["open"]["url"])).json()["data"]
    assert {line["incomingTransactionId"]: abs(line["shareMinor"]) for line in lines} == open_minor
    for of in ({}, {"account": "GIRO"}):
        answer = await world.tenant.post(LOCKS, {"through": THROUGH, "reason": "month end", **of})
        assert answer.status_code == 409, answer.text
        found = problem(answer)["incomplete"]["openLines"]
        told = {line["incomingTransactionId"]: line["openAmountMinor"] for line in found["first"]}
        assert (found["count"], told) == (5, open_minor)
    # Of another account, and when all of it is explained, nothing is missing.
    assert (await post(world, LOCKS, {"through": THROUGH, "account": "OTHER", "reason": "x"}))["override"] is False
    made = await post(world, LOCKS, {"through": LATER, "reason": "x", "override": True})
    assert made["incomplete"]["openLines"] == 2
