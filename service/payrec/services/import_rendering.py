"""An import as it is read: its row with the balances of its statements and its first errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from payrec.models.imports import ImportPublic
from payrec.storage.database import Connection
from payrec.storage.imports import ImportStore
from payrec.storage.statements import StatementStore

COLLECTION: Final = "/imports"

INCOMING: Final = "incoming-transactions"
EXPECTED: Final = "expected-transactions"
SNAPSHOT: Final = "expected-snapshots"
MATCHES: Final = "matches"
"""What a file may be of, as ``import.resource`` says it."""

ERRORS_SHOWN_MAX: Final = 100
"""Errors in the import itself; all of them are at ``errorsUrl``."""

STATEMENTS_SHOWN_MAX: Final = 1_000
"""Statements whose balances are in the import itself."""


async def rendered_imports(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[ImportPublic]:
    """Return the resources of stored imports."""
    ids = [row["id"] for row in rows]
    statements = await StatementStore(connection).of_imports(ids, limit=STATEMENTS_SHOWN_MAX)
    errors = await ImportStore(connection).first_errors(ids, limit=ERRORS_SHOWN_MAX)
    return [
        _public(
            row,
            [s for s in statements if s["import_id"] == row["id"]],
            [e for e in errors if e["import_id"] == row["id"]],
        )
        for row in rows
    ]


def _public(
    row: dict[str, Any], statements: Sequence[dict[str, Any]], errors: Sequence[dict[str, Any]]
) -> ImportPublic:
    totals: dict[str, dict[str, Any]] = {}
    for statement in statements:
        currency = statement["currency"] or ""
        total = totals.setdefault(currency, {"currency": currency, "credit_minor": 0, "debit_minor": 0})
        total["credit_minor"] += statement["credit_minor"]
        total["debit_minor"] += statement["debit_minor"]
    return ImportPublic.model_validate(
        {
            "format": None,
            "format_version": None,
            "encoding": None,
            "error": None,
            **row,
            "counts": {n: row.get(n, 0) for n in ("records", "accepted", "duplicates", "skipped", "rejected")},
            "totals": list(totals.values()),
            "balances": [
                {
                    **s,
                    "from_date": s["from_on"],
                    "to_date": s["to_on"],
                    "expected_opening_date": s["expected_on"],
                    "first_booking_date": s["first_booking_on"],
                    "last_booking_date": s["last_booking_on"],
                }
                for s in statements
            ],
            "errors": errors,
            "errors_url": f"{COLLECTION}/{row['id']}/errors",
            "content_url": f"{COLLECTION}/{row['id']}/content" if row["blob_id"] is not None else None,
        }
    )
