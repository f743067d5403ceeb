"""The same data gives the same proposals, byte for byte, in whatever order it came and whatever ids it was given."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

Row = dict[str, Any]
ENVIRONMENTS = ("development", "staging", "production", "test")


def content() -> tuple[list[Row], list[Row]]:
    """Return items and lines in which something of everything happens, much of it only nearly decided."""
    dice = random.Random(7)  # noqa: S311 - data, not a secret
    items: list[Row] = []
    lines: list[Row] = []

    def item(amount: int, **more: Any) -> None:
        items.append({"direction": "credit", "currency": "EUR", "amountMinor": amount, "dueDate": "2026-03-10", **more})

    def line(amount: int, **more: Any) -> None:
        lines.append(
            {"direction": "credit", "currency": "EUR", "amountMinor": amount, "bookingDate": "2026-03-12", **more}
        )

    for n in range(12):
        item(1000 + n, reference=f"INV-2026-{n:03}", externalId=f"exact-{n}", counterpartyName=f"Customer {n % 3}")
        line(1000 + n, remittance=f"Zahlung INV-2026-{n:03}", externalId=f"pays-{n}")
    for n in range(8):
        # Equal amounts and names: which line pays which item is a toss, and must be the same toss.
        item(5000, counterpartyName="Ada", externalId=f"toss-{dice.random()}")
        line(5000, counterpartyName="ADA", externalId=f"coin-{dice.random()}", bookingDate=f"2026-03-{10 + n % 3}")
    for n in range(4):
        # Nothing tells these apart but the id that they are given on arrival.
        item(7000, reference="RENT 2026")
        line(7000, remittance=f"RENT 2026 {n // 2}")
    item(9000, reference="PART-2026-1", externalId="parts")
    for amount in (2000, 3000, 4000, 5000):
        line(amount, remittance="PART-2026-1", externalId=f"part-{amount}")
    item(9100, reference="OVER-2026-1")
    line(9900, remittance="OVER-2026-1", status="pending")
    line(9100, remittance="OVER-2026-1", reversal=True)
    item(9200, reference="LATE-2026-1")
    line(9200, remittance="LATE-2026-1", bookingDate="2026-12-24")
    item(9300, reference="FOREIGN-2026-1")
    line(9300, remittance="FOREIGN-2026-1", currency="USD")
    for n in range(3):
        item(3000 + n, groupKey="PO-2026-7", externalId=f"batch-{n}")
        item(4000 + n, reference=f"SUM-2026-{n}", externalId=f"sum-{n}")
        line(2500 + n, remittance=f"RATE-2026-1 part {n}")
        # Several lines have the amount of this one, and of what they quote only some sums up.
        item(600 + n, reference=f"SOME-2026-{n}", externalId=f"some-{n}", counterpartyName="Ada")
        line(1201, remittance="SOME-2026-0 SOME-2026-1 SOME-2026-2", counterpartyName="Ada", bookingDate="2026-03-11")
    item(7503, reference="RATE-2026-1")
    line(9003, remittance="Payout PO-2026-7")
    line(12003, remittance="SUM-2026-0, SUM-2026-1, SUM-2026-2")
    line(1, remittance="INV-2026-001 and INV-2026-002 and INV-2026-003")
    return items, lines


async def store(tenant: Tenant, environment: str, path: str, rows: list[Row]) -> None:
    for row in rows:
        answer = await tenant.post(path, row, environment=environment)
        assert answer.status_code == 201, answer.text


async def everything(tenant: Tenant, environment: str, path: str, **parameters: str) -> list[Row]:
    answer = await tenant.get(path, environment=environment, params={"limit": "200", **parameters})
    assert not answer.json()["hasMore"]
    found: list[Row] = answer.json()["data"]
    return found


def content_of(row: Row, given: tuple[str, ...]) -> Row:
    return {name: row[name] for name in given if row[name] is not None}


ITEM = ("externalId", "reference", "amountMinor", "counterpartyName", "reasonCode", "status", "matchedAmountMinor")
LINE = (*ITEM[:1], "remittance", *ITEM[2:], "bookingDate", "currency")


async def rendered(tenant: Tenant, environment: str) -> bytes:
    """Return proposals and reasons by what they say, without an id or a time."""
    items = {r["id"]: content_of(r, ITEM) for r in await everything(tenant, environment, "/expected-transactions")}
    lines = {r["id"]: content_of(r, LINE) for r in await everything(tenant, environment, "/incoming-transactions")}

    def ends(pair: Row) -> tuple[Row, Row]:
        return items[pair["expectedTransactionId"]], lines[pair["incomingTransactionId"]]

    matches = [
        {
            "legs": [(ends(leg), leg["amountMinor"], leg["settledMinor"]) for leg in match["legs"]],
            "alternatives": [(ends(other), other["score"]) for other in match["alternatives"]],
            **{
                name: match[name]
                for name in ("status", "score", "confidence", "evidence", "explanation", "uniqueness", "kind")
            },
        }
        for match in await everything(tenant, environment, "/matches")
        if match["status"] != "superseded"
    ]
    sides = (items.values(), lines.values(), matches)
    return "\n".join(text for side in sides for text in sorted(json.dumps(x, sort_keys=True) for x in side)).encode()


async def matched(tenant: Tenant, environment: str, seed: int | None) -> bytes:
    """Store the content, shuffled, run twice, and return what came of it."""
    items, lines = content()
    if seed is not None:
        random.Random(seed).shuffle(items)  # noqa: S311 - data, not a secret
        random.Random(seed + 1).shuffle(lines)  # noqa: S311 - same
    sides = [("/expected-transactions", items), ("/incoming-transactions", lines)]
    for path, rows in sides if seed is None or seed % 2 else reversed(sides):
        await store(tenant, environment, path, rows)
    run = (await tenant.post("/matches/match", {"wait": 60}, environment=environment)).json()
    assert run["counts"]["proposed"] > 20
    first = await rendered(tenant, environment)
    await tenant.post("/matches/match", {"wait": 60}, environment=environment)
    assert await rendered(tenant, environment) == first
    return first


async def test_two_tenants_and_four_environments_that_got_the_same_in_other_orders_see_the_same(
    service: Service,
) -> None:
    seeds = iter((None, 11, 22, 33, 44, 55))
    first, second = [await service.tenant(f"order-{letter}") for letter in "ab"]
    places = [(first, e) for e in ENVIRONMENTS] + [(second, e) for e in ENVIRONMENTS[:2]]
    found = await asyncio.gather(*(matched(tenant, e, seed) for (tenant, e), seed in zip(places, seeds, strict=True)))
    assert len(found[0]) > 20_000
    for other in found[1:]:
        assert other == found[0]


async def test_what_is_accepted_by_itself_is_the_same_too(service: Service) -> None:
    results = []
    for number, seed in enumerate((5, 6)):
        tenant = await service.tenant(f"auto-{'ab'[number]}", environments=["production"])
        settings = {"matching": {"autoAccept": True, "autoAcceptMinConfidence": "high"}}
        await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json=settings)
        results.append(await matched(tenant, "production", seed))
    assert results[0] == results[1]
    assert b'"status": "accepted"' in results[0]
