"""A transaction of either side, stored over HTTP."""

from __future__ import annotations

from typing import Any

from support.service import Tenant


async def expect(tenant: Tenant, amount: str = "100.00", **fields: Any) -> str:
    """State an expected transaction and return its id."""
    body = {"direction": "credit", "currency": "EUR", "dueDate": "2026-03-10", "amount": amount, **fields}
    return await _stored(tenant, "/expected-transactions", body)


async def receive(tenant: Tenant, amount: str = "100.00", **fields: Any) -> str:
    """Store an incoming transaction and return its id."""
    body = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "amount": amount, **fields}
    return await _stored(tenant, "/incoming-transactions", body)


async def _stored(tenant: Tenant, path: str, body: dict[str, Any]) -> str:
    answer = await tenant.post(path, body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])
