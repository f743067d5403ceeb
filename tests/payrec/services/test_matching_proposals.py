"""What a run proposes, what it accepts by itself, and what it says about the rest: through the whole service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.events import TOLD
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

REFERENCE = "INV-2026-001"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def reasons(world: World, expected: str, incoming: str) -> tuple[str | None, str | None]:
    return (await world.expected(expected))["reasonCode"], (await world.incoming(incoming))["reasonCode"]


async def test_without_the_setting_nothing_is_accepted_by_itself(world: World) -> None:
    await world.expect(reference=REFERENCE)
    await world.receive(remittance=REFERENCE)
    assert (await world.run())["counts"]["autoAccepted"] == 0
    assert (await world.proposal())["status"] == "proposed"


async def test_what_is_proved_is_accepted_at_once_with_its_allocations(world: World) -> None:
    expected = await world.expect(reference=REFERENCE)
    incoming = await world.receive(remittance=REFERENCE)
    await world.set(autoAccept=True)
    run = await world.run()
    assert (run["counts"]["proposed"], run["counts"]["autoAccepted"]) == (1, 1)
    [match] = await world.matches()
    assert (match["status"], match["confidence"], match["effectiveOn"]) == ("accepted", "exact", "2026-03-12")
    assert match["decidedBy"] == match["createdBy"]
    assert match["decidedBy"].startswith("engine:")
    for row in (await world.expected(expected), await world.incoming(incoming)):
        assert (row["status"], row["openAmountMinor"], row["reasonCode"]) == ("matched", 0, None)
    assert await world.sql("SELECT 1 FROM expected_open UNION ALL SELECT 1 FROM incoming_open") == []
    assert await world.sql("SELECT count(*) AS n FROM leg JOIN change ON change.id = leg.valid_from") == [{"n": 1}]
    [event] = await world.sql(f"SELECT resource_id FROM {TOLD} WHERE type = 'match.accepted'")  # noqa: S608
    assert str(event["resource_id"]) == match["id"]
    assert (await world.accept(match)).status_code == 200


async def test_what_becomes_of_each_transaction_is_told_as_when_a_person_decides(world: World) -> None:
    begun, untouched = await world.expect(reference=REFERENCE), await world.expect(reference="INV-2026-002")
    first, rest, whole = (
        await world.receive("40.00"),
        await world.receive("60.00", remittance=REFERENCE),
        await world.receive(remittance="INV-2026-002"),
    )
    leg = {"expectedTransactionId": begun, "incomingTransactionId": first, "amountMinor": 4_000}
    assert (await world.tenant.post("/matches", {"legs": [leg], "reason": "an instalment"})).status_code == 201
    await world.set(autoAccept=True)
    assert (await world.run())["counts"]["autoAccepted"] == 2
    told = f"SELECT type, resource_id::text AS id FROM {TOLD} WHERE type LIKE '%%matched' ORDER BY place"  # noqa: S608
    found: dict[str, list[str]] = {}
    for event in await world.sql(told):
        found.setdefault(event["id"], []).append(event["type"])
    assert found == {
        begun: ["expected_transaction.partially_matched", "expected_transaction.matched"],
        untouched: ["expected_transaction.matched"],
        **{line: ["incoming_transaction.matched"] for line in (first, rest, whole)},
    }


@pytest.mark.parametrize(("least", "accepted"), [("exact", 0), ("high", 1)])
async def test_name_and_amount_alone_are_accepted_only_where_high_is_enough(
    world: World, least: str, accepted: int
) -> None:
    await world.expect("321.09", counterpartyName="Ada Lovelace")
    await world.receive("321.09", counterpartyName="LOVELACE ADA")
    await world.set(autoAccept=True, autoAcceptMinConfidence=least)
    run = await world.run()
    assert (run["counts"]["proposed"], run["counts"]["autoAccepted"]) == (1, accepted)
    [match] = await world.matches()
    assert match["confidence"] == "high"


async def test_amount_and_date_alone_are_never_accepted_by_itself(world: World) -> None:
    await world.expect("321.09")
    await world.receive("321.09")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    assert (await world.proposal())["confidence"] == "low"


async def test_a_proposal_that_has_become_acceptable_by_itself_is_replaced_by_the_accepted_match(world: World) -> None:
    await world.expect(reference=REFERENCE)
    await world.receive(remittance=REFERENCE)
    await world.run()
    old = await world.proposal()
    await world.set(autoAccept=True)
    await world.run()
    [accepted] = await world.matches(status="accepted")
    [superseded] = await world.matches(status="superseded")
    assert (superseded["id"], superseded["supersededBy"]) == (old["id"], accepted["id"])


async def test_a_pending_line_is_proposed_and_never_accepted_by_itself(world: World) -> None:
    expected = await world.expect(reference=REFERENCE)
    incoming = await world.receive(remittance=REFERENCE, status="pending")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    assert (await world.run())["counts"]["autoAccepted"] == 0
    assert "not booked yet" in (await world.proposal())["explanation"]
    assert await reasons(world, expected, incoming) == (None, None)


async def test_a_reversal_is_never_proposed(world: World) -> None:
    expected = await world.expect(reference=REFERENCE)
    incoming = await world.receive(remittance=REFERENCE, reversal=True)
    assert (await world.run())["counts"]["proposed"] == 0
    assert await reasons(world, expected, incoming) == ("no_candidate", "no_candidate")


DOUBLED = {
    "amount": "100.00",
    "currency": "EUR",
    "direction": "credit",
    "bookingDate": "2026-03-12",
    "remittance": REFERENCE,
    "endToEndId": "E2E-0001",
}


@pytest.mark.parametrize("order", [("bank-1", "bank-2"), ("bank-2", "bank-1")])
async def test_of_two_lines_with_the_same_content_one_is_a_duplicate_whichever_came_first(
    world: World, order: tuple[str, str]
) -> None:
    await world.expect(reference=REFERENCE)
    for name in order:
        await world.upload([{**DOUBLED, "externalId": name}])
    [flagged] = (await world.tenant.get("/incoming-transactions", params={"reasonCode": "duplicate"})).json()["data"]
    assert (flagged["externalId"], flagged["status"]) == ("bank-1", "unmatched")
    await world.set(autoAccept=True)
    assert (await world.run())["counts"]["autoAccepted"] == 1
    lines = (await world.tenant.get("/incoming-transactions")).json()["data"]
    assert {x["externalId"]: (x["status"], x["reasonCode"]) for x in lines} == {
        "bank-1": ("unmatched", "duplicate"),
        "bank-2": ("matched", None),
    }


async def test_what_has_paid_already_stays_the_original(world: World) -> None:
    await world.expect(reference=REFERENCE)
    await world.upload([{**DOUBLED, "externalId": "bank-1"}])
    await world.set(autoAccept=True)
    await world.run()
    await world.upload([{**DOUBLED, "externalId": "bank-2"}])
    lines = (await world.tenant.get("/incoming-transactions")).json()["data"]
    assert {x["externalId"]: x["reasonCode"] for x in lines} == {"bank-1": None, "bank-2": "duplicate"}


async def test_a_proposal_on_a_line_that_turns_out_to_be_a_duplicate_is_stale(world: World) -> None:
    await world.expect(reference=REFERENCE)
    await world.upload([{**DOUBLED, "externalId": "bank-1"}])
    await world.run()
    match = await world.proposal()
    await world.upload([{**DOUBLED, "externalId": "bank-2"}])
    assert (await world.accept(match)).json()["code"] == "stale_proposal"
    await world.run()
    [leg] = (await world.proposal())["legs"]
    assert (await world.incoming(leg["incomingTransactionId"]))["externalId"] == "bank-2"


async def test_a_booking_brings_its_references_with_it(world: World) -> None:
    await world.expect(reference=REFERENCE)
    line = {**DOUBLED, "externalId": "bank-1"}
    await world.upload([{**line, "status": "pending", "remittance": "to be told"}])
    await world.run()
    assert (await world.proposal())["confidence"] == "low"
    await world.upload([line])
    await world.run()
    assert (await world.proposal())["confidence"] == "exact"


@pytest.mark.parametrize(
    ("settings", "booked", "proposed"),
    [
        ({}, "2026-02-08", 1),
        ({}, "2026-02-07", 0),
        ({}, "2026-05-09", 1),
        ({}, "2026-05-10", 0),
        ({"dateWindowDaysBefore": 0}, "2026-03-09", 0),
        ({"dateWindowDaysAfter": 0}, "2026-03-10", 1),
        ({"dateWindowDaysAfter": 0}, "2026-03-11", 0),
    ],
)
async def test_the_date_window_bounds_what_is_proposed(
    world: World, settings: dict[str, Any], booked: str, proposed: int
) -> None:
    expected = await world.expect(reference=REFERENCE)
    incoming = await world.receive(remittance=REFERENCE, bookingDate=booked)
    await world.set(**settings)
    assert (await world.run())["counts"]["proposed"] == proposed
    told = None if proposed else "date_out_of_window"
    assert await reasons(world, expected, incoming) == (told, told)


@pytest.mark.parametrize(
    ("settings", "paid", "accepted"),
    [
        ({}, "99.50", 0),
        ({"amountToleranceMinor": 50}, "99.50", 1),
        ({"amountToleranceMinor": 49}, "99.50", 0),
        ({"amountTolerancePercent": 0.5}, "99.50", 1),
        ({"amountTolerancePercent": 0.49}, "99.50", 0),
        ({"amountTolerancePercent": 0.5}, "100.50", 1),
    ],
)
async def test_the_tolerance_bounds_what_is_accepted_by_itself_and_not_what_is_proposed(
    world: World, settings: dict[str, Any], paid: str, accepted: int
) -> None:
    await world.expect("100.00", reference=REFERENCE)
    await world.receive(paid, remittance=REFERENCE)
    await world.set(autoAccept=True, **settings)
    run = await world.run()
    assert (run["counts"]["proposed"], run["counts"]["autoAccepted"]) == (1, accepted)


async def test_an_invoice_is_paid_in_two_parts(world: World) -> None:
    invoice = await world.expect("100.00", reference=REFERENCE)
    await world.receive("30.00", remittance=f"{REFERENCE} 1", externalId="a")
    await world.receive("70.00", remittance=f"{REFERENCE} 2", externalId="b")
    await world.run()
    for match in await world.matches(status="proposed"):
        assert (await world.accept(match)).status_code == 200
    paid = await world.expected(invoice)
    assert (paid["status"], paid["matchedAmountMinor"], paid["openAmountMinor"]) == ("matched", 10_000, 0)


async def test_what_is_paid_too_much_stays_open_on_the_line(world: World) -> None:
    expected = await world.expect("100.00", reference=REFERENCE)
    incoming = await world.receive("130.00", remittance=REFERENCE)
    await world.run()
    match = await world.proposal()
    assert match["amountMinor"] == 10_000
    assert (await world.accept(match)).status_code == 200
    assert (await world.expected(expected))["status"] == "matched"
    line = await world.incoming(incoming)
    assert (line["status"], line["matchedAmountMinor"], line["openAmountMinor"]) == ("partially_matched", 10_000, 3_000)
    assert (await world.run())["counts"]["incoming"] == 1
    assert (await world.incoming(incoming))["reasonCode"] == "no_candidate"


async def test_twins_are_ambiguous_and_name_each_other(world: World) -> None:
    items = [await world.expect("50.00", counterpartyName="Ada", externalId=name) for name in ("a", "b")]
    line = await world.receive("50.00", counterpartyName="Ada", externalId="x")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    run = await world.run()
    assert (run["counts"]["autoAccepted"], run["counts"]["ambiguous"]) == (0, 1)
    match = await world.proposal()
    assert match["uniqueness"]["status"] == "ambiguous"
    assert match["confidence"] == "low"
    chosen = match["legs"][0]["expectedTransactionId"]
    [alternative] = match["alternatives"]
    assert {chosen, alternative["expectedTransactionId"]} == set(items)
    assert alternative["incomingTransactionId"] == line
    other = next(item for item in items if item != chosen)
    assert (await world.expected(other))["reasonCode"] == "ambiguous"


async def test_two_lines_that_only_an_id_tells_apart_are_ambiguous(world: World) -> None:
    await world.expect("50.00", reference=REFERENCE)
    for _ in range(2):
        await world.receive("50.00", remittance=REFERENCE)
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    run = await world.run()
    assert (run["counts"]["autoAccepted"], run["counts"]["ambiguous"]) == (0, 1)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, str]] = {
    "nothing in common": ({"amount": "1.00"}, {"amount": "2.00"}, {}, "no_candidate", "no_candidate"),
    "another currency": (
        {"reference": REFERENCE},
        {"remittance": REFERENCE, "currency": "USD"},
        {},
        "currency_mismatch",
        "currency_mismatch",
    ),
    "another amount of the same name": (
        {"amount": "10.00", "counterpartyName": "Ada"},
        {"amount": "15.00", "counterpartyName": "Ada"},
        {},
        "amount_mismatch",
        "amount_mismatch",
    ),
    "no reference where one is required": (
        {"counterpartyName": "Ada"},
        {"counterpartyName": "Ada"},
        {"requireReference": True},
        "missing_reference",
        "missing_reference",
    ),
    "another name": (
        {"counterpartyName": "Ada Lovelace"},
        {"counterpartyName": "Charles Babbage"},
        {},
        "counterparty_mismatch",
        "counterparty_mismatch",
    ),
    "only a pending line, too late": (
        {"reference": REFERENCE},
        {"remittance": REFERENCE, "status": "pending", "bookingDate": "2026-09-01"},
        {},
        "pending_only",
        "date_out_of_window",
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_whatever_stays_open_says_why(world: World, case: str) -> None:
    item, line, settings, why_item, why_line = CASES[case]
    expected, incoming = await world.expect(**item), await world.receive(**line)
    assert await reasons(world, expected, incoming) == (None, None)
    await world.set(**settings)
    run = await world.run()
    assert run["counts"]["unmatched"] == {why_line: 1}
    assert await reasons(world, expected, incoming) == (why_item, why_line)
    for path, found in (("expected", expected), ("incoming", incoming)):
        listed = (await world.tenant.get(f"/{path}-transactions")).json()["data"]
        assert [(x["id"], x["reasonCode"]) for x in listed] == [(found, why_item if path == "expected" else why_line)]
    for reason, count in ((why_line, 1), ("budget_exhausted", 0)):
        filtered = await world.tenant.get("/incoming-transactions", params={"reasonCode": reason})
        assert len(filtered.json()["data"]) == count


async def test_a_reason_goes_when_it_is_true_no_more(world: World) -> None:
    incoming = await world.receive(remittance=REFERENCE)
    await world.run()
    assert (await world.incoming(incoming))["reasonCode"] == "no_candidate"
    expected = await world.expect(reference=REFERENCE)
    await world.run()
    assert await reasons(world, expected, incoming) == (None, None)
