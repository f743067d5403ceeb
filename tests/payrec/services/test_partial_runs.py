"""Runs over some of the lines, which ask the database for the rivals that they have left out."""

from __future__ import annotations

from typing import Any, Final

import pytest

from payrec.services import match_increments
from payrec.storage import other_lines
from payrec.storage.other_lines import NUMBERS_COMPARED_MAX
from support.matching_world import World
from support.plans import explained, handled

pytestmark = pytest.mark.anyio

BOLT: Final = {"counterpartyName": "Bolt GmbH"}
NAGEL: Final = {"counterpartyName": "Nagel AG"}
NUMBER: Final = "INV-2026-0041"
ITEM: Final = {"reference": NUMBER, "endToEndId": "E2E-2026-0041", "groupKey": "PO-2026-41", **BOLT}
LATER: Final = "2026-03-15"
"""Day from which on lines are looked at; the others are of before."""
OWN: Final = "DE02120300000000202051"
SUBSCRIBERS: Final = 1_000


@pytest.fixture(params=["read whole", "looked up"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs read all items, or only what their lines reach."""
    monkeypatch.setattr(match_increments, "ITEMS_PER_LINE_LOOKED_UP", 0.1 if request.param == "looked up" else 10**9)


async def is_left_to_a_person(world: World, mine: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell of a payment that a run over all lines would accept, were it alone, what one over it alone makes of it."""
    await world.receive(**{"amount": "50.00", **other})
    await world.receive("50.00", bookingDate=LATER, **mine)
    run = await world.run(incomingFilter={"bookingFrom": LATER})
    assert run["counts"]["proposed"] == 1
    [match] = await world.matches()
    is_sure = match["status"] == "accepted"
    assert (match["confidence"] in {"high", "exact"}, match["uniqueness"]["status"]) == (
        is_sure,
        "unique" if is_sure else "contested",
    )
    return not is_sure


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("other", "is_rival"),
    [
        pytest.param({"remittance": "2026-0041", **NAGEL}, True, id="nearly quotes the item"),
        pytest.param({"remittance": "INV-2026-0014", **NAGEL}, True, id="with two digits that changed places"),
        pytest.param({"remittance": "INV-2026-0977", **NAGEL}, False, id="quotes something else"),
        pytest.param({"remittance": "2026-0041", "amount": "51.00", **NAGEL}, False, id="nearly, of another amount"),
        pytest.param({"remittance": "2026-0041", "currency": "USD", **NAGEL}, False, id="nearly, of another currency"),
        pytest.param({"remittance": "2026-0041", "direction": "debit", **NAGEL}, False, id="nearly, and goes out"),
        pytest.param({"remittance": "INV-2026-0040", **NAGEL}, False, id="nearly, and quotes what it pays in full"),
        pytest.param({"ultimateCounterpartyName": "Bolt GmbH", **NAGEL}, True, id="pays on the payer's behalf"),
        pytest.param({"endToEndId": "E2E-2026-0041", "amount": "20.00"}, True, id="has the end-to-end id"),
        pytest.param({"groupKey": "PO-2026-41", "amount": "20.00"}, True, id="has the group id"),
        pytest.param({"groupKey": "PO-2026-42", "amount": "20.00"}, False, id="has another group id"),
        pytest.param({"account": OWN, "amount": "20.00"}, True, id="is of the payer's account, an own one"),
    ],
)
async def test_who_does_not_name_the_item_is_no_surer_than_among_all_lines(
    accepting: World, other: dict[str, str], *, is_rival: bool
) -> None:
    await accepting.expect("50.00", **ITEM)
    await accepting.expect("50.00", reference="INV-2026-0040", **NAGEL)
    mine = {"counterpartyAccount": OWN, **BOLT}
    assert await is_left_to_a_person(accepting, mine, other) is is_rival


@pytest.mark.parametrize(
    ("mine", "other", "is_rival"),
    [
        pytest.param(BOLT, {"remittance": NUMBER, **NAGEL}, True, id="quotes the item"),
        pytest.param(BOLT, BOLT, False, id="of the item's counterparty"),
        pytest.param(BOLT, {"remittance": "2026-0041"}, False, id="nearly quotes it"),
        pytest.param(NAGEL, BOLT, True, id="of the counterparty, beside another's"),
        pytest.param(NAGEL, {"counterpartyName": "Bolt Gbmh"}, True, id="of one who may be him"),
        pytest.param(NAGEL, {"counterpartyName": "Nagel AG"}, False, id="of the other one again"),
    ],
)
async def test_who_names_the_item_is_no_surer_than_among_all_lines(
    accepting: World, mine: dict[str, str], other: dict[str, str], *, is_rival: bool
) -> None:
    await accepting.expect("50.00", **ITEM)
    await accepting.expect("70.00", reference="INV-2026-0977", **NAGEL)
    assert await is_left_to_a_person(accepting, {"remittance": NUMBER, **mine}, other) is is_rival


async def test_a_set_is_no_surer_than_among_all_lines(accepting: World) -> None:
    for number, amount in ((1, "20.00"), (2, "30.00")):
        await accepting.expect(amount, reference=f"INV-2026-004{number}", **BOLT)
    both = {"remittance": "INV-2026-0041 INV-2026-0042", **BOLT}
    assert await is_left_to_a_person(accepting, both, {"amount": "20.00", "remittance": "INV-2026-0042", **NAGEL})


@pytest.mark.parametrize(("amount", "is_rival"), [("50.00", True), ("51.00", False)])
async def test_a_transfer_is_no_surer_than_among_all_lines(accepting: World, amount: str, *, is_rival: bool) -> None:
    await accepting.receive("50.00", direction="debit", account="GIRO", bookingDate=LATER)
    mine = {"account": "SAVINGS", "counterpartyAccount": "GIRO"}
    assert await is_left_to_a_person(accepting, mine, {"amount": amount, "direction": "debit", **NAGEL}) is is_rival


@pytest.mark.parametrize(("text", "is_rival"), [("ORDER-2026-31", True), ("ORDER-2026-32", False)])
async def test_a_refund_is_no_surer_than_among_all_lines(accepting: World, text: str, *, is_rival: bool) -> None:
    mine = {"remittance": "ORDER-2026-31", **BOLT}
    await accepting.receive("50.00", direction="debit", bookingDate=LATER, **mine)
    assert await is_left_to_a_person(accepting, mine, {"amount": "20.00", "remittance": text, **NAGEL}) is is_rival


def paid(**fields: Any) -> dict[str, Any]:
    """Return a record of a line, an earlier one unless the fields say otherwise."""
    return {"amount": "50.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-12", **fields}


@pytest.mark.parametrize(("many", "is_rival"), [(NUMBERS_COMPARED_MAX, False), (NUMBERS_COMPARED_MAX + 1, True)])
async def test_of_many_numbers_of_a_row_one_may_be_meant_for_the_item(
    accepting: World, many: int, *, is_rival: bool
) -> None:
    await accepting.expect("50.00", **ITEM)
    await accepting.expect("70.00", reference="INV-2026-0977", **NAGEL)
    await accepting.upload([paid(remittance=f"INV-2026-{1900 + at}", **NAGEL) for at in range(many)])
    mine, other = {"counterpartyAccount": OWN, **BOLT}, {"amount": "20.00", **NAGEL}
    assert await is_left_to_a_person(accepting, mine, other) is is_rival


@pytest.mark.parametrize("quoted", ["what they pay", "what nobody expects"])
async def test_what_all_pay_one_price_for_is_not_compared_with_each_other(
    accepting: World, monkeypatch: pytest.MonkeyPatch, quoted: str
) -> None:
    named = [f"Subscriber {chr(65 + at // 26 % 26)}{chr(65 + at % 26)}{at} GmbH" for at in range(SUBSCRIBERS)]
    price = {"amount": "50.00", "currency": "EUR", "direction": "credit", "dueDate": "2026-03-10"}
    items = [{**price, "reference": f"INV-2026-{at:06}", "counterpartyName": name} for at, name in enumerate(named)]
    for tenant in (accepting.bystander, accepting.tenant):
        await tenant.post("/expected-transactions/bulk", {"items": items})
    new = SUBSCRIBERS // 4
    offset = 0 if quoted == "what they pay" else 500_000
    texts = [f"INV-2026-{at + offset:06}" for at in range(SUBSCRIBERS - new)]
    await accepting.upload(
        [paid(remittance=text, counterpartyName=name) for text, name in zip(texts, named, strict=False)]
        + [paid(counterpartyName=name, bookingDate=LATER) for name in named[-new:]]
    )
    with explained(monkeypatch, other_lines) as plans:
        run = await accepting.run(incomingFilter={"bookingFrom": LATER})
    assert run["counts"]["proposed"] == new
    assert len(plans) == 4
    assert max(map(handled, plans)) < 20 * 2 * SUBSCRIBERS < new * SUBSCRIBERS / 4
