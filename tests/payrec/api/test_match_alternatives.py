"""What else would fit, over HTTP: what the run has seen, and what is open and near."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def alternatives(world: World, match: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await world.tenant.get(f"/matches/{match['id']}/alternatives")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_what_the_run_has_seen_comes_first_and_then_what_is_near(world: World) -> None:
    first = await world.expect(reference="INV-2026-001", counterpartyName="Bolt GmbH", externalId="first")
    second = await world.expect(counterpartyName="Bolt GmbH", dueDate="2026-03-11", externalId="second")
    near = await world.expect(counterpartyName="Cable AG", dueDate="2026-04-01", externalId="near")
    await world.expect("99.00", counterpartyName="Dove KG", externalId="other amount")
    await world.expect(direction="debit", externalId="other way")
    line = await world.receive(remittance="INV-2026-001", counterpartyName="Bolt GmbH", externalId="line")
    await world.run()
    match = await world.proposal()
    assert match["legs"][0]["expectedTransactionId"] == first
    found = await alternatives(world, match)
    assert [a["transactionId"] for a in found] == [second, near]
    assert {a["replacesTransactionId"] for a in found} == {first}
    assert {(a["side"], a["status"], a["openAmountMinor"]) for a in found} == {("expected", "open", 10_000)}
    assert [a["score"] for a in found] == [a["score"] for a in match["alternatives"]] + [None] * (
        len(found) - len(match["alternatives"])
    )
    assert line not in {a["transactionId"] for a in found}


async def test_money_that_is_matched_with_money_has_alternatives(world: World) -> None:
    account = {"account": "DE02120300000000202051", "counterpartyName": "Bolt GmbH"}
    paid = await world.receive(**account, externalId="in")
    given = await world.receive(**account, direction="debit", bookingDate="2026-03-14", externalId="out")
    await world.run()
    match = await world.proposal()
    assert match["kind"] == "refund"
    other = await world.receive(direction="debit", bookingDate="2026-03-20", externalId="other out")
    [found] = await alternatives(world, match)
    assert (found["transactionId"], found["replacesTransactionId"]) == (other, given)
    assert found["side"] == "incoming"
    assert paid != other


async def test_it_says_which_match_has_the_alternative_now(world: World) -> None:
    first = await world.expect(externalId="first")
    line, other = await world.receive(externalId="a"), await world.receive(externalId="b")
    leg = {"expectedTransactionId": first, "incomingTransactionId": line, "amountMinor": 4_000}
    part = (await world.tenant.post("/matches", {"legs": [leg], "reason": "x"})).json()
    rest = {"expectedTransactionId": first, "incomingTransactionId": other, "amountMinor": 6_000}
    match = (await world.tenant.post("/matches", {"legs": [rest], "reason": "x"})).json()
    [found] = await alternatives(world, match)
    assert (found["transactionId"], found["matchId"], found["openAmountMinor"]) == (line, part["id"], 6_000)


async def test_a_match_that_waits_for_a_blind_review_tells_nothing(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    await world.receive(remittance="INV-2026-001")
    await world.expect(externalId="near")
    await world.run()
    match = await world.proposal()
    assert await alternatives(world, match) != []
    await world.sql("UPDATE match SET sampled = true")
    assert await alternatives(world, match) == []


async def test_nobody_sees_alternatives_of_others(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    await world.receive(remittance="INV-2026-001")
    await world.run()
    match = await world.proposal()
    for answer in (
        await world.bystander.get(f"/matches/{match['id']}/alternatives"),
        await world.tenant.get("/matches/nope/alternatives"),
        await world.tenant.get(f"/matches/{match['id']}/alternatives", "test"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
