"""Uploads of BAI2 and OFX: what the formats are from end to end, in two tenants."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions/upload"
FILES = Path(__file__).parents[2] / "data" / "uploads"
BAI2 = (FILES / "statement.bai2").read_bytes()
OFX = (FILES / "statement.ofx").read_bytes()


async def new_tenant(service: Service, request: pytest.FixtureRequest, place: str) -> Tenant:
    slug = "u" + hashlib.sha256(f"{request.node.name}{place}".encode()).hexdigest()[:20]
    return await service.tenant(slug, environments=["production"])


async def imported(tenant: Tenant, content: bytes, **options: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/octet-stream"}
    answer = await tenant.post(PATH, headers=headers, content=content, params=options)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def rows_of(tenant: Tenant, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await tenant.get("/incoming-transactions", params={"importId": body["id"], "sort": "amountMinor"})
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def counts(body: dict[str, Any]) -> tuple[int, ...]:
    """Return accepted, duplicates, skipped, rejected."""
    return tuple(body["counts"][name] for name in ("accepted", "duplicates", "skipped", "rejected"))


async def codes_of(tenant: Tenant, body: dict[str, Any]) -> list[tuple[str, int | None]]:
    told = (await tenant.get(body["errorsUrl"])).json()["data"]
    return [(error["code"], error.get("line")) for error in told]


async def test_bai2_is_stored_with_its_checks_and_the_profile_decides_what_the_code_does_not(
    service: Service, request: pytest.FixtureRequest
) -> None:
    first, second = await new_tenant(service, request, "a"), await new_tenant(service, request, "b")
    body = await imported(first, BAI2)
    assert (body["format"], body["formatVersion"], counts(body)) == ("bai2", "2", (3, 0, 0, 1))
    assert await codes_of(first, body) == [("unknown_direction", 8)]
    [balance] = body["balances"]
    assert (balance["openingMinor"], balance["closingMinor"], balance["balanceCheck"]) == (10_000, 14_750, "ok")
    rows = await rows_of(first, body)
    assert [(r["direction"], r["amountMinor"], r["remittance"], r.get("valueDate")) for r in rows] == [
        ("debit", 1250, "CHECK PAID", "2026-03-03"),
        ("credit", 3000, "INVOICE INV-100, 1/2", None),
        ("credit", 3000, "INVOICE INV-100, 1/2", None),
    ]
    assert {r["account"] for r in rows} == {"DE89370400440532013000"}
    assert [r["metadata"] for r in rows] == [{"checkNumber": "319"}, {}, {}]
    profile = json.dumps({"bai2": {"directions": {"920": "debit"}}})
    again = await imported(first, BAI2, profile=profile)
    assert counts(again) == (1, 3, 0, 0)
    assert [(r["direction"], r["amountMinor"]) for r in await rows_of(first, again)] == [("debit", 500)]
    assert counts(await imported(second, BAI2)) == (3, 0, 0, 1)


async def test_ofx_keeps_the_same_id_of_two_accounts_apart(service: Service, request: pytest.FixtureRequest) -> None:
    first, second = await new_tenant(service, request, "a"), await new_tenant(service, request, "b")
    body = await imported(first, OFX, format="ofx")
    assert (body["format"], body["formatVersion"], counts(body)) == ("ofx", "102", (2, 0, 0, 1))
    assert await codes_of(first, body) == [("invalid_amount", 16)]
    rows = await rows_of(first, body)
    assert [(r["account"], r["direction"], r["amountMinor"], r["bankReference"]) for r in rows] == [
        ("2", "debit", 1250, "F-1"),
        ("1", "credit", 3000, "F-1"),
    ]
    assert (rows[1]["counterpartyName"], rows[1]["remittance"]) == ("Miller & Sons", "Invoice INV-100")
    assert counts(await imported(first, OFX + b"\n", format="ofx")) == (0, 2, 0, 1)
    assert counts(await imported(second, OFX)) == (2, 0, 0, 1)
