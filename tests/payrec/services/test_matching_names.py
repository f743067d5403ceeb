"""Names that are written otherwise, near amounts and payments that are there twice: through the whole service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date

import polars as pl
import pytest

from payrec.domain.matching import columns
from payrec.domain.matching.names import normalised
from payrec.services import match_increments
from payrec.services.match_columns import array_of, expected_frame, incoming_frame, named, names_of
from payrec.storage.allocations import Side
from payrec.storage.match_names import MatchNameStore
from payrec.storage.match_runs import MatchRunStore
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def test_a_shortened_name_is_proposed_and_never_accepted_by_itself(world: World) -> None:
    await world.expect("321.09", counterpartyName='Albrador Logistik, "Nord" GmbH')
    await world.receive("321.09", counterpartyName="ALBRADOR LOG. NORD")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    match = await world.proposal()
    assert match["confidence"] == "medium"
    assert "the name ALBRADOR LOG. NORD resembles Albrador Logistik" in match["explanation"]
    assert [found["feature"] for found in match["evidence"]] == ["amount", "date", "name", "line"]


@pytest.mark.parametrize("said", [{"counterpartyName": "NOTPROVIDED"}, {"counterpartyAccount": "NOTPROVIDED"}])
async def test_two_that_name_nobody_are_not_accepted_by_amount_and_day(world: World, said: dict[str, str]) -> None:
    """They were: the name NOTPROVIDED agreed."""
    await world.expect("87.65", **said)
    await world.receive("87.65", **said)
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    match = await world.proposal()
    assert match["confidence"] == "low"
    assert [found["feature"] for found in match["evidence"]] == ["amount", "date", "line"]


async def test_a_text_is_read_for_each_name_and_only_of_its_own_tenant(world: World) -> None:
    for _ in range(2):
        await world.expect(counterpartyName="Albrador Logistik")
    for name in ("ALBRADOR LOGISTIK GMBH", "Albrador Log.", None):
        await world.receive(counterpartyName=name)
    await world.expect(counterpartyName=None)
    await world.tenant.post(
        "/expected-transactions",
        {
            "direction": "credit",
            "currency": "EUR",
            "dueDate": "2026-03-10",
            "amount": "1.00",
            "counterpartyName": "Zoë",
        },
    )
    database = world.service.factory.context.database
    texts = []
    for scope in (world.scope, world.bystander_scope):
        async with database.tenant(scope, readonly=True) as connection:
            runs, names = MatchRunStore(connection), MatchNameStore(connection)
            items = expected_frame(await runs.read_expected(None, today=date(2026, 3, 10)))
            lines = incoming_frame(await runs.read_incoming(None))
            wanted = {Side.EXPECTED: named(items), Side.INCOMING: named(lines, items["name_key"])}
            found = [
                names_of(rows, await names.read(side, array_of(rows["transaction_id"])))
                for side, rows in wanted.items()
            ]
        texts.append(sorted(pl.concat(found)["text"]))
    assert texts == [["Albrador Log.", "Albrador Logistik", "Zoë"], ["Albrador Log.", "Albrador Logistik"]]


async def test_a_run_over_everything_makes_no_name_anew_that_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def seen(texts: pl.DataFrame) -> pl.DataFrame:
        made.extend(texts["text"])
        return normalised(texts)

    await world.expect("321.09", counterpartyName="Albrador Logistik GmbH")
    await world.run()
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 1_000_000)
    monkeypatch.setattr(columns, "normalised", seen)
    await world.expect("1.00", counterpartyName="Zoë")
    await world.receive("321.09", counterpartyName="ALBRADOR LOG.")
    await world.run()
    assert sorted(made) == ["ALBRADOR LOG.", "Zoë"]
    match = await world.proposal()
    assert "the name ALBRADOR LOG. resembles Albrador Logistik GmbH" in match["explanation"]


async def test_a_near_amount_is_settled_with_a_fee(world: World) -> None:
    expected = await world.expect("100.00", counterpartyName="Ada Lovelace")
    incoming = await world.receive("98.00", counterpartyName="Ada Lovelace")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    await world.run()
    match = await world.proposal()
    assert (match["confidence"], match["amountMinor"]) == ("medium", 9_800)
    assert match["explanation"].startswith("2.00 EUR less than asked, taken as a fee")
    assert (await world.accept(match)).status_code == 200
    assert (await world.expected(expected))["openAmountMinor"] == 0
    assert (await world.incoming(incoming))["openAmountMinor"] == 0


async def test_the_later_of_two_equal_payments_says_that_it_is_one(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    first = await world.receive(remittance="INV-2026-001", counterpartyName="Ada")
    later = await world.receive(remittance="INV-2026-001", counterpartyName="Ada", bookingDate="2026-03-14")
    await world.set(autoAccept=True)
    run = await world.run()
    assert run["counts"]["unmatched"] == {"duplicate": 1}
    assert (await world.incoming(first))["status"] == "matched"
    assert (await world.incoming(later))["reasonCode"] == "duplicate"
