"""Matches that a person states over HTTP: what they allocate, what they are called, and all that is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.constants.matches import MATCH_LEGS_MAX
from support.matching_world import DECISIONS, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

NOWHERE = "0192f0c1-2345-7000-8000-000000000000"
NO_HEADERS: dict[str, str] = {}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


def leg(expected: str | None = None, incoming: str | None = None, minor: int = 10_000, **more: Any) -> dict[str, Any]:
    ids = {"expectedTransactionId": expected, "incomingTransactionId": incoming}
    return {**{name: given for name, given in ids.items() if given is not None}, "amountMinor": minor, **more}


async def state(
    world: World, *legs: dict[str, Any], headers: dict[str, str] = NO_HEADERS, **body: Any
) -> httpx2.Response:
    return await world.tenant.post("/matches", {"legs": list(legs), "reason": "seen", **body}, headers=headers)


async def refused(world: World, answer: httpx2.Response, status: int, code: str, *pointers: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert [e["pointer"] for e in answer.json().get("errors") or []] == list(pointers)
    assert await world.sql("SELECT 1 FROM match UNION ALL SELECT 1 FROM leg UNION ALL SELECT 1 FROM allocation") == []


async def test_a_stated_match_is_accepted_at_once(world: World) -> None:
    item, line = await world.expect(), await world.receive()
    answer = await state(world, leg(item, line))
    made = answer.json()
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/matches/{made['id']}"
    assert answer.headers["ETag"] == f'"{made["version"]}"'
    assert (made["status"], made["kind"], made["effectiveOn"]) == ("accepted", "one_to_one", "2026-03-12")
    assert made["createdBy"] == made["decidedBy"]
    assert made["createdBy"].startswith("user:")
    assert (made["score"], made["confidence"], made["explanation"]) == (None, None, "Matched by hand.")
    assert made["decisionReason"] == "seen"
    assert (await world.tenant.get(answer.headers["Location"])).json() == made
    assert {(await world.expected(item))["status"], (await world.incoming(line))["status"]} == {"matched"}
    assert await world.matches(confidence="low") == []
    assert (await world.tenant.post(f"/matches/{made['id']}/accept")).json() == made


async def test_a_stated_match_is_reversed_like_any_other(world: World) -> None:
    item, line = await world.expect(), await world.receive()
    before = await world.digest("expected_open", "incoming_open")
    made = (await state(world, leg(item, line))).json()
    answer = await world.tenant.post(f"/matches/{made['id']}/reverse", {"reason": "not this one"})
    assert answer.status_code == 200, answer.text
    assert await world.digest("expected_open", "incoming_open") == before


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        (((0, 0, 5_000), (1, 0, 5_000)), "one_to_many"),
        (((0, 0, 5_000), (0, 1, 5_000)), "many_to_one"),
        (((0, 0, 5_000), (0, 1, 5_000), (1, 1, 1_000)), "many_to_many"),
    ],
)
async def test_the_kind_follows_from_the_legs(world: World, pairs: Any, kind: str) -> None:
    items = [await world.expect(externalId=f"e{n}") for n in range(2)]
    lines = [await world.receive(externalId=f"i{n}") for n in range(2)]
    made = await state(world, *(leg(items[e], lines[i], minor) for e, i, minor in pairs))
    assert (made.status_code, made.json()["kind"]) == (201, kind)
    assert made.json()["amountMinor"] == sum(minor for _, _, minor in pairs)


async def test_money_is_matched_with_money(world: World) -> None:
    out = await world.receive(direction="debit", account="DE-ONE", externalId="out")
    back = await world.receive(account="DE-TWO", externalId="in")
    made = await state(
        world, {"incomingTransactionId": back, "contraIncomingTransactionId": out, "amountMinor": 10_000}
    )
    assert (made.status_code, made.json()["kind"]) == (201, "transfer")
    paid = await world.receive(account="DE-ONE", externalId="paid")
    given = await world.receive(direction="debit", account="DE-ONE", externalId="given", amount="40.00")
    made = await state(
        world, {"incomingTransactionId": paid, "contraIncomingTransactionId": given, "amountMinor": 4_000}
    )
    assert (made.status_code, made.json()["kind"]) == (201, "refund")
    assert (await world.incoming(paid))["openAmountMinor"] == 6_000
    note = await world.expect("30.00", direction="debit", externalId="note")
    item = await world.expect(externalId="item")
    made = await state(
        world, {"expectedTransactionId": item, "contraExpectedTransactionId": note, "amountMinor": 3_000}
    )
    assert (made.status_code, made.json()["kind"]) == (201, "credit_note")
    assert (await world.expected(note))["status"] == "matched"


async def test_an_invoice_is_paid_with_a_fee(world: World) -> None:
    item, line = await world.expect(), await world.receive("98.00")
    fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 200, "currency": "EUR"}
    made = await state(world, leg(item, line, 9_800), adjustments=[fee])
    assert made.status_code == 201, made.text
    assert [a["amountMinor"] for a in made.json()["adjustments"]] == [200]
    assert (await world.expected(item))["status"] == "matched"
    assert (await world.expected(item))["matchedAmountMinor"] == 10_000


async def test_what_was_paid_over_is_taken_of_the_line(world: World) -> None:
    item, line = await world.expect(), await world.receive("105.00")
    over = {"type": "over_payment", "incomingTransactionId": line, "amountMinor": 500, "currency": "EUR"}
    assert (await state(world, leg(item, line), adjustments=[over])).status_code == 201
    assert (await world.incoming(line))["status"] == "matched"


async def test_two_currencies_need_the_rate(world: World) -> None:
    item, line = await world.expect("92.00"), await world.receive("100.00", currency="USD")
    await refused(world, await state(world, leg(item, line)), 422, "validation_failed", "/legs/0")
    fx = {"type": "fx", "expectedTransactionId": item, "amountMinor": 10, "currency": "EUR", "rate": "0.919"}
    made = await state(world, leg(item, line), adjustments=[fx])
    assert made.status_code == 201, made.text
    [joined] = made.json()["legs"]
    assert (joined["amountMinor"], joined["settledMinor"], joined["settledCurrency"]) == (10_000, 9_190, "EUR")
    assert (made.json()["currency"], made.json()["amountMinor"]) == ("USD", 10_000)
    assert (await world.expected(item))["status"] == "matched"


async def test_a_settled_amount_is_what_the_rate_makes_of_it(world: World) -> None:
    item, line = await world.expect("92.00"), await world.receive("100.00", currency="USD")
    fx = {"type": "fx", "expectedTransactionId": item, "amountMinor": 0, "currency": "EUR", "rate": "0.92"}
    for wrong, pointer in (({"settledMinor": 9_201}, "settledMinor"), ({"settledCurrency": "USD"}, "settledCurrency")):
        answer = await state(world, leg(item, line, **wrong), adjustments=[fx])
        await refused(world, answer, 422, "validation_failed", f"/legs/0/{pointer}")
    right = leg(item, line, settledMinor=9_200, settledCurrency="EUR")
    assert (await state(world, right, adjustments=[fx])).status_code == 201


async def test_what_competes_is_superseded_by_it(world: World) -> None:
    item = await world.expect(reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001")
    other = await world.receive(remittance="cash", externalId="other")
    await world.run()
    proposal = await world.proposal()
    made = (await state(world, leg(item, other))).json()
    [loser] = await world.matches(status="superseded")
    assert (loser["id"], loser["supersededBy"]) == (proposal["id"], made["id"])
    assert (await world.incoming(line))["status"] == "unmatched"


async def test_legs_are_bounded_and_not_none(world: World) -> None:
    item, line = await world.expect(), await world.receive()
    await refused(world, await state(world), 422, "validation_failed", "/legs")
    await refused(world, await state(world, *[leg(item, line, 1)] * 10_001), 422, "validation_failed", "/legs")
    await refused(world, await state(world, leg(item, line), reason=""), 422, "validation_failed", "/reason")


async def test_a_match_of_ten_thousand_legs(world: World) -> None:
    made = await world.sql(
        "INSERT INTO expected_transaction (id, amount_minor, created_at, updated_at, change_id, currency, direction)"
        " SELECT gen_random_uuid(), 1, now(), now(), gen_random_uuid(), 'EUR', 'credit'"
        " FROM generate_series(1, 10000) RETURNING id"
    )
    line = await world.receive()
    answer = await state(world, *(leg(str(row["id"]), line, 1) for row in made))
    assert answer.status_code == 201, answer.text[:500]
    assert len(answer.json()["legs"]) == 10_000
    assert (await world.incoming(line))["status"] == "matched"
    reversed_ = await world.tenant.post(f"/matches/{answer.json()['id']}/reverse", {"reason": "no"})
    assert reversed_.status_code == 200
    assert await world.sql("SELECT count(*) AS n FROM expected_open") == [{"n": 10_000}]


@pytest.mark.parametrize(
    "given",
    [
        {"amountMinor": 1},
        {"expectedTransactionId": NOWHERE, "amountMinor": 1},
        {"expectedTransactionId": NOWHERE, "contraIncomingTransactionId": NOWHERE, "amountMinor": 1},
        {"expectedTransactionId": NOWHERE, "contraExpectedTransactionId": NOWHERE, "amountMinor": 1},
        {"contraExpectedTransactionId": NOWHERE, "contraIncomingTransactionId": NOWHERE, "amountMinor": 1},
    ],
)
async def test_a_leg_joins_two_transactions(world: World, given: Any) -> None:
    await refused(world, await state(world, given), 422, "validation_failed", "/legs/0")


@pytest.mark.parametrize("minor", [0, -1, 10**15, 1.5, "1"])
async def test_a_leg_has_an_amount(world: World, minor: Any) -> None:
    await refused(
        world, await state(world, leg(NOWHERE, NOWHERE, minor)), 422, "validation_failed", "/legs/0/amountMinor"
    )


async def test_a_pair_is_there_once(world: World) -> None:
    item, line = await world.expect(), await world.receive()
    answer = await state(world, leg(item, line, 1), leg(item, line, 2))
    await refused(world, answer, 422, "validation_failed", "/legs/1")
    out, back = await world.receive(direction="debit", externalId="x"), await world.receive(externalId="y")
    turned = [
        {"incomingTransactionId": one, "contraIncomingTransactionId": other, "amountMinor": 1}
        for one, other in ((out, back), (back, out))
    ]
    await refused(world, await state(world, *turned), 422, "validation_failed", "/legs/1")


async def test_nothing_of_another_environment_or_tenant_is_matched(world: World, globex: Tenant) -> None:
    item, line = await world.expect(), await world.receive()
    body = {"direction": "credit", "currency": "EUR", "amount": "100.00"}
    foreign = (await world.tenant.post("/expected-transactions", body, "test")).json()["id"]
    theirs = (await globex.post("/incoming-transactions", {**body, "bookingDate": "2026-03-12"})).json()["id"]
    answer = await state(world, leg(foreign, line), leg(item, theirs), leg(item, NOWHERE))
    await refused(
        world,
        answer,
        422,
        "validation_failed",
        "/legs/0/expectedTransactionId",
        "/legs/1/incomingTransactionId",
        "/legs/2/incomingTransactionId",
    )


async def test_directions_are_those_of_the_legs(world: World) -> None:
    item, line = await world.expect(), await world.receive(direction="debit")
    await refused(world, await state(world, leg(item, line)), 422, "validation_failed", "/legs/0")
    other = await world.receive(direction="debit", externalId="other")
    pair = {"incomingTransactionId": line, "contraIncomingTransactionId": other, "amountMinor": 1}
    await refused(world, await state(world, pair), 422, "validation_failed", "/legs/0")


async def test_no_more_than_is_open_is_taken(world: World) -> None:
    item, line = await world.expect(), await world.receive("100.01")
    await refused(world, await state(world, leg(item, line, 10_001)), 422, "amount_exceeds_open")
    second = await world.receive(externalId="second")
    answer = await state(world, leg(item, line, 6_000), leg(item, second, 4_001))
    await refused(world, answer, 422, "amount_exceeds_open")
    fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 1, "currency": "EUR"}
    await refused(world, await state(world, leg(item, line), adjustments=[fee]), 422, "amount_exceeds_open")
    assert (await state(world, leg(item, line))).status_code == 201


async def test_the_same_money_is_stated_once_whoever_else_does_so(world: World) -> None:
    item = await world.expect()
    lines = [await world.receive(externalId=f"i{n}") for n in range(8)]
    answers = await asyncio.gather(*(state(world, leg(item, line)) for line in lines))
    assert sorted(a.status_code for a in answers) == [201] + [422] * 7
    assert {a.json()["code"] for a in answers if a.status_code == 422} == {"amount_exceeds_open"}


async def test_nothing_is_matched_with_what_is_pending_or_void(world: World) -> None:
    item, line = await world.expect(), await world.receive(status="pending")
    await refused(world, await state(world, leg(item, line)), 409, "invalid_state")
    void = await world.expect(externalId="void")
    booked = await world.receive(externalId="booked")
    assert (await world.tenant.post(f"/expected-transactions/{void}/void", {"reason": "x"})).status_code == 200
    answer = await state(world, leg(void, booked))
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_state")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"currency": "USD"}, "/adjustments/0/currency"),
        ({"expectedTransactionId": NOWHERE}, "/adjustments/0/expectedTransactionId"),
        ({"amountMinor": 0}, "/adjustments/0"),
        ({"rate": "1.1"}, "/adjustments/0"),
        ({"type": "fx"}, "/adjustments/0"),
        ({"type": "gift"}, "/adjustments/0/type"),
        ({"type": "over_payment"}, "/adjustments/0/expectedTransactionId"),
        ({"type": "fx", "rate": "1.1"}, "/adjustments"),
        ({"incomingTransactionId": NOWHERE}, "/adjustments/0"),
        ({"amountMinor": -9_000}, "/adjustments"),
    ],
)
async def test_an_adjustment_is_of_a_transaction_of_the_match(world: World, change: Any, pointer: str) -> None:
    item, line = await world.expect(), await world.receive()
    fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 100, "currency": "EUR"}
    answer = await state(world, leg(item, line, 9_000), adjustments=[{**fee, **change}])
    await refused(world, answer, 422, "validation_failed", pointer)


async def test_an_adjustment_of_the_other_side_is_called_as_it_was_given(world: World) -> None:
    item, line = await world.expect(), await world.receive()
    over = {"type": "over_payment", "expectedTransactionId": item, "amountMinor": 100, "currency": "EUR"}
    [error] = (await state(world, leg(item, line, 9_000), adjustments=[over])).json()["errors"]
    assert error["detail"] == "an adjustment of type over_payment is of the other side"


async def test_legs_that_come_to_more_than_can_be_stored_are_refused(world: World) -> None:
    money = {"direction": "credit", "currency": "EUR", "amountMinor": AMOUNT_MINOR_MAX}
    sides = []
    for path, more in (("/expected-transactions", {}), ("/incoming-transactions", {"bookingDate": "2026-03-12"})):
        made = await world.tenant.post(f"{path}/bulk", {"items": [{**money, **more}] * MATCH_LEGS_MAX})
        sides.append([result["id"] for result in made.json()["results"]])
    legs = [leg(item, line, AMOUNT_MINOR_MAX) for item, line in zip(*sides, strict=True)]
    answer = await state(world, *legs)
    await refused(world, answer, 422, "validation_failed", "/legs")
    assert answer.json()["errors"][0]["code"] == "amount_out_of_range"


async def test_the_same_key_states_it_once(world: World) -> None:
    item, line = await world.expect(), await world.receive()
    headers = {"Idempotency-Key": "by-hand"}
    first = await state(world, leg(item, line), headers=headers)
    digest = await world.digest(*DECISIONS)
    again = await state(world, leg(item, line), headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert await world.digest(*DECISIONS) == digest
