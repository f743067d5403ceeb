"""Returns: what takes money back finds its payment, and only that amount is open again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from support.events import TOLD
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import code

pytestmark = pytest.mark.anyio

NAME = "Bolt GmbH"
IBAN = "DE89370400440532013000"
RETURN = {"direction": "debit", "bookingDate": "2026-03-20", "bankTransactionCode": "PMNT-RCDT-RRTN"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def paid(world: World, amount: str = "100.00", **fields: Any) -> tuple[str, str, dict[str, Any]]:
    """Let an item be paid and the match be accepted; return the item, the payment and the match."""
    item = await world.expect(amount, reference="INV-2026-001", counterpartyName=NAME)
    payment = await world.receive(
        amount,
        remittance="INV-2026-001",
        **{"endToEndId": "E2E-4711", "counterpartyName": NAME, "counterpartyAccount": IBAN, **fields},
    )
    await world.run()
    answer = await world.accept(await world.proposal())
    assert answer.status_code == 200, answer.text
    return item, payment, answer.json()


async def link(world: World, line: str, payment: str, **given: Any) -> httpx2.Response:
    headers = given.pop("headers", {})
    body = {"incomingTransactionId": payment, **given}
    return await world.tenant.post(f"/incoming-transactions/{line}/link-reversal", body, headers=headers)


async def told(world: World, kind: str) -> list[str]:
    rows = await world.sql(f"SELECT resource_id::text AS id FROM {TOLD} WHERE type = %s", kind)  # noqa: S608
    return [row["id"] for row in rows]


def state(found: dict[str, Any]) -> tuple[str, int, int]:
    return found["status"], found["matchedAmountMinor"], found["openAmountMinor"]


async def test_a_return_of_an_accepted_payment_reopens_its_item(world: World) -> None:
    item, payment, match = await paid(world)
    back = await world.receive(**RETURN, endToEndId="E2E-4711", returnReason="AC04")
    await world.run()
    found = await world.incoming(back)
    assert state(found) == ("linked", 0, 0)
    assert found["returnKind"] == "return"
    assert found["reversalOf"] == [
        {"incomingTransactionId": payment, "expectedTransactionId": item, "amountMinor": 10_000}
    ]
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    [now] = await world.matches()
    assert (now["status"], now["returnedAmountMinor"], now["legs"]) == ("accepted", 10_000, match["legs"])
    assert now["version"] == match["version"] + 1
    assert await told(world, "expected_transaction.reopened") == [item]
    assert await told(world, "incoming_transaction.reversed") == [payment]
    assert await told(world, "incoming_transaction.updated") == [back]
    # What is open again is paid again.
    again = await world.receive(bookingDate="2026-03-25", remittance="INV-2026-001", counterpartyName=NAME)
    await world.run()
    proposal = await world.proposal()
    assert [leg["incomingTransactionId"] for leg in proposal["legs"]] == [again]
    assert (await world.accept(proposal)).status_code == 200
    assert state(await world.expected(item)) == ("matched", 10_000, 0)


async def test_a_part_reopens_that_part_alone(world: World) -> None:
    item, payment, _ = await paid(world)
    parts = [await world.receive(amount, **RETURN, endToEndId="E2E-4711") for amount in ("30.00", "45.00")]
    await world.run()
    assert [state(await world.incoming(part)) for part in parts] == [("linked", 0, 0)] * 2
    assert state(await world.expected(item)) == ("partially_matched", 2_500, 7_500)
    assert state(await world.incoming(payment)) == ("matched", 2_500, 0)
    assert [m["returnedAmountMinor"] for m in await world.matches()] == [7_500]
    # Together with a third one, more would come back than was paid.
    more = await world.receive("30.00", **{**RETURN, "bookingDate": "2026-03-22"}, endToEndId="E2E-4711")
    await world.run()
    assert state(await world.incoming(more)) == ("unmatched", 0, 3_000)
    answer = await link(world, more, payment)
    assert (answer.status_code, code(answer)) == (422, "amount_exceeds_open")
    answer = await link(world, more, payment, amountMinor=2_500)
    assert answer.status_code == 200, answer.text
    assert state(answer.json()) == ("unmatched", 0, 500)
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.expected(item)) == ("open", 0, 10_000)


async def test_a_payment_that_is_open_goes_with_its_return(world: World) -> None:
    payment = await world.receive(remittance="who is this", counterpartyAccount=IBAN)
    await world.run()
    back = await world.receive(**RETURN, counterpartyAccount=IBAN)
    await world.run()
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.incoming(back)) == ("linked", 0, 0)
    assert await world.sql("SELECT 1 AS one FROM incoming_open") == []
    before = (await world.sql("SELECT clock_timestamp() AS at"))[0]["at"].isoformat()
    # Who it was is known when an item comes: it may be paid first, as if it had been there before.
    item = await world.expect(reference="INV-2026-001", counterpartyAccount=IBAN)
    assert (await world.run())["counts"]["proposed"] == 1
    assert [state(await world.incoming(line)) for line in (payment, back)] == [("unmatched", 0, 10_000)] * 2
    found = await world.tenant.get(f"/incoming-transactions/{back}", params={"asOf": before})
    assert (found.json()["status"], len(found.json()["reversalOf"])) == ("linked", 1)
    # Nobody did so: the return takes it all the same, and nothing moves to and fro from now on.
    for _ in range(2):
        assert (await world.run())["counts"]["proposed"] == 0
        assert [state(await world.incoming(line))[0] for line in (payment, back)] == ["reversed", "linked"]
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert await world.sql("SELECT count(*) AS n FROM reversal_link_state") == [{"n": 1}]


async def test_what_came_back_before_its_item_was_known_is_paid_and_taken_back(world: World) -> None:
    """As if the invoice had been there first: it is matched, and what came back of it is open."""
    await world.set(autoAccept=True)
    payment = await world.receive(remittance="INV-2026-001", endToEndId="E2E-4711")
    back = await world.receive("30.00", **RETURN, endToEndId="E2E-4711")
    by_hand = await world.receive("5.00", **RETURN)
    assert (await link(world, by_hand, payment)).status_code == 200
    other = await world.expect(reference="INV-2026-002")
    await world.run()
    assert state(await world.incoming(back)) == ("linked", 0, 0)
    item = await world.expect("95.00", reference="INV-2026-001")
    run = await world.run()
    assert (run["counts"]["autoAccepted"], run["counts"]["unmatched"]) == (1, {})
    assert state(await world.expected(item)) == ("partially_matched", 6_500, 3_000)
    assert state(await world.incoming(payment)) == ("matched", 6_500, 0)
    assert (await world.incoming(back))["reversalOf"] == [
        {"incomingTransactionId": payment, "expectedTransactionId": item, "amountMinor": 3_000}
    ]
    [match] = await world.matches()
    assert (match["amountMinor"], match["returnedAmountMinor"]) == (9_500, 3_000)
    assert state(await world.expected(other)) == ("open", 0, 10_000)
    assert await told(world, "incoming_transaction.reopened") == sorted([payment, back])


async def test_a_proposal_with_what_is_taken_back_is_superseded(world: World) -> None:
    item = await world.expect(reference="INV-2026-001")
    await world.receive(remittance="INV-2026-001", endToEndId="E2E-4711")
    await world.run()
    proposal = await world.proposal()
    back = await world.receive(**RETURN, endToEndId="E2E-4711")
    await world.run()
    [match] = await world.matches()
    assert (match["id"], match["status"], match["supersededBy"]) == (proposal["id"], "superseded", None)
    answer = await world.accept(proposal)
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    assert state(await world.incoming(back)) == ("linked", 0, 0)
    assert state(await world.expected(item)) == ("open", 0, 10_000)


async def test_whoever_links_supersedes_at_once_what_hangs_on_the_payment(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    payment = await world.receive(remittance="INV-2026-001")
    await world.run()
    proposal = await world.proposal()
    back = await world.receive("1.00", **RETURN)
    assert (await link(world, back, payment)).status_code == 200
    [match] = await world.matches()
    assert (match["id"], match["status"]) == (proposal["id"], "superseded")
    assert await told(world, "match.superseded") == [proposal["id"]]
    # What is left of the payment is matched with what it is then.
    await world.run()
    assert [leg["amountMinor"] for leg in (await world.proposal())["legs"]] == [9_900]


async def test_a_payment_takes_part_in_one_run_before_it_is_taken_back(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    payment = await world.receive(remittance="INV-2026-001", endToEndId="E2E-4711")
    back = await world.receive(**RETURN, endToEndId="E2E-4711")
    run = await world.run()
    assert (run["counts"]["proposed"], run["counts"]["unmatched"]) == (1, {"no_candidate": 1})
    assert (await world.accept(await world.proposal())).status_code == 200
    await world.run()
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.incoming(back)) == ("linked", 0, 0)


async def test_what_fits_several_payments_alike_is_ambiguous_until_somebody_says_which(world: World) -> None:
    payments = [await world.receive(counterpartyAccount=IBAN, externalId=name) for name in ("a", "b")]
    await world.run()
    back = await world.receive(**RETURN, counterpartyAccount=IBAN)
    lonely = await world.receive("77.00", **RETURN, counterpartyName="Nobody")
    run = await world.run()
    assert run["counts"]["unmatched"] == {"no_candidate": 3, "ambiguous": 1}
    found = await world.incoming(back)
    assert (found["reasonCode"], found["reversalOf"]) == ("ambiguous", [])
    assert (await world.incoming(lonely))["reasonCode"] == "no_candidate"
    answer = await link(world, back, payments[1])
    assert (answer.status_code, answer.json()["status"]) == (200, "linked")
    assert answer.headers["etag"] == f'"{answer.json()["version"]}"'
    assert state(await world.incoming(payments[0])) == ("unmatched", 0, 10_000)
    answer = await link(world, back, payments[0])
    assert (answer.status_code, code(answer)) == (409, "invalid_state")


async def several(world: World) -> tuple[list[str], str]:
    """Let one payment settle two items; return them and the payment."""
    items = [
        await world.expect(amount, reference=f"INV-2026-00{number}", externalId=f"E{number}")
        for number, amount in enumerate(("60.00", "40.00"), start=1)
    ]
    payment = await world.receive(remittance="INV-2026-001 INV-2026-002", endToEndId="E2E-4711")
    await world.run()
    assert (await world.accept(await world.proposal())).status_code == 200
    return items, payment


async def test_of_several_items_the_amount_or_a_person_says_which_is_open_again(world: World) -> None:
    items, payment = await several(world)
    exact = await world.receive("40.00", **RETURN, endToEndId="E2E-4711")
    await world.run()
    [found] = (await world.incoming(exact))["reversalOf"]
    assert found["expectedTransactionId"] == items[1]
    assert [state(await world.expected(item)) for item in items] == [("matched", 6_000, 0), ("open", 0, 4_000)]
    assert state(await world.incoming(payment)) == ("matched", 6_000, 0)


async def test_a_part_of_several_items_is_ambiguous(world: World) -> None:
    items, payment = await several(world)
    back = await world.receive("10.00", **RETURN, endToEndId="E2E-4711")
    await world.run()
    assert (await world.incoming(back))["reasonCode"] == "ambiguous"
    answer = await link(world, back, payment)
    assert (answer.status_code, code(answer)) == (422, "validation_failed")
    assert answer.json()["errors"][0]["code"] == "ambiguous"
    answer = await link(world, back, payment, expectedTransactionId=items[0])
    assert answer.status_code == 200, answer.text
    assert [state(await world.expected(item)) for item in items] == [
        ("partially_matched", 5_000, 1_000),
        ("matched", 4_000, 0),
    ]
    more = await world.receive("60.00", **{**RETURN, "bookingDate": "2026-03-21"})
    answer = await link(world, more, payment, expectedTransactionId=items[0])
    assert (answer.status_code, code(answer)) == (422, "amount_exceeds_open")
    other = await world.expect("1.00")
    answer = await link(world, more, payment, expectedTransactionId=other, amountMinor=1)
    assert (answer.status_code, code(answer)) == (422, "validation_failed")


async def test_a_return_of_all_reopens_all(world: World) -> None:
    items, payment = await several(world)
    back = await world.receive(**RETURN, endToEndId="E2E-4711")
    await world.run()
    assert sum(of["amountMinor"] for of in (await world.incoming(back))["reversalOf"]) == 10_000
    assert [state(await world.expected(item))[0] for item in items] == ["open", "open"]
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert [m["returnedAmountMinor"] for m in await world.matches()] == [10_000]


async def test_what_is_no_return_is_not_linked(world: World) -> None:
    payment = await world.receive()
    line = await world.receive(direction="debit")
    answer = await link(world, line, payment)
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    assert (await world.incoming(line))["returnKind"] is None
    back = await world.receive(**RETURN)
    refusals = {
        payment: (422, "direction_mismatch", {"direction": "credit", "reversal": True}),
        await world.receive(currency="USD"): (422, "currency_mismatch", {}),
        await world.receive(reversal=True): (422, "not_a_payment", {}),
    }
    for other, (status, expected, fields) in refusals.items():
        given = await world.receive(**fields) if fields else back
        answer = await link(world, given, other)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (status, expected)
    pending = await world.receive(status="pending")
    answer = await link(world, back, pending)
    assert (answer.status_code, code(answer)) == (409, "invalid_state")
    assert await world.sql("SELECT 1 AS one FROM reversal_link") == []


async def test_what_is_not_there_is_not_found_in_either_place(world: World) -> None:
    payment, back = await world.receive(), await world.receive(**RETURN)
    nobody = "01890000-0000-7000-8000-000000000000"
    [theirs] = [x["id"] for x in (await world.bystander.get("/incoming-transactions")).json()["data"][:1]]
    for line, other in ((nobody, payment), (back, nobody), (theirs, payment), (back, theirs), ("x", payment)):
        answer = await link(world, line, other)
        assert (answer.status_code, code(answer)) == (404, "not_found")
    for given in ({"amountMinor": 0}, {"amountMinor": 2**63}, {"amountMinor": "1"}, {"expectedTransactionId": "x"}):
        answer = await link(world, back, payment, **given)
        assert (answer.status_code, code(answer)) == (422, "validation_failed"), given


async def test_an_if_match_of_another_version_is_refused(world: World) -> None:
    payment, back = await world.receive(), await world.receive(**RETURN)
    answer = await link(world, back, payment, headers={"If-Match": '"7"'})
    assert (answer.status_code, code(answer)) == (412, "version_mismatch")
    assert (await link(world, back, payment, headers={"If-Match": '"1"'})).status_code == 200
    answer = await link(world, back, payment, headers={"If-Match": '"1"'})
    assert (answer.status_code, code(answer)) == (412, "version_mismatch")


async def test_a_repeated_request_has_one_effect_and_one_answer(world: World) -> None:
    payment, back = await world.receive(), await world.receive(**RETURN)
    headers = {"Idempotency-Key": "once"}
    first = await link(world, back, payment, amountMinor=1_000, headers=headers)
    again = await link(world, back, payment, amountMinor=1_000, headers=headers)
    assert (first.status_code, again.status_code, again.text) == (200, 200, first.text)
    assert await world.sql("SELECT amount_minor FROM reversal_link") == [{"amount_minor": 1_000}]


async def test_twenty_at_once_never_take_back_more_than_was_paid(world: World) -> None:
    item, payment, _ = await paid(world)
    returns = [await world.receive("9.00", **RETURN, externalId=f"R{number}") for number in range(20)]
    answers = await asyncio.gather(*(link(world, back, payment) for back in returns))
    assert Counter(a.status_code for a in answers) == {200: 11, 422: 9}
    assert {code(a) for a in answers if a.status_code == 422} == {"amount_exceeds_open"}
    [row] = await world.sql("SELECT sum(amount_minor)::bigint AS sum FROM reversal_link")
    assert row["sum"] == 9_900
    assert state(await world.expected(item)) == ("partially_matched", 100, 9_900)
    assert state(await world.incoming(payment)) == ("matched", 100, 0)
    assert [m["returnedAmountMinor"] for m in await world.matches()] == [9_900]


async def test_twenty_at_once_never_link_a_return_beyond_its_amount(world: World) -> None:
    payments = [await world.receive("9.00", externalId=f"P{number}") for number in range(20)]
    back = await world.receive(**RETURN)
    answers = await asyncio.gather(*(link(world, back, payment, amountMinor=900) for payment in payments))
    assert Counter(a.status_code for a in answers) == {200: 11, 422: 9}
    found = await world.incoming(back)
    assert (state(found), len(found["reversalOf"])) == (("unmatched", 0, 100), 11)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"bankTransactionCode": "PMNT-RCDT-RRTN"}, "return"),
        ({"bankTransactionCode": "NMSC+109"}, "return"),
        ({"bankTransactionCode": "PMNT-CCRD-UPCT"}, "chargeback"),
        ({"returnReason": "FOCR"}, "recall"),
        ({"returnReason": "MD06"}, "refund"),
        ({"reversal": True}, None),
    ],
)
async def test_a_return_is_known_by_what_its_file_says(world: World, fields: dict[str, Any], kind: str | None) -> None:
    record = {"direction": "debit", "currency": "EUR", "amount": "100.00", "bookingDate": "2026-03-20", **fields}
    await world.expect(direction="debit", reference="INV-2026-001")
    await world.upload([{**record, "remittance": "INV-2026-001"}])
    assert (await world.run())["counts"]["proposed"] == 0
    [found] = (await world.tenant.get("/incoming-transactions")).json()["data"]
    assert (found["returnKind"], found["reversalOf"]) == (kind, [])


async def test_a_chargeback_that_was_won_pays_again(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    won = await world.receive(remittance="INV-2026-001", bankTransactionCode="ChargebackReversed")
    assert (await world.incoming(won))["returnKind"] == "chargeback_won"
    assert (await world.run())["counts"]["proposed"] == 1


async def test_a_dry_run_links_nothing(world: World) -> None:
    await world.receive(endToEndId="E2E-4711")
    await world.run()
    await world.receive(**RETURN, endToEndId="E2E-4711")
    before = await world.digest("allocation", "incoming_open", "reversal_link")
    await world.run(dryRun=True)
    assert await world.digest("allocation", "incoming_open", "reversal_link") == before


async def test_a_filtered_run_links_what_it_looks_at(world: World) -> None:
    payments = [await world.receive(endToEndId=f"E2E-471{n}") for n in (1, 2)]
    await world.run()
    for n in (1, 2):
        await world.receive(**RETURN, endToEndId=f"E2E-471{n}", externalId=f"R{n}")
    await world.run(incomingFilter={"externalId": "R2"})
    assert [state(await world.incoming(p))[0] for p in payments] == ["unmatched", "reversed"]


async def test_a_match_of_which_something_came_back_is_verified(world: World) -> None:
    item, payment, match = await paid(world)
    back = await world.receive("30.00", **RETURN, endToEndId="E2E-4711")
    await world.run()
    assert (await world.incoming(back))["status"] == "linked"
    service = world.service.factory.create_match_verification_service()
    found = await service.verify(world.scope, match["id"])
    [check] = [check for check in found.checks if check.name == "allocations"]
    assert check.holds, check
    await world.sql("UPDATE allocation SET allocated_minor = allocated_minor - 1 WHERE transaction_id = %s", item)
    found = await service.verify(world.scope, match["id"])
    assert not next(check for check in found.checks if check.name == "allocations").holds
    assert (await world.incoming(payment))["matchedAmountMinor"] == 7_000
