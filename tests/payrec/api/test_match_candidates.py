"""The nearest candidates of one open transaction: what is missing, and what nobody but the tenant may see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all
from support.matching_world import DEADLINE_SECONDS, World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def of_expected(world: World, transaction_id: str) -> list[dict[str, Any]]:
    return await found(world, f"/expected-transactions/{transaction_id}/candidates")


async def of_incoming(world: World, transaction_id: str) -> list[dict[str, Any]]:
    return await found(world, f"/incoming-transactions/{transaction_id}/candidates")


async def found(world: World, path: str) -> list[dict[str, Any]]:
    answer = await world.tenant.get(path)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def test_a_late_payment_says_how_wide_the_window_would_have_to_be(world: World) -> None:
    item = await world.expect(reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001", bookingDate="2026-05-13")
    for side in (await of_expected(world, item), await of_incoming(world, line)):
        [candidate] = side
        assert (candidate["expectedTransactionId"], candidate["incomingTransactionId"]) == (item, line)
        assert (candidate["reasonCode"], candidate["daysOutside"]) == ("date_out_of_window", 4)
        assert candidate["wouldMatchIf"] == "dateWindowDaysAfter were 64 days; it is 60"
        assert (candidate["differenceMinor"], candidate["matchId"]) == (0, None)
        told = {evidence["feature"]: evidence for evidence in candidate["evidence"]}
        assert (told["reference"]["level"], told["reference"]["expected"]) == ("full", "INV-2026-001")


@pytest.mark.parametrize(
    ("said", "level", "told_by"),
    [
        ({"counterpartyName": "Holding AG", "ultimateCounterpartyName": "BOLT"}, "ultimate", "BOLT"),
        ({"remittance": "ACH CREDIT BOLT 091000019"}, "text", "ACH CREDIT BOLT 091000019"),
    ],
)
async def test_a_name_that_the_line_tells_beside_says_who_it_may_be_of(
    world: World, said: dict[str, str], level: str, told_by: str
) -> None:
    item = await world.expect("90.00", counterpartyName="Bolt GmbH")
    line = await world.receive("100.00", **said)
    for side in (await of_expected(world, item), await of_incoming(world, line)):
        [candidate] = side
        told = {evidence["feature"]: evidence for evidence in candidate["evidence"]}
        assert {key: told["name"][key] for key in ("level", "expected", "incoming")} == {
            "level": level,
            "expected": "Bolt GmbH",
            "incoming": told_by,
        }


@pytest.mark.parametrize(
    ("fields", "reason", "missing"),
    [
        ({"bookingDate": "2026-02-07"}, "date_out_of_window", "dateWindowDaysBefore were 31 days; it is 30"),
        (
            {"amount": "97.50"},
            "amount_mismatch",
            "the amounts were equal, or the payment quoted the reference: it is 2.50 EUR less than what is open",
        ),
        ({"currency": "USD"}, "currency_mismatch", "both were in one currency: it is USD against EUR"),
        (
            {"counterpartyName": "Nagel AG"},
            "counterparty_mismatch",
            "the payment quoted the reference: the amount is equal, but the counterparty is another one",
        ),
    ],
)
async def test_what_is_missing(world: World, fields: dict[str, str], reason: str, missing: str) -> None:
    item = await world.expect(counterpartyName="Bolt GmbH")
    await world.receive(**{"counterpartyName": "BOLT", **fields})
    [candidate] = await of_expected(world, item)
    assert (candidate["reasonCode"], candidate["wouldMatchIf"]) == (reason, missing)


@pytest.mark.parametrize(
    ("asked", "paid"),
    [
        ({"counterpartyName": "Albrador Logistik GmbH"}, {"counterpartyName": "ALBRADOR LOG."}),
        ({"reference": "INV-2026-001", "currency": "USD"}, {"remittance": "INV-2026-001"}),
    ],
)
async def test_nothing_is_missing_where_a_run_has_proposed_the_pair(
    world: World, asked: dict[str, str], paid: dict[str, str]
) -> None:
    """It was told beside the proposal that the counterparty is another one, or that both had to be in one currency."""
    await world.rate("EUR", "USD", "1")
    item, line = await world.expect(**asked), await world.receive(**paid)
    await world.run()
    proposal = await world.proposal()
    for side in (await of_expected(world, item), await of_incoming(world, line)):
        [candidate] = side
        told = [candidate[name] for name in ("matchId", "reasonCode", "wouldMatchIf")]
        assert told == [proposal["id"], None, None]
        assert [candidate[name] for name in ("score", "evidence")] == [proposal[name] for name in ("score", "evidence")]


async def test_what_a_setting_asks_for_is_missing_too(world: World) -> None:
    await world.set(requireReference=True)
    item = await world.expect(counterpartyName="Bolt GmbH")
    await world.receive(counterpartyName="BOLT")
    [candidate] = await of_expected(world, item)
    assert candidate["reasonCode"] == "missing_reference"


async def test_the_best_come_first_and_a_proposal_is_named(world: World) -> None:
    item = await world.expect(reference="INV-2026-001", counterpartyName="Bolt GmbH")
    amounts = ["100.00", "100.00", "99.00", "98.00", "97.00", "96.00", "95.00"]
    lines = [await world.receive(amount, counterpartyName="BOLT") for amount in amounts]
    best = await world.receive(remittance="INV-2026-001")
    await world.receive("100.00", direction="debit")
    await world.receive("80.00", counterpartyName="Somebody else")
    await world.run()
    candidates = await of_expected(world, item)
    assert candidates[0]["incomingTransactionId"] == best
    assert {candidate["incomingTransactionId"] for candidate in candidates} == {best, *lines[:4]}
    assert [candidate["reasonCode"] for candidate in candidates] == [None, None, None, *["amount_mismatch"] * 2]
    assert [candidate["differenceMinor"] for candidate in candidates[3:]] == [-100, -200]
    proposal = await world.proposal()
    assert [candidate["matchId"] for candidate in candidates] == [proposal["id"], None, None, None, None]


async def test_what_is_settled_has_no_candidates(world: World) -> None:
    item = await world.expect(reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001")
    await world.run()
    await world.accept(await world.proposal())
    assert (await of_expected(world, item), await of_incoming(world, line)) == ([], [])


@pytest.mark.parametrize("side", ["expected", "incoming"])
async def test_for_who_goes_away_nothing_is_read_any_more(world: World, side: str) -> None:
    item = await world.expect(reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001")
    read = of_expected(world, item) if side == "expected" else of_incoming(world, line)
    table = "incoming_open" if side == "expected" else "expected_open"
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        asking = asyncio.create_task(read)
        await waits(connection, table, is_wanted=True)
        asking.cancel()
        # What is held is still held: the statement that waits for it was ended.
        await waits(connection, table, is_wanted=False)
        with pytest.raises(asyncio.CancelledError):
            await asking
    [candidate] = await of_expected(world, item)
    assert candidate["incomingTransactionId"] == line


async def waits(connection: Connection, table: str, *, is_wanted: bool) -> None:
    """Wait until somebody waits for the table, or until nobody does any more."""
    query = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    until = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while bool(await fetch_all(connection, query, (table,))) is not is_wanted:
        assert asyncio.get_running_loop().time() < until, is_wanted
        await asyncio.sleep(0.005)


async def test_another_tenants_transaction_is_not_there(world: World) -> None:
    item = await world.expect(reference="INV-2026-001")
    line = await world.receive(remittance="INV-2026-001")
    for path in (f"/expected-transactions/{item}", f"/incoming-transactions/{line}", "/expected-transactions/x"):
        answer = await world.bystander.get(f"{path}/candidates")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_what_a_payment_quotes_and_is_not_open_any_more_is_told(world: World) -> None:
    names = {"counterpartyName": "Bolt GmbH"}
    paid = await world.expect(reference="INV-2026-001", **names)
    void = await world.expect(reference="INV-2026-002", **names)
    assert (await world.tenant.post(f"/expected-transactions/{void}/void", {"reason": "twice"})).status_code == 200
    await world.receive(remittance="INV-2026-001", **names)
    await world.set(autoAccept=True)
    await world.run()
    [match] = await world.matches()
    still = await world.expect(reference="INV-2026-003", **names)
    line = await world.receive(remittance="INV-2026-001 INV-2026-002 INV-2026-003", **names)
    answer = (await world.tenant.get(f"/incoming-transactions/{line}/candidates")).json()
    assert [candidate["expectedTransactionId"] for candidate in answer["data"]] == [still]
    assert answer["closed"] == [
        {"expectedTransactionId": void, "status": "void", "matchIds": []},
        {"expectedTransactionId": paid, "status": "matched", "matchIds": [match["id"]]},
    ]
    of_item = (await world.tenant.get(f"/expected-transactions/{still}/candidates")).json()
    assert of_item["closed"] == []
    page = await world.tenant.get(f"/incoming-transactions/{line}/candidates", "test")
    assert page.status_code == 404
