"""Differences that a match settles without money: proposed, told, accepted to the minor unit, and verified."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

REFERENCE = "INV-2026-0417"
QUOTED = {"remittance": f"Invoice {REFERENCE}"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def proposed(
    world: World, asked: str, paid: str, item: dict[str, Any] | None = None, line: dict[str, Any] | None = None
) -> tuple[dict[str, Any], str, str]:
    """Return the one match of an item and a line, and their ids."""
    expected = await world.expect(asked, **{"reference": REFERENCE, **(item or {})})
    incoming = await world.receive(paid, **{**QUOTED, **(line or {})})
    await world.run()
    [match] = await world.matches()
    return match, expected, incoming


def differences(match: dict[str, Any], expected: str, incoming: str) -> list[tuple[str, str, int]]:
    """Return type, side and amount of the adjustments."""
    sides = {expected: "expected", incoming: "incoming"}
    return [
        (a["type"], sides[a.get("expectedTransactionId") or a["incomingTransactionId"]], a["amountMinor"])
        for a in match["adjustments"]
    ]


async def state(world: World, expected: str, incoming: str) -> list[tuple[str, int, int]]:
    """Return status, matched and open amount of both sides."""
    return [
        (row["status"], row["matchedAmountMinor"], row["openAmountMinor"])
        for row in (await world.expected(expected), await world.incoming(incoming))
    ]


async def broken(world: World, match: dict[str, Any]) -> dict[str, str]:
    """Return what does not hold of a match when it is looked at again."""
    service = world.service.factory.create_match_verification_service()
    found = await service.verify(world.scope, match["id"])
    return {check.name: check.detail for check in found.checks if not check.holds}


WHOLE = [("matched", 0), ("matched", 0)]

CASES: dict[str, tuple[str, str, dict[str, Any], tuple[str, str, int] | None, str]] = {
    "fee": ("100.00", "98.00", {}, ("fee", "expected", 200), "2.00 EUR less than asked, taken as a fee"),
    "fee in percent": ("5000.00", "4860.00", {}, ("fee", "expected", 14_000), "140.00 EUR less than asked"),
    "rounded down": ("100.03", "100.00", {}, ("rounding", "expected", 3), "0.03 EUR less than asked, taken as a round"),
    "rounded up": ("99.97", "100.00", {}, ("rounding", "incoming", 3), "0.03 EUR more than asked, taken as a rounding"),
    "over": ("100.00", "110.00", {}, ("over_payment", "incoming", 1_000), "10.00 EUR more than asked, taken as an o"),
    "discount": (
        "100.00", "90.00", {"minAmountMinor": 8_000}, ("discount", "expected", 1_000), "taken as a discount",
    ),
    "above the limit": (
        "100.00", "140.00", {"maxAmountMinor": 15_000}, ("over_payment", "incoming", 4_000), "taken as an over-payment",
    ),
    "part": ("100.00", "60.00", {}, None, "60.00 of 100.00 EUR is paid"),
    "much more": ("100.00", "150.00", {}, None, "50.00 EUR more is paid than the 100.00 that are open"),
    "below the limit": ("100.00", "98.00", {"minAmountMinor": 9_900}, None, "98.00 of 100.00 EUR is paid"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_difference_is_adjusted_or_stays_open(world: World, name: str) -> None:
    asked, paid, limits, wanted, told = CASES[name]
    match, expected, incoming = await proposed(world, asked, paid, limits)

    assert differences(match, expected, incoming) == ([wanted] if wanted else [])
    assert told in match["explanation"]
    assert match["confidence"] == "medium" or limits
    [leg] = match["legs"]
    minor = [round(float(text) * 100) for text in (asked, paid)]
    assert leg["amountMinor"] == leg["settledMinor"] == match["amountMinor"] == min(minor)
    assert (leg["contraExpectedTransactionId"], leg["contraIncomingTransactionId"]) == (None, None)
    assert await broken(world, match) == {}

    answer = await world.accept(match)
    assert answer.status_code == 200, answer.text
    after = await state(world, expected, incoming)
    if wanted:
        assert after == [("matched", minor[0], 0), ("matched", minor[1], 0)]
    else:
        sides = [(m, m - min(minor)) for m in minor]
        assert after == [("partially_matched" if rest else "matched", m - rest, rest) for m, rest in sides]
    assert await broken(world, answer.json()) == {}
    assert differences(answer.json(), expected, incoming) == differences(match, expected, incoming)


async def test_an_amount_within_the_tolerance_is_matched_whole(world: World) -> None:
    await world.set(autoAccept=True, amountToleranceMinor=3_000)
    match, expected, incoming = await proposed(world, "100.00", "75.00")
    assert differences(match, expected, incoming) == [("write_off", "expected", 2_500)]
    assert (match["status"], match["confidence"]) == ("accepted", "exact")
    assert await state(world, expected, incoming) == [("matched", 10_000, 0), ("matched", 7_500, 0)]
    assert await broken(world, match) == {}


@pytest.mark.parametrize(
    ("tolerance", "line", "accepted"),
    [(200, {}, True), (199, {}, False), (200, {"remittance": "thanks", "counterpartyName": "Bolt"}, False)],
)
async def test_a_fee_is_accepted_at_once_within_the_tolerance_and_by_proof_alone(
    world: World,
    tolerance: int,
    line: dict[str, Any],
    accepted: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    await world.set(autoAccept=True, autoAcceptMinConfidence="high", feeToleranceMinor=tolerance)
    match, expected, incoming = await proposed(world, "100.00", "98.00", {"counterpartyName": "Bolt"}, line)
    assert differences(match, expected, incoming) == [("fee", "expected", 200)]
    assert (match["status"] == "accepted") == accepted
    whole = [("matched", 10_000, 0), ("matched", 9_800, 0)]
    assert (await state(world, expected, incoming) == whole) == accepted
    assert await broken(world, match) == {}


async def test_a_rest_that_other_items_ask_for_is_no_over_payment(world: World) -> None:
    for name in ("one", "other"):
        await world.expect("10.00", counterpartyName="Bolt", externalId=name)
    match, expected, incoming = await proposed(world, "100.00", "110.00", {"counterpartyName": "Bolt"})
    assert differences(match, expected, incoming) == []
    assert (await world.accept(match)).status_code == 200
    assert await state(world, expected, incoming) == [("matched", 10_000, 0), ("partially_matched", 10_000, 1_000)]


async def test_of_what_is_settled_in_part_the_rest_is_told(world: World) -> None:
    part, _, _ = await proposed(world, "100.00", "60.00", {"counterpartyName": "Bolt"})
    assert (await world.accept(part)).status_code == 200
    await world.receive("50.00", **QUOTED, externalId="more", counterpartyName="Bolt")
    await world.run()
    [more] = await world.matches(status="proposed")
    assert "10.00 EUR more is paid than the 40.00 that are open" in more["explanation"]
    assert (await world.accept(more)).status_code == 200
    await world.expect("15.00", externalId="next", counterpartyName="Bolt")
    await world.run()
    [rest] = await world.matches(status="proposed")
    assert rest["explanation"].startswith("10.00 of 15.00 EUR is paid")


async def test_what_competes_for_an_adjusted_amount_is_superseded(world: World) -> None:
    """The rival asks for no more than the money, and the adjustment takes the rest."""
    match, expected, _ = await proposed(world, "100.00", "98.00")
    rival = (await world.sql("SELECT gen_random_uuid() AS id"))[0]["id"]
    other = await world.receive("2.00", bookingDate="2026-01-01")
    await world.sql(
        "INSERT INTO match (id, amount_minor, created_at, updated_at, score, status, kind, confidence, uniqueness,"
        " currency, created_by) SELECT %s, 200, created_at, updated_at, score, status, kind, confidence, uniqueness,"
        " currency, created_by FROM match",
        rival,
    )
    await world.sql(
        "INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, amount_minor, settled_minor, expected_revision,"
        " incoming_revision, settled_currency) VALUES (%s, 0, %s, %s, 200, 200, 1, 1, 'EUR')",
        rival, expected, other,
    )  # fmt: skip
    assert (await world.accept(match)).status_code == 200
    found = (await world.tenant.get(f"/matches/{rival}")).json()
    assert (found["status"], found["supersededBy"]) == ("superseded", match["id"])
    assert (await world.accept(found)).json()["code"] == "already_matched"


async def test_an_adjusted_match_waits_for_what_is_left(world: World) -> None:
    """What the legs take is still there, and what the adjustment takes is not."""
    match, expected, incoming = await proposed(world, "100.00", "98.00")
    await world.sql(
        "INSERT INTO allocation (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at)"
        " VALUES (1, %s, 10000, 100, 'partially_matched', 2, now())",
        expected,
    )
    answer = await world.accept(match)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_matched")
    assert (await state(world, expected, incoming))[1] == ("unmatched", 0, 9_800)


EXCHANGES: dict[str, tuple[tuple[str, str], tuple[str, str], tuple[str, str, str], int, int, str]] = {
    "inverse": (("100.00", "EUR"), ("108.56", "USD"), ("EUR", "USD", "1.08"), 10_052, -52, "0.925925925926"),
    "direct": (("100.00", "EUR"), ("108.56", "USD"), ("USD", "EUR", "0.92"), 9_988, 12, "0.92"),
    "no places": (("100.00", "EUR"), ("16000", "JPY"), ("EUR", "JPY", "160"), 10_000, 0, "0.00625"),
    "into no places": (("16000", "JPY"), ("100.00", "EUR"), ("EUR", "JPY", "160"), 16_000, 0, "160"),
    "three places": (("100.000", "KWD"), ("299.40", "EUR"), ("EUR", "KWD", "0.335"), 100_299, -299, "0.335"),
}


@pytest.mark.parametrize("name", EXCHANGES)
async def test_another_currency_is_settled_at_the_rate_of_the_day(world: World, name: str) -> None:
    (asked, currency), (paid, other), (base, quote, rate), settled, difference, told = EXCHANGES[name]
    await world.set(autoAccept=True, autoAcceptMinConfidence="high", amountTolerancePercent=100)
    await world.rate(base, quote, rate)
    match, expected, incoming = await proposed(world, asked, paid, {"currency": currency}, {"currency": other})

    assert (match["status"], match["confidence"], match["currency"]) == ("proposed", "medium", other)
    assert differences(match, expected, incoming) == [("fx", "expected", difference)]
    assert (match["adjustments"][0]["rate"], match["adjustments"][0]["currency"]) == (told, currency)
    [leg] = match["legs"]
    assert (leg["settledMinor"], leg["settledCurrency"]) == (settled, currency)
    assert leg["amountMinor"] == match["amountMinor"]
    assert f"{paid} {other} at {told} is" in match["explanation"]
    assert ("taken as an exchange difference" in match["explanation"]) == bool(difference)
    assert await broken(world, match) == {}
    again = await world.run()
    assert again["counts"]["proposed"] == 1
    assert [m["id"] for m in await world.matches(status="proposed")] == [match["id"]]

    answer = await world.accept(match)
    assert answer.status_code == 200, answer.text
    whole = [row["amountMinor"] for row in (await world.expected(expected), await world.incoming(incoming))]
    assert await state(world, expected, incoming) == [("matched", minor, 0) for minor in whole]
    assert leg["amountMinor"] == whole[1]
    assert await broken(world, answer.json()) == {}


async def test_two_currencies_meet_in_the_base_currency(world: World) -> None:
    await world.rate("EUR", "USD", "1.10", "2026-03-09")
    await world.rate("EUR", "GBP", "0.88")
    match, expected, incoming = await proposed(world, "88.00", "110.00", {"currency": "GBP"}, {"currency": "USD"})
    assert differences(match, expected, incoming) == [("fx", "expected", 0)]
    assert match["adjustments"][0]["rate"] == "0.8"


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        ([], "currency_mismatch"),
        ([("1.0856", "2026-03-06")], "currency_mismatch"),
        ([("1.0856", "2026-03-18")], "currency_mismatch"),
        ([("1.12", "2026-03-12")], "amount_mismatch"),
    ],
)
async def test_without_a_near_rate_or_beyond_the_tolerance_nothing_is_proposed(
    world: World, rates: list[tuple[str, str]], reason: str
) -> None:
    for rate, day in rates:
        await world.rate("EUR", "USD", rate, day)
    expected = await world.expect("100.00", reference=REFERENCE)
    incoming = await world.receive("108.56", currency="USD", **QUOTED)
    await world.run()
    assert await world.matches() == []
    assert (await world.expected(expected))["reasonCode"] == reason
    assert (await world.incoming(incoming))["reasonCode"] == reason


async def test_of_a_line_that_was_used_in_part_what_is_exchanged_is_told(world: World) -> None:
    await world.rate("EUR", "USD", "1.08")
    own, line = await world.expect("10.00", currency="USD"), await world.receive("64.00", currency="USD", **QUOTED)
    leg = {"expectedTransactionId": own, "incomingTransactionId": line, "amountMinor": 1_000}
    assert (await world.tenant.post("/matches", {"legs": [leg], "reason": "by hand"})).status_code == 201
    await world.expect("50.00", reference=REFERENCE)
    await world.run()
    match = await world.proposal()
    assert "54.00 USD at 0.925925925926 is just 50.00 EUR" in match["explanation"]
    assert await broken(world, match) == {}


async def test_a_changed_rate_makes_another_proposal(world: World) -> None:
    await world.rate("EUR", "USD", "1.08")
    before, _, _ = await proposed(world, "100.00", "108.56", line={"currency": "USD"})
    await world.rate("EUR", "USD", "1.09")
    await world.run()
    [after] = await world.matches(status="proposed")
    assert after["id"] != before["id"]
    assert after["legs"][0]["settledMinor"] == 9_960


TAMPERED = [
    ("fee", "jsonb_set(adjustments, '{0,minor}', '201')", {"sums"}),
    ("fee", "jsonb_set(adjustments, '{0,type}', '\"over_payment\"')", {"adjustments"}),
    ("fee", "jsonb_set(adjustments, '{0,type}', '\"discount\"')", {"adjustments"}),
    ("fee", "jsonb_set(adjustments, '{0,currency}', '\"USD\"')", {"adjustments"}),
    ("fx", "jsonb_set(adjustments, '{0,rate}', '\"0.93\"')", {"adjustments"}),
    ("fx", "jsonb_set(adjustments, '{0,rate}', '\"x\"')", {"adjustments"}),
    ("fx", "NULL", {"adjustments"}),
]


@pytest.mark.parametrize(("kind", "change", "found"), TAMPERED)
async def test_an_adjustment_that_was_changed_is_found(world: World, kind: str, change: str, found: set[str]) -> None:
    await world.rate("EUR", "USD", "1.08")
    paid = ("98.00", {}) if kind == "fee" else ("108.56", {"currency": "USD"})
    match, _, _ = await proposed(world, "100.00", paid[0], line=paid[1])
    assert await broken(world, match) == {}
    await world.sql(f"UPDATE match SET adjustments = {change}")  # noqa: S608 - our own text
    assert set(await broken(world, match)) >= found


def exchange(item: str, minor: int, currency: str, rate: str) -> dict[str, Any]:
    adjustment = {"type": "fx", "expectedTransactionId": item, "amountMinor": minor}
    return {**adjustment, "currency": currency, "rate": rate}


async def test_what_is_stated_of_several_exchanges_holds_each_by_its_own_rate(world: World) -> None:
    """Instalments of one item share its rate, and items of two currencies have one each, in whatever order."""
    item = await world.expect("100.00")
    parts = [(await world.receive(paid, currency="USD"), minor) for paid, minor in (("54.00", 5_400), ("54.56", 5_456))]
    euro, pound = await world.expect("50.00"), await world.expect("40.00", currency="GBP")
    both = await world.receive("104.00", currency="USD")
    stated = [
        ([(item, *part) for part in parts], [exchange(item, -52, "EUR", "0.925925925926")]),
        (
            [(euro, both, 5_400), (pound, both, 5_000)],
            [exchange(pound, 0, "GBP", "0.8"), exchange(euro, 0, "EUR", "0.925925925926")],
        ),
    ]
    for legs, adjustments in stated:
        ends = ("expectedTransactionId", "incomingTransactionId", "amountMinor")
        body = {"legs": [dict(zip(ends, leg, strict=True)) for leg in legs], "adjustments": adjustments}
        answer = await world.tenant.post("/matches", {**body, "reason": "by hand"})
        assert answer.status_code == 201, answer.text
        assert await broken(world, answer.json()) == {}
    await world.sql(
        "UPDATE match SET adjustments = jsonb_set(adjustments, '{1,rate}', '\"0.93\"') WHERE id = %s RETURNING id",
        answer.json()["id"],
    )
    assert await broken(world, answer.json()) == {"adjustments": "at 0.93 the leg settles 50.22, but 50.00 is stored"}


async def test_the_other_tenant_s_rates_are_not_used(world: World) -> None:
    item = {"date": "2026-03-10", "base": "EUR", "quote": "USD", "rate": "1.08"}
    await world.bystander.request("PUT", "/fx-rates", json={"items": [item]})
    await world.expect("100.00", reference=REFERENCE)
    await world.receive("108.00", currency="USD", **QUOTED)
    await world.run()
    assert await world.matches() == []


async def test_what_a_service_kept_of_a_payout_is_a_fee_and_all_of_it_is_settled(world: World) -> None:
    batch = {"groupKey": "PO-2026-7"}
    items = [await world.expect(amount, **batch, externalId=f"E{amount}") for amount in ("60.00", "45.00")]
    note = await world.expect("15.00", direction="debit", **batch, externalId="N")
    line = await world.receive("87.40", remittance="Payout PO-2026-7", counterpartyName="PSP")
    await world.set(autoAccept=True, autoAcceptMinConfidence="high", feeToleranceMinor=10_000)
    await world.run()
    match = await world.proposal()
    assert differences(match, items[0], line) == [("fee", "expected", 260)]
    assert "less credit note" in match["explanation"]
    assert "are paid with 87.40 EUR, 2.60 EUR less than asked, taken as a fee" in match["explanation"]
    assert match["confidence"] == "medium"
    assert await broken(world, match) == {}

    assert (await world.accept(match)).status_code == 200
    for name in (*items, note):
        assert (await world.expected(name))["openAmountMinor"] == 0
    assert [(await world.expected(name))["status"] for name in (*items, note)] == ["matched"] * 3
    assert (await world.incoming(line))["openAmountMinor"] == 0
    assert (await world.tenant.post(f"/matches/{match['id']}/reverse", {"reason": "wrong"})).status_code == 200
    assert [(await world.expected(name))["openAmountMinor"] for name in items] == [6_000, 4_500]
    assert (await world.bystander.get(f"/matches/{match['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("paid", "difference", "told"),
    [
        ("218.00", ("fee", 200), "are paid with its 218.00 EUR, 2.00 EUR less than asked, taken as a fee"),
        ("220.03", ("rounding", 3), "are paid with its 220.03 EUR, 0.03 EUR more than asked, taken as a rounding"),
        ("225.00", ("over_payment", 500), "are paid with its 225.00 EUR, 5.00 EUR more than asked, taken as an over"),
    ],
)
async def test_several_items_are_paid_nearly(world: World, paid: str, difference: tuple[str, int], told: str) -> None:
    items = [await world.expect(amount, reference=f"INV-2026-05{amount[:2]}") for amount in ("100.00", "120.00")]
    line = await world.receive(paid, remittance="INV-2026-0510 INV-2026-0512")
    await world.run()
    [match] = await world.matches()
    [adjustment] = match["adjustments"]
    assert (adjustment["type"], adjustment["amountMinor"]) == difference
    assert told in match["explanation"]
    [amounts] = [e for e in match["evidence"] if e["feature"] == "amount"]
    assert (amounts["expected"], amounts["incoming"]) == ("220.00", paid)
    assert not await broken(world, match)
    assert (await world.accept(match)).status_code == 200
    assert not await broken(world, match)
    rows = [*[await world.expected(item) for item in items], await world.incoming(line)]
    assert [(row["status"], row["openAmountMinor"]) for row in rows] == [("matched", 0)] * 3
