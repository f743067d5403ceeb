"""Money against money over HTTP: transfers, payouts, refunds and credit notes, proposed, accepted and kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

GIRO, SAVINGS = "DE89370400440532013000", "DE02120300000000202051"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def transfer(world: World, **fields: Any) -> tuple[str, str]:
    """Store what left one own account and what arrived on the other."""
    out = await world.receive(
        direction="debit",
        account=GIRO,
        counterpartyAccount=SAVINGS,
        externalId="out",
        bookingDate="2026-03-10",
        **fields,
    )
    return out, await world.receive(account=SAVINGS, counterpartyAccount=GIRO, externalId="in", **fields)


def lines_of(match: dict[str, Any]) -> list[tuple[str | None, ...]]:
    names = ("incomingTransactionId", "contraIncomingTransactionId")
    others = ("expectedTransactionId", "contraExpectedTransactionId")
    assert all(leg[name] is None for leg in match["legs"] for name in others)
    return [tuple(leg[name] for name in names) for leg in match["legs"]]


async def test_a_transfer_says_why_and_is_accepted(world: World) -> None:
    out, back = await transfer(world)
    await world.run()
    match = await world.proposal()
    assert (match["kind"], match["confidence"], match["amountMinor"], match["currency"]) == (
        "transfer",
        "high",
        10_000,
        "EUR",
    )
    assert lines_of(match) == [(back, out)]
    assert match["explanation"] == (
        f"100.00 EUR moved from {GIRO} to {SAVINGS}, each names the account of the other, booked 2 days apart;"
        " no other line fits."
    )
    assert match["uniqueness"]["status"] == "unique"
    answer = await world.accept(match)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["status"], answer.json()["effectiveOn"]) == ("accepted", "2026-03-12")
    for line in (out, back):
        found = await world.incoming(line)
        assert (found["status"], found["matchedAmountMinor"], found["openAmountMinor"]) == ("matched", 10_000, 0)
    again = await world.accept(match)
    assert (again.status_code, again.json()) == (200, answer.json())
    for line in (out, back):
        assert [m["id"] for m in await world.matches(incomingTransactionId=line)] == [match["id"]]
    assert await world.bystander_decisions() == 0


async def test_a_run_again_keeps_a_transfer_and_accepts_it_where_it_may(world: World) -> None:
    lines = await transfer(world)
    first = await world.run()
    match = await world.proposal()
    second = await world.run()
    assert (await world.proposal())["id"] == match["id"]
    assert [run["counts"]["proposed"] for run in (first, second)] == [1, 1]
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    third = await world.run()
    assert third["counts"]["autoAccepted"] == 1
    assert {(await world.incoming(line))["status"] for line in lines} == {"matched"}
    assert await world.bystander_decisions() == 0


async def test_a_dry_run_tells_of_a_transfer(world: World) -> None:
    out, back = await transfer(world)
    [proposal] = (await world.run(dryRun=True))["proposals"]
    [leg] = proposal["legs"]
    assert proposal["kind"] == "transfer"
    assert (leg["incomingTransactionId"], leg["contraIncomingTransactionId"]) == (back, out)


async def test_accepting_one_of_two_supersedes_what_competes(world: World) -> None:
    """The same debit is wanted by an item once the transfer was proposed: whoever is accepted first has it."""
    out = await world.receive(direction="debit", account=GIRO, remittance="INV-2026-0417", externalId="out")
    await world.receive(account=SAVINGS, counterpartyAccount=GIRO, externalId="in")
    await world.run()
    match = await world.proposal()
    item = await world.expect(direction="debit", reference="INV-2026-0417")
    await world.run()
    [paid] = await world.matches(status="proposed")
    assert paid["legs"][0]["expectedTransactionId"] == item
    assert paid["legs"][0]["incomingTransactionId"] == out
    assert (await world.accept(match)).json()["code"] == "invalid_state"
    assert (await world.accept(paid)).status_code == 200


async def test_a_payout_deposit_pays_no_invoice(world: World) -> None:
    item = await world.expect(reference="INV-2026-0417", counterpartyName="Pay Provider")
    payout = await world.receive(direction="debit", account="PSP-EUR", groupKey="PO-2026-7", externalId="payout")
    deposit = await world.receive(
        account=GIRO, remittance="PO-2026-7 INV-2026-0417", counterpartyName="Pay Provider", externalId="deposit"
    )
    await world.run()
    match = await world.proposal()
    assert (match["kind"], match["confidence"], lines_of(match)) == ("transfer", "exact", [(deposit, payout)])
    assert "both name the payout PO-2026-7" in match["explanation"]
    assert (await world.expected(item))["status"] == "open"


async def test_payouts_of_adyen_s_batches_are_matched_to_their_deposits(world: World) -> None:
    columns = "Merchant Account,Psp Reference,Modification Reference,Creation Date,Type,Net Currency,Net Debit (NC),"
    report = f"{columns}Net Credit (NC),Batch Number\n"
    texts = {name: f"TX800{number}XT batch 7, {name}" for number, name in enumerate(("AcmeDE", "AcmeNL"))}
    for name, text in texts.items():
        report += (
            f'{name},,Transaction Fees,2026-03-09,Fee,EUR,0.10,,7\n{name},,"{text}",2026-03-10,MerchantPayout,EUR,'
        )
        report += "197.30,,7\n"
    answer = await world.tenant.post(
        "/incoming-transactions/upload",
        None,
        content=report.encode(),
        headers={"Content-Type": "application/octet-stream"},
    )
    assert (answer.status_code, answer.json()["counts"]["accepted"]) == (201, 4), answer.text
    arrived = {
        name: await world.receive(
            "197.30", account=GIRO, remittance=text.upper().replace(",", ""), bookingDate="2026-03-12"
        )
        for name, text in texts.items()
    }
    await world.run()
    found = await world.matches()
    assert [(match["kind"], match["confidence"]) for match in found] == [("transfer", "exact")] * 2
    for match in found:
        [(one, other)] = lines_of(match)
        line, payout = await world.incoming(str(one)), await world.incoming(str(other))
        assert line["id"] == arrived[payout["account"]]
        assert payout["bankTransactionCode"] == "MerchantPayout"


async def test_a_refund_of_a_part_leaves_the_rest_open(world: World) -> None:
    said = {"remittance": "ORDER-10001", "counterpartyName": "Ada Lovelace"}
    paid = await world.receive("100.00", externalId="paid", **said)
    back = await world.receive("40.00", direction="debit", externalId="back", bookingDate="2026-03-20", **said)
    await world.run()
    match = await world.proposal()
    assert (match["kind"], match["amount"], lines_of(match)) == ("refund", "40.00", [(paid, back)])
    assert match["explanation"].startswith("40.00 EUR of a payment of 100.00 EUR were given back, both quote the same")
    assert (await world.accept(match)).status_code == 200
    states = [await world.incoming(line) for line in (paid, back)]
    assert [(s["status"], s["openAmountMinor"]) for s in states] == [("partially_matched", 6_000), ("matched", 0)]


async def test_a_credit_note_settles_a_part_of_its_invoice(world: World) -> None:
    said = {"counterpartyName": "Bolt GmbH", "groupKey": "INV-2026-1"}
    invoice = await world.expect("100.00", reference="INV-2026-1", externalId="invoice", counterpartyName="Bolt GmbH")
    note = await world.expect("20.00", direction="debit", reference="CN-2026-1", externalId="note", **said)
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    match = await world.proposal()
    [leg] = match["legs"]
    assert (match["kind"], match["confidence"]) == ("credit_note", "high")
    assert (leg["expectedTransactionId"], leg["contraExpectedTransactionId"], leg["amountMinor"]) == (
        invoice,
        note,
        2_000,
    )
    assert match["explanation"] == (
        "Credit note CN-2026-1 of 20.00 EUR settles a part of invoice INV-2026-1, one names the other,"
        " the name Bolt GmbH agrees; no other item fits."
    )
    assert (await world.accept(match)).status_code == 200
    states = [await world.expected(item) for item in (invoice, note)]
    assert [(s["status"], s["openAmountMinor"]) for s in states] == [("partially_matched", 8_000), ("matched", 0)]
    assert await world.bystander_decisions() == 0
