"""What a matching run reads, as sets: the open rows out by COPY."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.storage import expected_transactions, incoming_transactions
from payrec.storage.database import Connection
from payrec.storage.filters import Condition
from payrec.storage.rows import copy_out

EXPECTED_COLUMNS: Final = [
    "transaction_id",
    "currency",
    "direction",
    "open_minor",
    "total_minor",
    "min_minor",
    "max_minor",
    "due_day",
    "from_day",
    "to_day",
    "reference_key",
    "end_to_end_key",
    "name_key",
    "account_key",
    "own_account_key",
    "group_key",
    "tie_key",
    "revision",
    "reason",
]
"""Columns of the expected rows that a run reads, in the order of the CSV."""

INCOMING_COLUMNS: Final = [
    "transaction_id",
    "currency",
    "direction",
    "open_minor",
    "total_minor",
    "booking_day",
    "value_day",
    "pending",
    "reversal",
    "duplicate",
    "reference_keys",
    "end_to_end_key",
    "name_key",
    "account_key",
    "own_account_key",
    "group_key",
    "tie_key",
    "revision",
    "reason",
]
"""Columns of the incoming rows that a run reads, in the order of the CSV."""


class MatchRunStore:
    """What a run reads, in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_expected(self, query: ExpectedTransactionQuery | None, *, today: Any) -> bytes:
        """Return the open expected rows as CSV without header, in the order of EXPECTED_COLUMNS."""
        found = expected_transactions.conditions(query, today=today) if query is not None else []
        source = "expected_open o"
        if found:
            source += " JOIN expected_transaction e ON e.id = o.transaction_id"
            source += " LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id"
        columns = ", ".join(f"o.{c}" for c in EXPECTED_COLUMNS)
        return await self._copy_out(columns, source, found, {"today": today})

    async def read_incoming(self, query: IncomingTransactionQuery | None) -> bytes:
        """Return the open incoming rows as CSV without header, in the order of INCOMING_COLUMNS.

        ``reference_keys`` is one text with blanks between.
        """
        found = incoming_transactions.conditions(query) if query is not None else []
        source = "incoming_open o"
        if found:
            source += " JOIN incoming_transaction i ON i.id = o.transaction_id"
            source += " LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id"
        columns = ", ".join(
            "array_to_string(o.reference_keys, ' ')" if c == "reference_keys" else f"o.{c}" for c in INCOMING_COLUMNS
        )
        return await self._copy_out(columns, source, found, {})

    async def _copy_out(
        self, columns: str, source: str, found: list[Condition], parameters: Mapping[str, Any]
    ) -> bytes:
        where, values = "", dict(parameters)
        if found:
            where = " WHERE " + " AND ".join(condition for condition, _ in found)
            for _, more in found:
                values.update(more)
        query = f"COPY (SELECT {columns} FROM {source}{where}) TO STDOUT (FORMAT CSV)"  # noqa: S608 - our own text
        return await copy_out(self._connection, query, values if found else None)
