"""Uploads of a tenant, and what is stored after them: its content, without what says when and from where it came."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from payrec.domain.incoming_transactions import KEY_COLUMNS, STORED_COLUMNS
from support.service import Service, Tenant
from support.wire import rows

PATH = "/incoming-transactions/upload"
_PLACES = {"id", "statement_index", "line"}
"""Columns that say which row it is, and where it stood in its file."""
_STATED = ", ".join(f't."{name}"' for name in STORED_COLUMNS if name not in _PLACES)
_OPEN = ", ".join(
    f'o."{name}" AS "open_{name}"'
    for name in (*KEY_COLUMNS, "open_minor", "total_minor", "booking_day", "value_day", "pending", "duplicate")
)
_CONTENT = f"""
    SELECT {_STATED}, {_OPEN}, a.status AS state, o.transaction_id IS NOT NULL AS is_open FROM incoming_transaction t
    LEFT JOIN incoming_open o ON o.transaction_id = t.id
    LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = t.id
"""  # noqa: S608 - columns of our own tables
_CLEAR = "; ".join(
    f"DELETE FROM {table}"  # noqa: S608 - same
    for table in (
        *("incoming_open", "incoming_transaction", "allocation", "page_line"),
        *("statement", "import_problem", "import"),
    )
)


async def clear(service: Service, tenant: Tenant) -> None:
    """Take away all that was uploaded."""
    await rows(service, tenant, _CLEAR)


async def content(service: Service, tenant: Tenant, environment: str = "production") -> Counter[str]:
    """Return what is stored and open, but for ids, times and places."""
    found = await rows(service, tenant, _CONTENT, environment)
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in found)


async def upload(tenant: Tenant, data: bytes, name: str = "x", /, **options: str) -> dict[str, Any]:
    """Upload a file and return its import; every record of it is accounted for."""
    parts: dict[str, Any] = {**{key: (None, value) for key, value in options.items()}, "file": (name, data)}
    answer = await tenant.post(PATH, files=parts)
    assert answer.status_code in {200, 201}, answer.text
    body: dict[str, Any] = answer.json()
    if body["status"] == "completed":
        counts = dict(body["counts"])
        assert counts.pop("records") == sum(counts.values())
    return body


async def listed(tenant: Tenant, **parameters: Any) -> list[dict[str, Any]]:
    """Return the first 200 incoming transactions as the interface shows them, by amount."""
    answer = await tenant.get("/incoming-transactions", params={"limit": 200, "sort": "amountMinor", **parameters})
    found: list[dict[str, Any]] = answer.json()["data"]
    return found
