"""Rows straight into a tenant environment, for tests and benchmarks that are about what happens afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from payrec.domain.incoming_transactions import day_number
from payrec.domain.matching.keys import expected_keys, incoming_keys, tie_key
from payrec.domain.scope import TenantScope
from payrec.factory import Factory
from payrec.storage.tenants import TenantStore, scope_of
from support.service import Tenant

_EXPECTED = [
    "id",
    "amount_minor",
    "created_at",
    "updated_at",
    "change_id",
    "due_on",
    "currency",
    "direction",
    "external_id",
    "reference",
]
_EXPECTED += ["counterparty_name"]
_INCOMING = [
    "id",
    "amount_minor",
    "created_at",
    "updated_at",
    "change_id",
    "booking_on",
    "currency",
    "direction",
    "external_id",
]
_INCOMING += ["remittance", "counterparty_name", "identity", "fingerprint"]


async def scope_of_tenant(factory: Factory, tenant: Tenant, environment: str = "production") -> TenantScope:
    """Return the scope of a tenant's environment, as the registry has it."""
    async with factory.context.database.control(readonly=True) as connection:
        rows = await TenantStore(connection).scopes(UUID(tenant.id))
    return scope_of(next(row for row in rows if row["environment"] == environment))


async def load(
    factory: Factory,
    scope: TenantScope,
    *,
    expected: Iterable[dict[str, Any]],
    incoming: Iterable[dict[str, Any]],
) -> None:
    """Copy transactions and what matching reads of them, keys included, into an environment."""
    ids, now = factory.context.ids, datetime.now(UTC)
    change_id = ids.new()
    stored: dict[str, list[dict[str, Any]]] = {
        "expected_transaction": [],
        "expected_open": [],
        "incoming_transaction": [],
        "incoming_open": [],
    }
    common = {"created_at": now, "updated_at": now, "change_id": change_id}
    for row in expected:
        made = {**dict.fromkeys(_EXPECTED), **common, "id": ids.new(), **row}
        stored["expected_transaction"].append({name: made[name] for name in _EXPECTED})
        stored["expected_open"].append(_expected_open(made))
    for row in incoming:
        identity = tie_key(row["external_id"]).to_bytes(8, "big", signed=True) * 2
        made = {
            **dict.fromkeys(_INCOMING),
            **common,
            "id": ids.new(),
            "identity": identity,
            "fingerprint": identity,
            **row,
        }
        stored["incoming_transaction"].append({name: made[name] for name in _INCOMING})
        stored["incoming_open"].append(_incoming_open(made))
    async with factory.context.database.tenant(scope) as connection, connection.cursor() as cursor:
        for table, rows in stored.items():
            if not rows:
                continue
            async with cursor.copy(f"COPY {table} ({', '.join(rows[0])}) FROM STDIN".encode()) as copy:
                for made in rows:
                    await copy.write_row(list(made.values()))


def _expected_open(row: dict[str, Any]) -> dict[str, Any]:
    keys = expected_keys(reference=row["reference"], counterparty_name=row["counterparty_name"])
    return {
        "transaction_id": row["id"],
        "open_minor": row["amount_minor"],
        "total_minor": row["amount_minor"],
        **keys._asdict(),
        "tie_key": tie_key(row["external_id"]),
        "due_day": day_number(row["due_on"]),
        "direction": 1 if row["direction"] == "credit" else -1,
        "currency": row["currency"],
    }


def _incoming_open(row: dict[str, Any]) -> dict[str, Any]:
    keys = incoming_keys(remittance=row["remittance"], counterparty_name=row["counterparty_name"])
    return {
        "transaction_id": row["id"],
        "open_minor": row["amount_minor"],
        "total_minor": row["amount_minor"],
        **keys._asdict(),
        "tie_key": tie_key(row["identity"].hex()),
        "booking_day": day_number(row["booking_on"]),
        "direction": 1 if row["direction"] == "credit" else -1,
        "currency": row["currency"],
    }
