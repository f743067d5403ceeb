"""A payment less credit notes, over HTTP: what it settles, what its record proves, what is posted, and undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.services.match_verification import Verification
from support.ages import aged
from support.matching_world import World, matching_world
from support.postings import played, posted
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

BOLT = {"counterpartyName": "Bolt GmbH"}
OWED = {
    "INV-2026-1": 10_000, "CN-2026-1": -2_000, "INV-2026-2": 20_000, "INV-2026-3": 3_000, "CN-2026-2": -5_000,
    "ORDER-1": 6_000, "ORDER-2": 4_500, "CREDIT-1": -1_500, "INV-2026-9": 40_000, "CN-2026-9": -7_000,
}  # fmt: skip
PAID = {
    "INV-2026-1 less CN-2026-1": 8_000,
    "INV-2026-2, INV-2026-3, CN-2026-2": 18_000,
    "payout PO-2026-7": 9_000,
    "INV-2026-9": 33_000,
}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def books(world: World) -> dict[str, str]:
    """Store what makes a match of each way in which credit notes are taken off; return the ids."""
    found = {}
    for name, fields in (
        *((name, BOLT) for name in ("INV-2026-1", "CN-2026-1", "INV-2026-2", "INV-2026-3", "CN-2026-2")),
        *((name, {"groupKey": "PO-2026-7"}) for name in ("ORDER-1", "ORDER-2", "CREDIT-1")),
        *((name, {"counterpartyName": "Curie"}) for name in ("INV-2026-9", "CN-2026-9")),
    ):
        minor = OWED[name]
        way = "debit" if minor < 0 else "credit"
        found[name] = await world.expect(
            f"{abs(minor) // 100}.00", reference=name, externalId=name, direction=way, **fields
        )
    for text, minor in PAID.items():
        found[text] = await world.receive(f"{minor // 100}.00", remittance=text)
    return found


async def verified(world: World, match: dict[str, Any]) -> Verification:
    service = world.service.factory.create_match_verification_service()
    return await service.verify(world.scope, match["id"])


async def sound(world: World) -> dict[int, dict[str, Any]]:
    """Return the matches by what they settle; the record of each holds."""
    matches = await world.matches()
    for match in matches:
        found = await verified(world, match)
        assert found.holds, [check for check in found.checks if not check.holds]
    return {match["amountMinor"]: match for match in matches}


async def test_everything_is_settled_by_one_match_and_posted(world: World) -> None:
    ids = await books(world)
    await world.run()
    # A proposal is looked for once more, an accepted match has its amounts.
    assert {m["status"] for m in (await sound(world)).values()} == {"proposed"}
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    found = await sound(world)
    assert {minor: (m["kind"], m["confidence"], m["status"]) for minor, m in found.items()} == {
        10_000: ("many_to_one", "exact", "accepted"),
        23_000: ("many_to_many", "exact", "accepted"),
        10_500: ("many_to_many", "exact", "accepted"),
        40_000: ("many_to_one", "medium", "proposed"),
    }
    money, noted = found[10_000]["legs"]
    assert (money["expectedTransactionId"], money["amountMinor"]) == (ids["INV-2026-1"], 8_000)
    assert (noted["expectedTransactionId"], noted["amountMinor"]) == (ids["INV-2026-1"], 2_000)
    assert noted["contraExpectedTransactionId"] == ids["CN-2026-1"]
    assert noted["incomingTransactionId"] is noted["contraIncomingTransactionId"] is None
    assert (await world.accept(found[40_000])).status_code == 200
    await sound(world)

    rows = await world.tenant.get("/expected-transactions")
    assert {row["status"] for row in rows.json()["data"]} == {"matched"}
    lines, items, _ = played(await posted(world))
    assert lines == {ids[text]: minor for text, minor in PAID.items()}
    assert items == {name: -minor for name, minor in OWED.items()}
    assert await world.bystander_decisions() == 0


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("proof = jsonb_set(proof, '{named}', '9')", "proof"),
        ("proof = jsonb_set(proof, '{sets}', '8')", "proof"),
        ("confidence = 'exact'", "confidence"),
        ("amount_minor = amount_minor - 1", "sums"),
    ],
)
async def test_a_record_that_was_changed_does_not_hold(world: World, change: str, broken: str) -> None:
    await books(world)
    await world.run()
    await world.sql(f"UPDATE match SET {change} RETURNING id")  # noqa: S608 - our own text
    checks = [check for match in await world.matches() for check in (await verified(world, match)).checks]
    failed = [check.name for check in checks if not check.holds]
    # What is quoted in full is exact anyway.
    assert failed.count(broken) == (1 if broken == "confidence" else 4)


async def test_what_is_quoted_by_another_credit_note_too_is_not_the_whole(world: World) -> None:
    await books(world)
    await world.run()
    late = {"direction": "debit", "counterpartyName": "Bolt GmbH", "reference": "CN-2026-1", "externalId": "late"}
    await world.expect("1.00", **late)
    await world.sql(aged("expected_transaction", "1 day") + " WHERE external_id = 'late' RETURNING id")
    [match] = [match for match in await world.matches() if match["amountMinor"] == 10_000]
    assert [check.name for check in (await verified(world, match)).checks if not check.holds] == ["search"]


async def test_what_is_reversed_reopens_all_three_and_is_not_proposed_again(world: World) -> None:
    await books(world)
    await world.set(autoAccept=True)
    await world.run()
    match = (await sound(world))[10_000]
    answer = await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "not so"})
    assert answer.status_code == 200, answer.text
    rows = (await world.tenant.get("/expected-transactions", params={"status": "open"})).json()["data"]
    assert {"INV-2026-1", "CN-2026-1"} <= {row["externalId"] for row in rows}
    await world.run()
    again = [m for m in await world.matches() if m["amountMinor"] == 10_000 and m["status"] != "reversed"]
    assert again == []


async def test_a_line_is_matched_as_among_everything_when_it_comes_later(world: World) -> None:
    """Few lines against many items are looked up by their keys; the credit notes are found by theirs."""
    await books(world)
    for at in range(120):
        await world.expect(f"{at + 1}.17", externalId=f"other-{at}", counterpartyName=f"Other {at}")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    assert {minor: m["status"] for minor, m in (await sound(world)).items()} == {
        10_000: "accepted",
        23_000: "accepted",
        10_500: "accepted",
        40_000: "proposed",
    }


async def test_a_return_reopens_what_the_payment_settled_and_leaves_the_credit_note(world: World) -> None:
    item = await world.expect("100.00", reference="INV-2026-1", externalId="a", **BOLT)
    note = await world.expect("20.00", reference="CN-2026-1", externalId="b", direction="debit", **BOLT)
    line = await world.receive("80.00", remittance="INV-2026-1, CN-2026-1", endToEndId="E2E-20260310", **BOLT)
    await world.set(autoAccept=True)
    await world.run()
    back = {"direction": "debit", "reversal": True, "bookingDate": "2026-03-20", "endToEndId": "E2E-20260310"}
    await world.receive("80.00", **back)
    await world.run()

    rows = [await world.expected(transaction_id) for transaction_id in (item, note)]
    assert [(row["openAmountMinor"], row["matchedAmountMinor"]) for row in rows] == [(8_000, 2_000), (0, 2_000)]
    assert (await world.incoming(line))["status"] == "reversed"
    [match] = [m for m in await world.matches() if m["kind"] == "many_to_one"]
    assert (match["status"], match["returnedAmountMinor"]) == ("accepted", 8_000)
    assert (await verified(world, match)).holds


async def test_whose_credit_note_has_changed_is_stale_and_whose_is_taken_is_superseded(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-1", externalId="a", **BOLT)
    note = await world.expect("20.00", reference="CN-2026-1", externalId="b", direction="debit", **BOLT)
    await world.receive("80.00", remittance="INV-2026-1, CN-2026-1", **BOLT)
    await world.run()
    match = await world.proposal()
    changed = await world.tenant.request("PATCH", f"/expected-transactions/{note}", json={"amountMinor": 2_100})
    assert changed.status_code == 200, changed.text
    stale = await world.accept(match)
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_proposal")
    changed = await world.tenant.request("PATCH", f"/expected-transactions/{note}", json={"amountMinor": 2_000})
    assert changed.status_code == 200, changed.text
    await world.run()
    again = await world.proposal()
    other = await world.receive("20.00", direction="debit", remittance="something else")
    legs = [{"expectedTransactionId": note, "incomingTransactionId": other, "amountMinor": 2_000}]
    by_hand = await world.tenant.post("/matches", {"legs": legs, "reason": "it was paid out"})
    assert by_hand.status_code == 201, by_hand.text
    late = await world.accept(again)
    assert (late.status_code, late.json()["code"]) == (409, "already_matched")
