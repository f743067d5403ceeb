"""The month-end of a shop with a payment provider: in whatever order its files come, one state and no difference."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any

import pytest

from support.service import Service, Tenant
from support.shop_files import BANK, CUT_OFF, PAYER, PROVIDER, Shop, shop

pytestmark = pytest.mark.anyio

Row = dict[str, Any]
RAW = {"Content-Type": "application/octet-stream"}
ENVIRONMENTS = ("production", "staging", "development", "test")
FILES = ("invoices.jsonl", "stripe.csv", "bank.xml", "returns.xml")
FEW = (FILES, ("stripe.csv", "returns.xml", "bank.xml", "invoices.jsonl"))
"""As a clerk would do it, and with all that takes money back before what it was paid for."""
ORDERS = list(itertools.permutations(FILES)) if int(os.environ.get("PAYREC_STATE_STEPS", "1000")) > 5000 else FEW
RULES = [
    {
        "name": name,
        "priority": priority,
        "scope": {"direction": "debit", **scope},
        "classify": {"category": "fee", "postingCode": "4970"},
    }
    for priority, (name, scope) in enumerate(
        (
            ("account-fee", {"account": BANK, "textContains": ["Account fee"]}),
            ("provider-fee", {"account": PROVIDER, "bankTransactionCode": "fee"}),
        ),
        start=1,
    )
]
SETTINGS = {"matching": {"autoAccept": True, "rules": RULES}}
OF_STORING = {"id", "createdAt", "updatedAt", "version", "importId", "runId", "decidedAt"}


async def everything(tenant: Tenant, environment: str, path: str) -> list[Row]:
    found: list[Row] = []
    asked: dict[str, Any] = {"limit": 200}
    while True:
        page = (await tenant.get(path, environment, params=asked)).json()
        found += page["data"]
        if not page["hasMore"]:
            return found
        asked["cursor"] = page["nextCursor"]


async def run(tenant: Tenant, environment: str) -> None:
    answer = await tenant.post("/matches/match", {"wait": 60}, environment)
    assert (answer.status_code, answer.json()["status"]) == (200, "succeeded"), answer.text


async def upload(tenant: Tenant, environment: str, name: str, content: bytes) -> None:
    path = "expected" if name == "invoices.jsonl" else "incoming"
    options = {"params": {"account": PROVIDER}} if name == "stripe.csv" else {}
    answer = await tenant.post(
        f"/{path}-transactions/upload", None, environment, content=content, headers=RAW, **options
    )
    assert (answer.status_code, answer.json()["counts"]["rejected"]) == (201, 0), answer.text
    await run(tenant, environment)


def said(row: Row, named: dict[str, str]) -> Row:
    """Return a row without what storing it gives, its references to others by what these are called."""

    def told(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: told(found) for name, found in value.items()}
        if isinstance(value, list):
            return [told(found) for found in value]
        return named.get(value, value) if isinstance(value, str) else value

    return {name: told(value) for name, value in row.items() if name not in OF_STORING}


class Books:
    """What there is in an environment."""

    def __init__(self, items: list[Row], lines: list[Row], matches: list[Row]) -> None:
        self.items = {row["externalId"]: row for row in items}
        self.lines = {row["externalId"] or row["bankReference"] + (row["endToEndId"] or ""): row for row in lines}
        assert len(self.items) == len(items)
        assert len(self.lines) == len(lines)
        self.named = {row["id"]: name for side in (self.items, self.lines) for name, row in side.items()}
        self.matches = matches

    @classmethod
    async def of(cls, tenant: Tenant, environment: str) -> Books:
        paths = ("/expected-transactions", "/incoming-transactions", "/matches")
        return cls(*[await everything(tenant, environment, path) for path in paths])

    def content(self) -> list[list[Row]]:
        """Return all of it without ids and instants, in an order of its own."""
        sides = (self.items.values(), self.lines.values(), [m for m in self.matches if m["status"] != "superseded"])
        return [sorted((said(row, self.named) for row in side), key=repr) for side in sides]

    def line(self, leg: Row, end: str = "incomingTransactionId") -> Row:
        return self.lines[self.named[leg[end]]]


async def statement(tenant: Tenant, identifier: str, environment: str) -> Row:
    found = await tenant.get("/accounts", environment, params={"identifier": identifier})
    [account] = found.json()["data"]
    balance = {"on": CUT_OFF, "balanceMinor": BALANCES[identifier]}
    put = await tenant.request("PUT", f"/accounts/{account['id']}/book-balances", environment, json=balance)
    assert put.status_code == 200, put.text
    path = f"/accounts/{account['id']}/reconciliation"
    answer = await tenant.get(path, environment, params={"cutOff": CUT_OFF})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


SHOP = shop()
BALANCES = {BANK: SHOP.bank_minor, PROVIDER: SHOP.provider_minor}
"""What the books have of each account."""


async def made(tenant: Tenant, environment: str, order: tuple[str, ...], files: Shop) -> list[list[Row]]:
    """Upload the files in an order, matching after each, and once more for what the last one has opened again."""
    for name in order:
        await upload(tenant, environment, name, files.files[name])
    await run(tenant, environment)
    return (await Books.of(tenant, environment)).content()


async def test_every_order_of_uploads_ends_in_one_state(service: Service) -> None:
    results = []
    for number, first in enumerate(range(0, len(ORDERS), len(ENVIRONMENTS))):
        some = ORDERS[first : first + len(ENVIRONMENTS)]
        tenant, other = await service.tenant(f"shop-{number}"), await service.tenant(f"other-{number}")
        patched = await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json=SETTINGS)
        assert patched.status_code == 200, patched.text
        places = list(zip(ENVIRONMENTS, some, strict=False))
        results += await asyncio.gather(*(made(tenant, place, order, SHOP) for place, order in places))
        for path in ("/incoming-transactions", "/matches"):
            assert (await other.get(path)).json()["data"] == []
    assert [len(side) for side in results[0]] == [250, 271, 255]
    for order, result in zip(ORDERS, results, strict=True):
        for found, wanted in zip(result, results[0], strict=True):
            assert found == wanted, order
    await closes(tenant, ENVIRONMENTS[len(some) - 1])


async def closes(tenant: Tenant, environment: str) -> None:
    """See that what was decided is right, decide what is left to a person, and see that nothing is left."""
    books = await Books.of(tenant, environment)
    charges = 0
    for match in books.matches:
        for leg in match["legs"]:
            line = books.line(leg)
            if match["kind"] == "transfer":
                # Deposits are what was paid out, and nothing else is.
                payout = books.line(leg, "contraIncomingTransactionId")
                assert (line["counterpartyName"], payout["bankTransactionCode"]) == (PAYER, "payout")
                quoted = (line["remittance"] or "").removeprefix("STRIPE PAYOUT ")
                assert quoted == payout["groupKey"] or payout["groupKey"] == SHOP.twins[1], match
            else:
                item = books.named[leg["expectedTransactionId"]]
                assert (line["account"] == PROVIDER) == item.startswith("INV"), match
                assert line["counterpartyName"] != PAYER
                charges += 1
    assert charges == 250
    items = {name: row["openAmountMinor"] for name, row in books.items.items() if row["openAmountMinor"]}
    assert items == SHOP.open_minor
    assert sorted(name for name in items if name.startswith("SUB")) == sorted(SHOP.returned)
    assert {books.items[name]["status"] for name in SHOP.returned} == {"open"}

    [left] = [match for match in books.matches if match["status"] == "proposed"]
    assert (left["kind"], left["confidence"], left["amountMinor"]) == (
        "transfer", "medium", SHOP.payouts[SHOP.twins[1]],
    )  # fmt: skip
    assert f"nothing names payout {SHOP.twins[1]} but its amount" in left["explanation"]
    answer = await tenant.post(f"/matches/{left['id']}/accept", None, environment)
    assert answer.status_code == 200, answer.text
    for identifier in (BANK, PROVIDER):
        told = await statement(tenant, identifier, environment)
        crossing = -SHOP.payouts[SHOP.crossing] if identifier == PROVIDER else 0
        assert (told["inTransit"]["sumMinor"], told["open"]["count"], told["bookDifferenceMinor"]) == (crossing, 0, 0)
        assert told["differenceMinor"] == (0 if identifier == BANK else None)
