"""Money against money looked at once more: what a run has made holds, and what is changed behind its back is found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.services.match_verification import Verification
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

ALPHA: dict[str, Any] = {"counterpartyName": "Alpha"}
GAMMA: dict[str, Any] = {"counterpartyName": "Gamma"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def books(world: World) -> dict[str, dict[str, Any]]:
    """Store one of each kind, and return their proposals."""
    out = {"direction": "debit"}
    await world.receive("1.00", account="GIRO", counterpartyAccount="SAVINGS", externalId="a", **out)
    await world.receive("1.00", account="SAVINGS", bookingDate="2026-03-18", externalId="b")
    await world.receive("2.00", account="GIRO", endToEndId="E2E-10001", externalId="c", **out)
    await world.receive("2.00", account="SAVINGS", endToEndId="E2E-10001", externalId="d")
    await world.receive("3.00", remittance="ORDER-10001", externalId="e", **ALPHA)
    await world.receive("1.50", remittance="ORDER-10001", bookingDate="2026-04-18", externalId="f", **out, **ALPHA)
    await world.expect("4.00", reference="INV-10001", externalId="g", **GAMMA)
    await world.expect("1.20", reference="CN-10001", groupKey="INV-10001", externalId="h", **out, **GAMMA)
    await world.run()
    found = {match["amount"]: match for match in await world.matches(status="proposed")}
    assert [found[amount]["kind"] for amount in sorted(found)] == ["transfer", "credit_note", "refund", "transfer"]
    return found


async def test_what_was_rejected_is_not_proposed_again(world: World) -> None:
    await books(world)
    await world.sql("UPDATE match SET status = 'rejected', decided_by = 'user:ada', decided_at = now() RETURNING id")
    await world.run()
    assert await world.matches(status="proposed") == []


async def verified(world: World, match: dict[str, Any]) -> Verification:
    service = world.service.factory.create_match_verification_service()
    return await service.verify(world.scope, match["id"])


async def broken(world: World, match: dict[str, Any]) -> set[str]:
    return {check.name for check in (await verified(world, match)).checks if not check.holds}


async def test_what_a_run_has_made_holds_before_and_after(world: World) -> None:
    for match in (await books(world)).values():
        before = await verified(world, match)
        assert before.holds, before.checks
        assert (before.kind, before.explanation) == (match["kind"], match["explanation"])
        assert (await world.accept(match)).status_code == 200
        after = await verified(world, match)
        assert after.holds, after.checks


@pytest.mark.parametrize(
    ("amount", "change", "found"),
    [
        ("1.00", "UPDATE incoming_transaction SET counterparty_account = 'X' WHERE external_id = 'a'", {"evidence"}),
        ("1.00", "UPDATE incoming_transaction SET booking_on = '2026-03-12' WHERE external_id = 'b'", {"evidence"}),
        ("1.00", "UPDATE match SET confidence = 'exact'", {"confidence"}),
        ("1.00", "UPDATE match SET confidence = 'low'", {"confidence"}),
        ("1.00", "UPDATE match SET score = score + 100", {"score"}),
        ("2.00", "UPDATE incoming_transaction SET end_to_end_id = 'X' WHERE external_id = 'c'", {"evidence"}),
        ("2.00", "UPDATE match SET uniqueness = 'contested'", {"confidence"}),
        ("1.50", "UPDATE incoming_transaction SET counterparty_name = 'Beta' WHERE external_id = 'f'", {"evidence"}),
        ("1.50", "UPDATE match SET confidence = 'high'", {"confidence"}),
        ("1.50", "UPDATE leg SET amount_minor = 100, settled_minor = 100", {"sums"}),
        ("1.20", "UPDATE match SET confidence = 'exact'", {"confidence"}),
    ],
)
async def test_what_is_changed_behind_its_back_is_found(
    world: World, amount: str, change: str, found: set[str]
) -> None:
    match = (await books(world))[amount]
    assert await broken(world, match) == set()
    await world.sql(change)
    assert await broken(world, match) == found


async def test_what_may_not_be_accepted_without_a_person_is_found(world: World) -> None:
    match = (await books(world))["1.50"]
    assert (await world.accept(match)).status_code == 200
    await world.sql("UPDATE match SET decided_by = 'engine:0' WHERE id = %s", match["id"])
    assert await broken(world, match) == {"confidence"}


@pytest.mark.parametrize("minor", [0, 44])
async def test_money_that_went_to_an_account_in_another_currency_holds(world: World, minor: int) -> None:
    """The exchange is of the money that came, and was told to be on the wrong transaction."""
    out = await world.receive("100.00", direction="debit", account="GIRO")
    came = await world.receive(f"{(10_856 + minor) / 100:.2f}", currency="USD", account="DOLLARS")
    leg = {"incomingTransactionId": out, "contraIncomingTransactionId": came, "amountMinor": 10_000}
    fx = {"type": "fx", "incomingTransactionId": came, "amountMinor": minor, "currency": "USD", "rate": "1.0856"}
    answer = await world.tenant.post("/matches", {"legs": [leg], "adjustments": [fx], "reason": "by hand"})
    assert answer.status_code == 201, answer.text
    assert await broken(world, answer.json()) == set()
    # On what was not settled by it, it still is wrong.
    wrong = "UPDATE match SET adjustments = jsonb_set(adjustments, '{0,id}', to_jsonb(%s::text)) RETURNING id"
    await world.sql(wrong, out)
    assert await broken(world, answer.json()) >= {"adjustments"}
