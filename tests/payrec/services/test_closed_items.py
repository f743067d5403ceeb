"""Payments that quote what is paid already: whatever else fits them is for a person, in runs over all lines or few."""

from __future__ import annotations

from typing import Any, Final

import pytest

from payrec.domain.matching.keys import reference_key
from payrec.services import closed_items as closed_services
from payrec.services import match_increments
from payrec.storage import closed_items
from payrec.storage.closed_items import ClosedItemStore
from support.matching_world import World
from support.plans import explained, handled

pytestmark = pytest.mark.anyio

BOLT: Final = {"counterpartyName": "Bolt Works", "counterpartyAccount": "DE89370400440532013000"}
PAID: Final = "INV-2026-0041"
OPEN: Final = {"reference": "INV-2026-0042", **BOLT}
SENTENCE: Final = "; it quotes something else of its counterparty that it cannot pay."


@pytest.fixture
def world(accepting: World) -> World:
    return accepting


@pytest.fixture(params=["all lines", "very many lines", "few lines"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs read everything, as they do of many lines and of very many, or only what their lines reach."""
    ratio = 0.1 if request.param == "few lines" else 10**9
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", ratio)
    if request.param == "very many lines":
        monkeypatch.setattr(closed_services, "REFERENCES_LOOKED_UP_MAX", 0)


async def settle(world: World) -> str:
    """Have the first invoice paid, and return its id."""
    item = await world.expect(reference=PAID, **BOLT)
    await world.receive(remittance=PAID, **BOLT)
    await world.run()
    assert (await world.expected(item))["status"] == "matched"
    return item


async def paid_again(world: World, **fields: Any) -> dict[str, Any]:
    """Have a payment quote the first invoice, and return the match that is made of it."""
    line = await world.receive(**{"remittance": PAID, "bookingDate": "2026-03-20", **BOLT, **fields})
    await world.run()
    return next(m for m in await world.matches() if any(leg["incomingTransactionId"] == line for leg in m["legs"]))


async def keys(world: World) -> list[int]:
    return [
        row["reference_key"] for row in await world.sql("SELECT reference_key FROM expected_transaction ORDER BY id")
    ]


@pytest.mark.usefixtures("few")
async def test_what_is_paid_twice_pays_nothing_else_unseen(world: World) -> None:
    await settle(world)
    await world.expect(**OPEN)
    match = await paid_again(world)
    assert (match["status"], match["confidence"]) == ("proposed", "medium")
    assert match["uniqueness"]["status"] == "contested"
    [line] = [told for told in match["evidence"] if told["feature"] == "line"]
    assert (line["level"], line["weight"]) == ("quotes_other", 0)
    assert match["explanation"].endswith(SENTENCE)


@pytest.mark.usefixtures("few")
async def test_an_invoice_that_is_open_again_is_paid_by_who_quotes_it(world: World) -> None:
    item = await settle(world)
    await world.expect(**OPEN)
    [match] = await world.matches()
    answer = await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "it was another one's"})
    assert answer.status_code == 200, answer.text
    match = await paid_again(world)
    assert [leg["expectedTransactionId"] for leg in match["legs"]] == [item]


@pytest.mark.usefixtures("few")
async def test_what_is_void_was_not_to_be_paid_either(world: World) -> None:
    item = await world.expect(reference=PAID, **BOLT)
    await world.tenant.post(f"/expected-transactions/{item}/void", {"reason": "billed twice"})
    await world.expect(**OPEN)
    assert (await paid_again(world))["status"] == "proposed"


async def test_what_is_left_of_a_payment_is_of_something_else_than_it_has_paid(world: World) -> None:
    item = await world.expect(reference=PAID, **BOLT)
    line = await world.receive("250.00", remittance=PAID, **BOLT)
    legs = [{"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": 10_000}]
    answer = await world.tenant.post("/matches", {"legs": legs, "reason": "a part of it"})
    assert answer.status_code == 201, answer.text
    await world.expect("150.00", **OPEN)
    await world.run()
    assert [match["status"] for match in await world.matches()] == ["accepted", "accepted"]


async def test_a_reference_is_known_as_it_is_called_now(world: World) -> None:
    item = await world.expect(reference=PAID, **BOLT)
    answer = await world.tenant.request("PATCH", f"/expected-transactions/{item}", json={"reference": "INV-2026-0007"})
    assert answer.status_code == 200, answer.text
    await world.receive(remittance="INV-2026-0007", **BOLT)
    await world.run()
    await world.expect(**OPEN)
    assert (await paid_again(world))["status"] == "accepted"
    assert await keys(world) == [reference_key("INV-2026-0007"), reference_key("INV-2026-0042")]


async def test_only_what_could_prove_a_payment_is_known(world: World) -> None:
    for reference in ("RENT", "4711", None):
        await world.expect(reference=reference)
    assert await keys(world) == [None, None, None]


async def test_of_one_reference_the_newest_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    query = closed_items._OF_KEYS.replace(f"<= {closed_items.OF_REFERENCE_MAX}", "<= 2")
    assert query != closed_items._OF_KEYS
    monkeypatch.setattr(closed_items, "_OF_KEYS", query)
    for name in ("Ada", "Ben", "Cyd"):
        item = await world.expect(reference=PAID, counterpartyName=name)
        await world.tenant.post(f"/expected-transactions/{item}/void", {"reason": "billed twice"})
    key = reference_key(PAID)
    assert key is not None
    database = world.service.factory.context.database
    async with database.tenant(world.scope) as mine, database.tenant(world.bystander_scope) as others:
        rows = await ClosedItemStore(mine).of_keys([key])
        assert sorted(row["counterparty_name"] for row in rows) == ["Ben", "Cyd"]
        assert await ClosedItemStore(others).of_keys([key]) == []
        assert await ClosedItemStore(mine).of_keys([key + 2]) == []


async def test_what_lines_quote_is_not_compared_with_all_that_is_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 4_000
    items = [
        {"amount": "10.00", "currency": "EUR", "direction": "credit", "reference": f"INV-2026-{at:06}"}
        for at in range(many)
    ]
    for tenant in (world.bystander, world.tenant):
        await tenant.post("/expected-transactions/bulk", {"items": items})
    # The database has last looked when nothing was closed.
    await world.sql("ANALYZE expected_transaction, expected_open")
    await world.sql("DELETE FROM expected_open WHERE tie_key % 2 = 0")
    keys = [2 * at + 1 for at in range(5 * many)]
    async with world.service.factory.context.database.tenant(world.scope, readonly=True) as connection:
        with explained(monkeypatch, closed_items) as plans:
            await ClosedItemStore(connection).of_keys(keys)
    assert handled(plans[0]) < 100 * many < many * len(keys) / 8
