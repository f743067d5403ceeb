"""What is posted of returns whose payment no match has, or not any more: the books have of each line what it moved."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.matching_world import World
from support.postings import decide, entries, leg, match, number_all, played, posted, posting_world
from support.service import Service, Tenant
from support.wire import add_user

pytestmark = pytest.mark.anyio

LINES, MATCHES = "/incoming-transactions", "/matches"
RETURN = {"direction": "debit", "bankTransactionCode": "PMNT-RCDT-RRTN", "endToEndId": "E2E-4711"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with posting_world(service, acme, globex) as made:
        yield made


async def received(world: World, amount: str, net_minor: int, **given: str) -> str:
    """Receive a line of a provider who has kept something of it."""
    line = await world.receive(amount, account="STRIPE", **given)
    await world.sql(
        "UPDATE incoming_transaction SET net_minor = %s, net_currency = 'EUR' WHERE id = %s", net_minor, line
    )
    return line


async def stated(world: World, cut_off: str = "2026-12-31") -> tuple[int, int]:
    """Return what the reconciliation statement says that was allocated and returned on the provider's account."""
    [account] = (await world.tenant.get("/accounts", params={"identifier": "STRIPE"})).json()["data"]
    answer = await world.tenant.get(f"/accounts/{account['id']}/reconciliation", params={"cutOff": cut_off})
    assert answer.status_code == 200, answer.text
    return answer.json()["allocated"]["sumMinor"], answer.json()["returned"]["sumMinor"]


@pytest.mark.parametrize("numbered", ["each time", "in the end"])
@pytest.mark.parametrize("ending", ["before", "reversed", "rejected"])
async def test_the_books_have_what_the_statement_says_of_a_return_without_a_match(
    world: World, ending: str, numbered: str
) -> None:
    """100.00 of which the provider kept 3.00, and 40.00 given back for which it kept 0.50 more."""

    async def decided() -> None:
        if numbered == "each time":
            await number_all(world)

    item = await world.expect("100.00", externalId="E1")
    payment = await received(world, "100.00", 9_700)
    back = await received(world, "40.00", -4_050, direction="debit", bankTransactionCode="refund")
    first = ""
    if ending == "rejected":
        limit = {"approval": {"secondPersonAboveMinor": 9_000, "currency": "EUR"}}
        path = f"/tenants/{world.tenant.id}/settings"
        assert (await world.tenant.request("PATCH", path, json=limit)).status_code == 200
    if ending != "before":
        first = (await match(world, leg(item, payment, 10_000)))["id"]
        await decided()
    await decide(world, f"{LINES}/{back}/link-reversal", {"incomingTransactionId": payment, "amountMinor": 4_000})
    await decided()
    if ending == "reversed":
        await decide(world, f"{MATCHES}/{first}/reverse", {"reason": "not this one"})
    elif ending == "rejected":
        _, second = await add_user(world.service, world.tenant, "approver")
        assert (await second.post(f"{MATCHES}/{first}/reject", {"reason": "no"})).status_code == 200
    of_line, of_item, of_code = played(await posted(world))
    assert (of_line, of_item) == ({payment: 4_000, back: -4_000}, {})
    assert of_code == {("1210", "EUR"): -120 - 50, ("4970", "EUR"): 170}
    assert await stated(world) == (0, -170)
    await match(world, leg(item, payment, 6_000))
    found = await posted(world)
    of_line, of_item, of_code = played(found)
    assert (of_line, of_item) == ({payment: 10_000, back: -4_000}, {"E1": -6_000})
    assert of_code["1210", "EUR"] == sum(await stated(world)) == 9_700 - 4_050
    assert [posting["kind"] for posting in found] == {
        "before": ["return", "match"],
        "reversed": ["match", "return", "match_reversal", "match"],
        "rejected": ["return", "match"],
    }[ending]


@pytest.mark.parametrize("numbered", ["each time", "in the end"])
async def test_what_a_return_gives_back_so_that_its_payment_pays_first_is_countered(
    world: World, numbered: str
) -> None:
    await world.set(autoAccept=True)
    payment = await received(world, "100.00", 9_701, remittance="INV-2026-001", endToEndId="E2E-4711")
    other = await received(world, "20.00", 2_000, endToEndId="E2E-4712")
    back = await received(world, "30.00", -3_001, **RETURN)
    by_hand = await received(world, "5.00", -500, direction="debit", bankTransactionCode="refund")
    await decide(world, f"{LINES}/{by_hand}/link-reversal", {"incomingTransactionId": payment})
    await world.run()
    if numbered == "each time":
        [first, second] = await posted(world)
        assert (first["kind"], first["sourceId"], second["sourceId"]) == ("return", by_hand, back)
        # Of 30.00 and 5.00 together 1.05 was kept, of which the books had 0.15; and 0.01 for the return.
        assert entries(second) == [
            ("1210", -3_000, "EUR"), ("1210", -91, "EUR"), ("1210", 3_000, "EUR"), ("4970", 91, "EUR")
        ]  # fmt: skip
    await world.expect("95.00", reference="INV-2026-001", externalId="E1")
    await world.run()
    found = await posted(world)
    if numbered == "each time":
        assert [(posting["kind"], posting.get("reversesSequence")) for posting in found[2:]] == [
            ("return_reversal", 2), ("match", None), ("return", 4)
        ]  # fmt: skip
    of_line, of_item, of_code = played(found)
    assert of_line == {payment: 10_000, back: -3_000, by_hand: -500}
    assert of_item == {"E1": -6_500}
    assert of_code["1210", "EUR"] == sum(await stated(world)) == 9_701 - 3_001 - 500
    assert (await world.incoming(other))["status"] == "unmatched"


async def test_a_return_counts_from_no_day_before_that_of_what_it_takes_back(world: World) -> None:
    """Else the books of the days between have an item that is owed twice, and money that has gone and never came."""
    item = await world.expect("100.00", externalId="E1")
    days = ("2026-03-05", "2026-03-20", "2026-03-26")
    first, second, alone = [await world.receive("50.00", account="STRIPE", bookingDate=day) for day in days]
    # It counts from the later of its days; but the first of its payments was back before.
    await match(world, leg(item, first, 5_000), leg(item, second, 5_000))
    for payment, day in ((first, "2026-03-08"), (alone, "2026-03-24")):
        back = await world.receive("50.00", **{**RETURN, "endToEndId": None}, account="STRIPE", bookingDate=day)
        await decide(world, f"{LINES}/{back}/link-reversal", {"incomingTransactionId": payment})
    found = await posted(world)
    assert sorted((posting["kind"], posting["effectiveOn"]) for posting in found) == [
        ("match", "2026-03-20"), ("return", "2026-03-20"), ("return", "2026-03-26")
    ]  # fmt: skip
    for cut_off in ("2026-03-08", "2026-03-19", "2026-03-20", "2026-03-24", "2026-03-26"):
        _, of_item, of_code = played([posting for posting in found if posting["effectiveOn"] <= cut_off])
        assert of_item["E1"] <= 0, cut_off
        assert of_code["1210", "EUR"] == sum(await stated(world, cut_off)), cut_off


async def test_what_is_kept_of_the_other_parts_is_as_the_statement_has_it_when_a_match_is_reversed(
    world: World,
) -> None:
    """Of 10.00 were kept 0.05: of each half by itself 0.03, so that the second was posted with 0.02."""
    items = [await world.expect("5.00", externalId=f"E{number}") for number in range(2)]
    payment = await received(world, "10.00", 995)
    first, second = [await match(world, leg(item, payment, 500)) for item in items]
    [_, both] = await posted(world)
    assert (both["sourceId"], entries(both)[0]) == (second["id"], ("1210", -2, "EUR"))
    await decide(world, f"{MATCHES}/{first['id']}/reverse", {"reason": "not this one"})
    _, _, of_code = played(await posted(world))
    assert of_code["1210", "EUR"] == sum(await stated(world)) == 497
    await decide(world, f"{MATCHES}/{second['id']}/reverse", {"reason": "nor this one"})
    assert played(await posted(world)) == ({}, {}, {})


async def test_a_provider_who_pays_out_another_currency_has_in_the_books_what_his_account_moved(world: World) -> None:
    """The payer's 100.00 USD are 88.01 EUR of the provider's account, of which 30.00 USD go back for 26.50 EUR."""
    items = [await world.expect("50.00", currency="USD", externalId=f"E{number}") for number in range(2)]
    payment = await received(world, "100.00", 8_801, currency="USD")
    back = await received(world, "30.00", -2_650, currency="USD", direction="debit", bankTransactionCode="refund")
    account = {"identifier": "STRIPE", "kind": "psp", "currency": "EUR"}
    assert (await world.tenant.post("/accounts", account)).status_code in {201, 409}
    first, second = [await match(world, leg(item, payment, 5_000)) for item in items]
    found = await posted(world)
    assert entries(found[0]) == [
        ("1210", 4_400, "EUR"), ("1360", -4_400, "EUR"), ("1360", 5_000, "USD"), ("1400", -5_000, "USD")
    ]  # fmt: skip
    link = {"incomingTransactionId": payment, "expectedTransactionId": items[0]}
    await decide(world, f"{LINES}/{back}/link-reversal", link)
    of_line, of_item, of_code = played(await posted(world))
    assert (of_line, of_item) == ({payment: 10_000, back: -3_000}, {"E0": -2_000, "E1": -5_000})
    assert of_code == {
        ("1210", "EUR"): 8_801 - 2_650, ("1360", "EUR"): 2_650 - 8_801, ("1360", "USD"): 7_000, ("1400", "USD"): -7_000
    }  # fmt: skip
    assert await in_euro(world) == 8_801 - 2_650
    for one in (first, second):
        await decide(world, f"{MATCHES}/{one['id']}/reverse", {"reason": "not this one"})
        _, _, of_code = played(await posted(world))
        assert of_code["1210", "EUR"] == await in_euro(world)
    assert of_code == {("1210", "EUR"): 2_640 - 2_650, ("1360", "EUR"): 2_650 - 2_640}
    await decide(world, f"{LINES}/{payment}/classify", {"category": "interest"})
    _, _, of_code = played(await posted(world))
    assert of_code["1210", "EUR"] == 8_801 - 2_650
    assert (of_code["1360", "USD"], of_code["2650", "USD"]) == (7_000, -7_000)


async def in_euro(world: World) -> int:
    """Return what the reconciliation statement of the provider's account in EUR says that was allocated or returned."""
    found = (await world.tenant.get("/accounts", params={"identifier": "STRIPE"})).json()["data"]
    [account] = [row for row in found if row["currency"] == "EUR"]
    answer = await world.tenant.get(f"/accounts/{account['id']}/reconciliation", params={"cutOff": "2026-12-31"})
    return int(answer.json()["allocated"]["sumMinor"] + answer.json()["returned"]["sumMinor"])
