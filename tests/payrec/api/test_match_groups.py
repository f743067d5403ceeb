"""Matches of several legs over HTTP: told with all of them, accepted with all of them or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import pytest

from support.matching_world import DECISIONS, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

BATCH = "PO-2026-7"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def invoices(world: World, *amounts: str, **fields: Any) -> list[str]:
    return [
        await world.expect(amount, reference=f"INV-2026-{at}", externalId=f"E{at}", **fields)
        for at, amount in enumerate(amounts)
    ]


async def quoted(world: World) -> tuple[list[str], str, dict[str, Any]]:
    """Store three invoices and a payment that quotes them, and return them with their proposal."""
    items = await invoices(world, "100.00", "120.00", "80.00", counterpartyName="Bolt GmbH")
    text = "INV-2026-0, INV-2026-1, INV-2026-2"
    line = await world.receive("300.00", remittance=text, counterpartyName="BOLT", externalId="x")
    await world.run()
    return items, line, await world.proposal()


async def instalments(world: World) -> tuple[str, list[str], dict[str, Any]]:
    item = await world.expect("100.00", reference="INV-2026-001")
    lines = [
        await world.receive(amount, remittance=f"INV-2026-001 {name}", externalId=name)
        for name, amount in (("a", "40.00"), ("b", "60.00"))
    ]
    await world.run()
    return item, lines, await world.proposal()


def ends(match: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(leg["expectedTransactionId"], leg["incomingTransactionId"], leg["amountMinor"]) for leg in match["legs"]]


async def test_a_payment_of_several_invoices_says_why(world: World) -> None:
    items, line, match = await quoted(world)
    assert (match["kind"], match["confidence"], match["amount"]) == ("one_to_many", "exact", "300.00")
    assert sorted(ends(match)) == sorted(zip(items, [line] * 3, (10_000, 12_000, 8_000), strict=True))
    assert {(leg["settledMinor"], leg["settledCurrency"]) for leg in match["legs"]} == {
        (minor, "EUR") for minor in (10_000, 12_000, 8_000)
    }
    assert match["explanation"].endswith(
        " that the payment quotes sum to its 300.00 EUR, the name BOLT agrees, booked within 3 days of every due date; "
        "nothing else claims any of them."
    )
    assert match["explanation"].startswith("The 3 invoices INV-2026-")
    assert match["uniqueness"] == {
        "status": "unique",
        "candidates": 1,
        "bounds": {"groupSizeMax": 50, "legsMax": 10_000, "searchedMax": 12},
    }
    told = {e["feature"]: e for e in match["evidence"]}
    assert told["group"]["level"] == "by_references"
    assert (told["amount"]["expected"], told["amount"]["incoming"]) == ("300.00", "300.00")
    assert sorted(told["reference"]["expected"].split(", ")) == ["INV-2026-0", "INV-2026-1", "INV-2026-2"]


async def test_a_batch_says_why(world: World) -> None:
    for at in range(8):
        await world.expect("10.00", groupKey=BATCH, externalId=f"B{at}")
    await world.receive("80.00", remittance=f"Payout {BATCH}")
    await world.run()
    match = await world.proposal()
    assert match["explanation"].startswith("The 8 invoices B")
    assert f" and 2 more of group {BATCH} sum to the payment's 80.00 EUR" in match["explanation"]
    assert {e["feature"]: e["expected"] for e in match["evidence"]}["group"] == BATCH


async def test_instalments_say_why(world: World) -> None:
    item, lines, match = await instalments(world)
    assert (match["kind"], match["confidence"]) == ("many_to_one", "exact")
    assert sorted(ends(match)) == sorted([(item, lines[0], 4_000), (item, lines[1], 6_000)])
    assert match["explanation"].startswith(
        "The 2 payments of 40.00, 60.00 that quote reference INV-2026-001 sum to its 100.00 EUR"
    )


async def test_accepting_a_group_closes_all_of_its_transactions(world: World) -> None:
    items, line, match = await quoted(world)
    answer = await world.accept(match)
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["effectiveOn"]) == ("accepted", "2026-03-12")
    for row in [await world.incoming(line), *[await world.expected(item) for item in items]]:
        assert (row["status"], row["openAmountMinor"]) == ("matched", 0)
    assert await world.sql("SELECT 1 FROM expected_open UNION ALL SELECT 1 FROM incoming_open") == []
    assert await world.sql("SELECT count(*) AS n FROM leg WHERE valid_from IS NOT NULL") == [{"n": 3}]
    again = await world.accept(match)
    assert (again.status_code, again.json()) == (200, answer.json())


async def test_accepting_a_group_twenty_times_at_once_is_one_effect(world: World) -> None:
    item, _, match = await instalments(world)
    answers = await asyncio.gather(*(world.accept(match) for _ in range(20)))
    assert {a.status_code for a in answers} == {200}
    assert len({a.text for a in answers}) == 1
    assert await world.sql("SELECT count(*) AS n FROM audit_record WHERE action = 'match.accepted'") == [{"n": 1}]
    assert (await world.expected(item))["matchedAmountMinor"] == 10_000
    taken = "SELECT side, allocated_minor AS n FROM allocation ORDER BY 1, 2"
    assert [tuple(r.values()) for r in await world.sql(taken)] == [(1, 10_000), (2, 4_000), (2, 6_000)]


@pytest.mark.parametrize("checked", [True, False])
async def test_a_group_of_which_one_member_is_taken_is_not_accepted_at_all(
    world: World, monkeypatch: pytest.MonkeyPatch, *, checked: bool
) -> None:
    items, _, match = await quoted(world)
    await world.sql(
        "INSERT INTO allocation (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at)"
        " VALUES (1, %s, 12000, 1, 'partially_matched', 2, now())",
        items[1],
    )
    if not checked:
        # What the database alone makes of it.
        monkeypatch.setattr("payrec.services.match_decisions.check_acceptable", AsyncMock())
    before = await world.digest(*DECISIONS, "expected_open", "incoming_open")
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_matched")
    assert await world.digest(*DECISIONS, "expected_open", "incoming_open") == before


async def test_what_the_legs_take_of_one_transaction_counts_together(world: World) -> None:
    item, _, match = await instalments(world)
    # 70.00 are left: enough for either instalment, but not for both.
    await world.sql(
        "INSERT INTO allocation (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at)"
        " VALUES (1, %s, 10000, 3000, 'partially_matched', 2, now())",
        item,
    )
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_matched")
    assert "only 70.00 EUR is left" in answer.json()["detail"]


async def test_a_group_and_a_part_of_one_member_accepted_at_once(world: World) -> None:
    items, _, match = await quoted(world)
    await world.receive("50.00", remittance="INV-2026-1 in part", externalId="y")
    await world.run(incomingFilter={"externalId": "y"})
    [part] = [m for m in await world.matches(status="proposed") if m["id"] != match["id"]]
    answers = await asyncio.gather(*(world.accept(m) for m in (match, part) for _ in range(5)))
    assert sorted(a.status_code for a in answers) == [200] * 5 + [409] * 5
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"already_matched"}
    assert Counter(m["status"] for m in await world.matches()) == {"accepted": 1, "superseded": 1}
    [winner] = await world.matches(status="accepted")
    taken = sum([(await world.expected(item))["matchedAmountMinor"] for item in items])
    assert taken == winner["amountMinor"]


async def test_accepting_a_group_supersedes_what_competes_for_any_of_its_rows(world: World) -> None:
    _, _, match = await quoted(world)
    for name, text in (("y", "INV-2026-1 in part"), ("z", "INV-2026-2 in part")):
        await world.receive("50.00", remittance=text, externalId=name)
        await world.run(incomingFilter={"externalId": name})
    assert len(await world.matches(status="proposed")) == 3
    assert (await world.accept(match)).status_code == 200
    losers = await world.matches(status="superseded")
    assert [m["supersededBy"] for m in losers] == [match["id"]] * 2


async def test_a_group_for_which_not_enough_is_left_is_superseded(world: World) -> None:
    item, _, match = await instalments(world)
    await world.receive("30.00", remittance="INV-2026-001 x", externalId="z")
    await world.run(incomingFilter={"externalId": "z"})
    [part] = [m for m in await world.matches(status="proposed") if m["id"] != match["id"]]
    assert (await world.accept(part)).status_code == 200
    # 70.00 are left of the invoice: more than each instalment, less than both.
    assert (await world.expected(item))["openAmountMinor"] == 7_000
    [loser] = await world.matches(status="superseded")
    assert (loser["id"], loser["supersededBy"]) == (match["id"], part["id"])


async def test_a_changed_member_makes_the_proposal_stale_and_is_named_once(world: World) -> None:
    items, line, match = await quoted(world)
    await world.sql("UPDATE expected_transaction SET revision = 2 WHERE id = %s", items[2])
    await world.sql("UPDATE incoming_transaction SET revision = 2 WHERE id = %s", line)
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_proposal")
    assert {c["id"] for c in answer.json()["changed"]} == {items[2], line}
    assert len(answer.json()["changed"]) == 2


async def test_a_group_with_a_pending_line_is_not_accepted(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001")
    await world.receive("40.00", remittance="INV-2026-001 a", externalId="a")
    await world.receive("60.00", remittance="INV-2026-001 b", externalId="b", status="pending")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    match = await world.proposal()
    assert "not booked yet" in match["explanation"]
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_state")


async def test_lists_are_filtered_by_kind_and_by_any_leg(world: World) -> None:
    items, line, group = await quoted(world)
    single = await world.expect("7.00", reference="INV-2026-999")
    await world.receive("7.00", remittance="INV-2026-999", externalId="s")
    await world.run()
    [pair] = [m for m in await world.matches(status="proposed") if m["kind"] == "one_to_one"]
    for filters, ids in (
        ({"kind": "one_to_many"}, [group["id"]]),
        ({"kind": "one_to_one"}, [pair["id"]]),
        ({"kind": "many_to_one"}, []),
        *(({"expectedTransactionId": item}, [group["id"]]) for item in items),
        ({"expectedTransactionId": single}, [pair["id"]]),
        ({"incomingTransactionId": line}, [group["id"]]),
    ):
        found = await world.matches(**filters)
        assert [m["id"] for m in found] == ids, filters
        assert all(len(m["legs"]) == (3 if m["id"] == group["id"] else 1) for m in found)


async def test_another_tenants_group_is_not_found(world: World) -> None:
    _, _, match = await quoted(world)
    assert (await world.bystander.post(f"/matches/{match['id']}/accept")).status_code == 404
    assert (await world.bystander.get(f"/matches/{match['id']}")).status_code == 404
    assert (await world.bystander.get("/matches", params={"kind": "one_to_many"})).json()["data"] == []
