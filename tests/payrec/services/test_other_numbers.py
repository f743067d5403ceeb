"""Who names another number than an item's pays that, though his account, his name and the amount fit the item."""

from __future__ import annotations

from typing import Any, Final

import pytest

from payrec.services import match_increments
from support.matching_world import World

pytestmark = pytest.mark.anyio

BOLT: Final = {"counterpartyName": "Bolt Works", "counterpartyAccount": "DE89370400440532013000"}
OPEN: Final = {"reference": "INV-2026-00141", **BOLT}


@pytest.fixture
def world(accepting: World) -> World:
    return accepting


@pytest.fixture(params=["all lines", "few lines"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs read everything, or only what their lines reach."""
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 0.1 if request.param == "few lines" else 10**9)


async def matched(world: World, **fields: Any) -> dict[str, Any]:
    """Return the match of a payment after a run."""
    line = await world.receive(**{**BOLT, **fields})
    await world.run()
    [found] = [m for m in await world.matches() if any(leg["incomingTransactionId"] == line for leg in m["legs"])]
    return found


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("field", ["remittance", "endToEndId"])
async def test_who_names_an_invoice_that_is_not_told_yet_pays_no_other_one_unseen(world: World, field: str) -> None:
    await world.expect(**OPEN)
    match = await matched(world, **{"remittance": "invoice 4", field: "INV-2026-00199"})
    assert (match["status"], match["confidence"]) == ("proposed", "medium")
    assert match["uniqueness"]["status"] == "contested"
    [line] = [told for told in match["evidence"] if told["feature"] == "line"]
    assert (line["level"], line["weight"]) == ("other_number", 0)
    assert match["explanation"].endswith("; it quotes another number that is built like the item's.")
    # Told at last, the invoice is what he pays.
    item = await world.expect(reference="INV-2026-00199", **BOLT)
    await world.run()
    [accepted] = [m for m in await world.matches() if m["status"] == "accepted"]
    assert [leg["expectedTransactionId"] for leg in accepted["legs"]] == [item]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("text", ["INV-2026-00141-B", "INV-2026-00141-B order 88213"])
async def test_who_names_another_part_of_a_number_pays_this_one_only_if_a_person_says_so(
    world: World, text: str
) -> None:
    await world.expect(**OPEN)
    match = await matched(world, remittance=text)
    assert (match["status"], match["confidence"]) == ("proposed", "medium")
    assert match["explanation"].endswith("; it quotes another number that is built like the item's.")


@pytest.mark.parametrize("text", ["thank you", "customer 10023", "PO-2026-00199", "INV-2026-00141"])
async def test_who_names_nothing_that_is_built_alike_pays_what_fits(world: World, text: str) -> None:
    await world.expect(**OPEN)
    match = await matched(world, remittance=text)
    assert match["status"] == "accepted"
