"""What a return takes back of a match that a person has stated, adjusted or reversed: amounts agree in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from support.events import TOLD
from support.matching_world import World, matching_world
from support.postings import CODES, entries, posted, set_codes
from support.service import Service, Tenant
from support.wire import code

pytestmark = pytest.mark.anyio

RETURN = {"direction": "debit", "bookingDate": "2026-03-20", "bankTransactionCode": "PMNT-RCDT-RRTN"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def stated(world: World, item: str, line: str, minor: int, *adjustments: dict[str, Any]) -> str:
    """State a match by hand and return its id."""
    leg = {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}
    body: dict[str, Any] = {"legs": [leg], "reason": "by hand"}
    if adjustments:
        body["adjustments"] = list(adjustments)
    answer = await world.tenant.post("/matches", body)
    assert answer.status_code in {200, 201}, answer.text
    return str(answer.json()["id"])


async def link(world: World, line: str, payment: str, **given: Any) -> httpx2.Response:
    return await world.tenant.post(
        f"/incoming-transactions/{line}/link-reversal", {"incomingTransactionId": payment, **given}
    )


async def reverse(world: World, match: str) -> None:
    answer = await world.tenant.post(f"/matches/{match}/reverse", {"reason": "wrong"})
    assert answer.status_code == 200, answer.text


def state(found: dict[str, Any]) -> tuple[str, int, int]:
    return found["status"], found["matchedAmountMinor"], found["openAmountMinor"]


async def told(world: World, kind: str) -> list[str]:
    rows = await world.sql(f"SELECT resource_id::text AS id FROM {TOLD} WHERE type = %s", kind)  # noqa: S608
    return [row["id"] for row in rows]


async def open_minor(world: World) -> dict[str, tuple[int, int]]:
    """Return the open and the whole amount of each open line."""
    rows = await world.sql("SELECT transaction_id::text AS id, open_minor, total_minor FROM incoming_open")
    return {row["id"]: (row["open_minor"], row["total_minor"]) for row in rows}


async def test_a_return_reopens_what_a_person_has_matched(world: World) -> None:
    item, payment = await world.expect(reference="INV-2026-001"), await world.receive(endToEndId="E2E-4711")
    match = await stated(world, item, payment, 10_000)
    back = await world.receive(**RETURN, endToEndId="E2E-4711")
    await world.run()
    assert state(await world.incoming(back)) == ("linked", 0, 0)
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    [found] = await world.matches()
    assert (found["id"], found["status"], found["returnedAmountMinor"]) == (match, "accepted", 10_000)
    assert await told(world, "expected_transaction.reopened") == [item]
    await reverse(world, match)
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert await open_minor(world) == {}


async def test_a_match_is_reversed_of_which_a_part_came_back(world: World) -> None:
    item, payment = await world.expect(reference="INV-2026-001"), await world.receive()
    match = await stated(world, item, payment, 10_000)
    back = await world.receive("30.00", **RETURN)
    assert (await link(world, back, payment)).status_code == 200
    assert state(await world.expected(item)) == ("partially_matched", 7_000, 3_000)
    await reverse(world, match)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert state(await world.incoming(payment)) == ("unmatched", 0, 7_000)
    assert await open_minor(world) == {payment: (7_000, 7_000)}
    # What is left pays again, and comes back again.
    await stated(world, item, payment, 7_000)
    more = await world.receive("70.00", **RETURN)
    assert (await link(world, more, payment)).status_code == 200
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert Counter(await told(world, "expected_transaction.reopened")) == {item: 3}


async def test_a_return_after_the_reversal_takes_of_what_is_open(world: World) -> None:
    item, payment = await world.expect(reference="INV-2026-001"), await world.receive()
    match = await stated(world, item, payment, 10_000)
    await reverse(world, match)
    back = await world.receive("40.00", **RETURN)
    answer = await link(world, back, payment, expectedTransactionId=item)
    assert (answer.status_code, code(answer)) == (422, "validation_failed")
    assert (await link(world, back, payment)).status_code == 200
    assert state(await world.incoming(payment)) == ("unmatched", 0, 6_000)
    assert await open_minor(world) == {payment: (6_000, 6_000)}
    [found] = await world.matches()
    assert (found["status"], found["returnedAmountMinor"]) == ("reversed", 0)


async def test_what_was_adjusted_stays_until_the_match_is_reversed(world: World) -> None:
    item, payment = await world.expect(reference="INV-2026-001"), await world.receive("98.00")
    fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 200, "currency": "EUR"}
    match = await stated(world, item, payment, 9_800, fee)
    assert state(await world.expected(item)) == ("matched", 10_000, 0)
    back = await world.receive("98.00", **RETURN)
    assert (await link(world, back, payment)).status_code == 200
    assert state(await world.expected(item)) == ("partially_matched", 200, 9_800)
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    await reverse(world, match)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert await open_minor(world) == {}


async def books(world: World) -> dict[tuple[str, str], int]:
    """Return what all postings come to, by code and currency, without what comes to nothing."""
    sums: Counter[tuple[str, str]] = Counter()
    for posting in await posted(world):
        for account, minor, currency in entries(posting):
            sums[account, currency] += minor
    return {key: minor for key, minor in sums.items() if minor}


async def test_a_payment_that_was_worth_more_than_its_item_is_taken_back_by_a_run(world: World) -> None:
    """At its rate it settles more than is asked, of which the exchange takes a part again: that is not reopened."""
    await set_codes(world, CODES)
    await world.rate("EUR", "USD", "1.08")
    item = await world.expect(reference="INV-2026-001")
    paid = {"currency": "USD", "account": "GIRO", "endToEndId": "E2E-4711"}
    payment = await world.receive("108.56", **paid, remittance="INV-2026-001")
    await world.run()
    match = await world.proposal()
    assert [a["amountMinor"] for a in match["adjustments"]] == [-52]
    assert (await world.accept(match)).status_code == 200
    back = await world.receive("108.56", **RETURN, **paid)
    assert (await world.run())["status"] == "succeeded"
    assert state(await world.incoming(back)) == ("linked", 0, 0)
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert await books(world) == {}
    await reverse(world, match["id"])
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert await books(world) == {}


LESS = [
    ("100.00", [("60.00", 6_000), ("41.00", 4_100)], "fee", "expected", ["60.00", "41.00"]),
    ("100.00", [("101.00", 10_100)], "fee", "expected", ["33.67", "33.66", "33.67"]),
    ("100.03", [("100.00", 10_003)], "rounding", "incoming", ["50.00", "50.00"]),
    ("100.03", [("100.00", 10_003)], "rounding", "incoming", ["100.00"]),
]
"""What is asked, payments and their legs, what takes away of whom, and what comes back."""


@pytest.mark.parametrize(("asked", "paid", "kind", "side", "returned"), LESS)
async def test_what_an_adjustment_takes_away_again_is_not_there_to_come_back(
    world: World, asked: str, paid: list[tuple[str, int]], kind: str, side: str, returned: list[str]
) -> None:
    """The legs say more than the item asks for, or more than the payment has: all comes back, and nothing is left."""
    await set_codes(world, CODES)
    item, payments = await world.expect(asked), [await world.receive(amount, account="GIRO") for amount, _ in paid]
    legs = [
        {"expectedTransactionId": item, "incomingTransactionId": payment, "amountMinor": minor}
        for payment, (_, minor) in zip(payments, paid, strict=True)
    ]
    its, minor = (item, -100) if side == "expected" else (payments[0], -3)
    less = {"type": kind, f"{side}TransactionId": its, "amountMinor": minor}
    body = {"legs": legs, "adjustments": [less | {"currency": "EUR"}], "reason": "by hand"}
    assert (await world.tenant.post("/matches", body)).status_code == 201
    assert (await world.expected(item))["status"] == "matched"
    for number, amount in enumerate(returned):
        back = await world.receive(amount, **RETURN, account="GIRO")
        answer = await link(world, back, payments[number % len(payments)])
        assert answer.status_code == 200, answer.text
    assert state(await world.expected(item)) == ("open", 0, round(float(asked) * 100))
    assert [state(await world.incoming(payment)) for payment in payments] == [("reversed", 0, 0)] * len(payments)
    assert await books(world) == {}
    [match] = await world.matches()
    await reverse(world, match["id"])
    assert state(await world.expected(item)) == ("open", 0, round(float(asked) * 100))
    assert await books(world) == {}


async def test_what_was_paid_over_comes_back_with_the_rest(world: World) -> None:
    item, payment = await world.expect(reference="INV-2026-001"), await world.receive("105.00")
    over = {"type": "over_payment", "incomingTransactionId": payment, "amountMinor": 500, "currency": "EUR"}
    match = await stated(world, item, payment, 10_000, over)
    assert state(await world.incoming(payment)) == ("matched", 10_500, 0)
    back = await world.receive("5.00", **RETURN)
    assert (await link(world, back, payment)).status_code == 200
    assert state(await world.incoming(payment)) == ("matched", 10_000, 0)
    assert state(await world.expected(item)) == ("matched", 10_000, 0)
    await reverse(world, match)
    assert state(await world.incoming(payment)) == ("unmatched", 0, 10_000)
    assert state(await world.expected(item)) == ("open", 0, 10_000)
    assert await open_minor(world) == {payment: (10_000, 10_000)}


async def test_of_a_return_that_is_matched_whole_nothing_is_left_to_be_linked(world: World) -> None:
    """Without an amount all that is open is meant, and that is nothing: a link of nothing was tried, and was a 500."""
    payment, back = await world.receive(), await world.receive(**RETURN)
    bill = await world.expect(direction="debit")
    await stated(world, bill, back, 10_000)
    for given in ({}, {"amountMinor": 1}):
        answer = await link(world, back, payment, **given)
        assert (answer.status_code, code(answer)) == (422, "amount_exceeds_open"), given
        assert answer.json()["detail"] == "only 0.00 EUR is left of the return"
    assert state(await world.incoming(back)) == ("matched", 10_000, 0)
    assert await world.sql("SELECT 1 AS one FROM reversal_link") == []


async def test_a_return_that_is_closed_says_so_whether_an_amount_is_given_or_not(world: World) -> None:
    payment, back = await world.receive(), await world.receive(**RETURN)
    answer = await world.tenant.post(f"/incoming-transactions/{back}/ignore", {"reason": "ours"})
    assert answer.status_code == 200, answer.text
    for given in ({}, {"amountMinor": 1}):
        answer = await link(world, back, payment, **given)
        assert (answer.status_code, code(answer)) == (409, "invalid_state"), given
    assert await world.sql("SELECT 1 AS one FROM reversal_link") == []


async def test_what_other_money_has_of_a_payment_is_no_over_payment(world: World) -> None:
    """A part was given back already: a return of all would take that part a second time, of the invoice's match."""
    item, payment = await world.expect(), await world.receive("150.00")
    refund = await world.receive("50.00", direction="debit", bookingDate="2026-03-14")
    match = await stated(world, item, payment, 10_000)
    leg = {"incomingTransactionId": refund, "contraIncomingTransactionId": payment, "amountMinor": 5_000}
    answer = await world.tenant.post("/matches", {"legs": [leg], "reason": "given back"})
    assert answer.status_code == 201, answer.text
    for amount in ("50.00", "150.00"):
        back = await world.receive(amount, **RETURN)
        answer = await link(world, back, payment)
        assert (answer.status_code, code(answer)) == (409, "invalid_state")
        assert answer.json()["detail"] == "the payment is matched with other money"
    assert state(await world.incoming(payment)) == ("matched", 15_000, 0)
    await reverse(world, match)
    assert state(await world.incoming(payment)) == ("partially_matched", 5_000, 10_000)


async def test_what_one_of_two_matches_was_paid_over_comes_back_with_all(world: World) -> None:
    items, payment = [await world.expect(amount) for amount in ("100.00", "45.00")], await world.receive("150.00")
    over = {"type": "over_payment", "incomingTransactionId": payment, "amountMinor": 500, "currency": "EUR"}
    matches = [await stated(world, items[0], payment, 10_000), await stated(world, items[1], payment, 4_500, over)]
    back = await world.receive("150.00", **RETURN)
    answer = await link(world, back, payment)
    assert answer.status_code == 200, answer.text
    assert state(await world.incoming(payment)) == ("reversed", 0, 0)
    assert [state(await world.expected(item)) for item in items] == [("open", 0, 10_000), ("open", 0, 4_500)]
    found = {match["id"]: match["returnedAmountMinor"] for match in await world.matches()}
    assert found == dict(zip(matches, (10_000, 5_000), strict=True))
