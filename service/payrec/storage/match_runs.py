"""What a matching run reads, as sets: the open rows out by COPY."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.storage import expected_transactions, incoming_transactions
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.filters import Condition
from payrec.storage.rows import CopiedRows, copy_out_rows, fetch_one

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
    "reference_digits",
    "tie_key",
    "revision",
    "terms",
    "reason",
]
"""Columns of the expected rows that a run reads, in the order of the query."""

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
    "quoted_digits",
    "ultimate_name_key",
    "text_name_keys",
    "series_digits",
    "tie_key",
    "revision",
    "reason",
]
"""Columns of the incoming rows that a run reads, in the order of the query."""

# To count a million takes as long as all else that a run over one line asks for. Beyond a limit it is told as the
# planner does: by how full the pages were when they were last looked at, and how many there are now.
_ABOUT: Final = """(
    SELECT CASE
        WHEN few.rows < %(counted)s THEN few.rows
        WHEN c.relpages > 0 AND c.reltuples >= 0 THEN greatest(few.rows, (c.reltuples / c.relpages
            * pg_relation_size(c.oid) / current_setting('block_size')::integer)::bigint)
        ELSE (SELECT count(*) FROM {table})
    END FROM pg_class c, (SELECT count(*) AS rows FROM (SELECT 1 FROM {table} LIMIT %(counted)s) o) few
    WHERE c.oid = '{table}'::regclass
)"""
_ITEMS: Final = f"SELECT {_ABOUT.format(table='expected_open')} AS rows"
_OPEN_ROWS: Final = f"SELECT {_ABOUT.format(table='expected_open')} + {_ABOUT.format(table='incoming_open')} AS rows"


class MatchRunStore:
    """What a run reads, in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_expected(self, query: ExpectedTransactionQuery | None, *, today: Any) -> CopiedRows:
        """Return the open expected rows in binary, in the order of EXPECTED_COLUMNS."""
        found = expected_transactions.conditions(query, today=today) if query is not None else []
        source = "expected_open o"
        if found:
            source += " JOIN expected_transaction e ON e.id = o.transaction_id"
            source += " LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = e.id"
        return await self._copy_out(Side.EXPECTED, EXPECTED_COLUMNS, source, found, {"today": today})

    async def read_incoming(self, query: IncomingTransactionQuery | None) -> CopiedRows:
        """Return the open incoming rows in binary, in the order of INCOMING_COLUMNS."""
        found = incoming_transactions.conditions(query) if query is not None else []
        source = "incoming_open o"
        if found:
            source += " JOIN incoming_transaction i ON i.id = o.transaction_id"
            source += " LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id"
        return await self._copy_out(Side.INCOMING, INCOMING_COLUMNS, source, found, {})

    async def horizon(self) -> int:
        """Return the first transaction of the database that may not be over for what this transaction sees."""
        row = await fetch_one(
            self._connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon"
        )
        return int(row["horizon"]) if row is not None else 0

    async def open_rows(self, *, counted: int) -> int:
        """Tell how much is open on both sides, which is the most that a run reads: beyond ``counted``, about."""
        row = await fetch_one(self._connection, _OPEN_ROWS, {"counted": counted})
        return int(row["rows"]) if row is not None else 0

    async def items_open(self, *, counted: int) -> int:
        """Tell how many items are open: beyond ``counted``, about."""
        row = await fetch_one(self._connection, _ITEMS, {"counted": counted})
        return int(row["rows"]) if row is not None else 0

    async def stored_rows(self, *, most: int) -> int:
        """Count what is stored on both sides, at most so many of either: the most that was ever open at once."""
        query = """
            SELECT (SELECT count(*) FROM (SELECT FROM expected_transaction LIMIT %(most)s) e)
                + (SELECT count(*) FROM (SELECT FROM incoming_transaction LIMIT %(most)s) i) AS rows
        """
        row = await fetch_one(self._connection, query, {"most": most})
        return int(row["rows"]) if row is not None else 0

    async def _copy_out(
        self, side: Side, names: list[str], source: str, found: list[Condition], parameters: Mapping[str, Any]
    ) -> CopiedRows:
        columns = ", ".join("w.reason" if name == "reason" else f"o.{name}" for name in names)
        source += f" LEFT JOIN open_reason w ON w.transaction_id = o.transaction_id AND w.side = {side:d}"
        where, values = "", dict(parameters)
        if found:
            where = " WHERE " + " AND ".join(condition for condition, _ in found)
            for _, more in found:
                values.update(more)
        query = f"COPY (SELECT {columns} FROM {source}{where}) TO STDOUT (FORMAT BINARY)"  # noqa: S608 - our own text
        return await copy_out_rows(self._connection, query, values if found else None)
