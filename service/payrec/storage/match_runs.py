"""What a matching run reads, as sets: the open rows out by COPY, the proposals into temporary tables by COPY."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.storage import expected_transactions, incoming_transactions
from payrec.storage.database import Connection
from payrec.storage.filters import Condition
from payrec.storage.rows import copy_out

COPY_BYTES: Final = 256 * 1024
"""Bytes of one message to the server."""

WORK_MEMORY_MIB: Final = 64
"""Memory of one sort or join of a commit: the legs of some 500,000 matches are joined without temporary files."""

STATISTICS_TARGET: Final = 10
"""Of what a commit analyses: ids are nearly unique, so 300 times as many rows tell all; the default reads 30,000."""

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
]
"""Columns of the incoming rows that a run reads, in the order of the CSV."""

STAGED_COLUMNS: Final = [
    "id",
    "amount_minor",
    "score",
    "candidates",
    "kind",
    "confidence",
    "uniqueness",
    "currency",
    "auto",
    "effective_on",
    "levels",
    "alternatives",
    "proof",
]
"""Columns of a staged proposal, in the order of COPY."""

STAGED_LEG_COLUMNS: Final = [
    "match_id",
    "ordinal",
    "expected_id",
    "incoming_id",
    "amount_minor",
    "expected_open_minor",
    "incoming_open_minor",
    "expected_revision",
    "incoming_revision",
    "currency",
    "auto",
]
"""Columns of a leg of a staged proposal, in the order of COPY; currency and auto are its proposal's."""

_STAGE: Final = f"""
    SET LOCAL work_mem = '{WORK_MEMORY_MIB}MB';
    SET LOCAL default_statistics_target = {STATISTICS_TARGET};
    CREATE TEMPORARY TABLE staged_match (
        id uuid, amount_minor bigint, score integer, candidates integer, kind text, confidence text, uniqueness text,
        currency text, auto boolean, effective_on date, levels smallint[], alternatives jsonb, proof jsonb
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE staged_leg (
        match_id uuid, ordinal smallint, expected_id uuid, incoming_id uuid, amount_minor bigint,
        expected_open_minor bigint, incoming_open_minor bigint, expected_revision integer, incoming_revision integer,
        currency text, auto boolean
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE staged_reason (side smallint, transaction_id uuid, reason smallint) ON COMMIT DROP;
    CREATE TEMPORARY TABLE looked_at (side smallint, transaction_id uuid) ON COMMIT DROP
"""
_ANALYZE: Final = (
    b"ANALYZE staged_match (id, auto), staged_leg (match_id, expected_id, incoming_id, auto), staged_reason, looked_at"
)
_COPIES: Final = (
    f"COPY staged_match ({', '.join(STAGED_COLUMNS)}) FROM STDIN",
    f"COPY staged_leg ({', '.join(STAGED_LEG_COLUMNS)}) FROM STDIN",
    "COPY staged_reason (side, transaction_id, reason) FROM STDIN",
    "COPY looked_at (side, transaction_id) FROM STDIN",
)


class MatchRunStore:
    """What a run reads and stages, in the transaction of ``connection``."""

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

    async def stage(self, matches: bytes, legs: bytes, reasons: bytes, looked_at: bytes) -> None:
        """Copy proposals, their legs, reasons and, for a run that did not look at everything, what it looked at.

        All are COPY text, in the columns of ``staged_match``, ``staged_leg``, ``staged_reason`` and ``looked_at``.
        The transaction has more memory for its joins from then on, and samples less for its statistics.
        """
        await self._connection.execute(_STAGE.encode(), prepare=False)
        for query, data in zip(_COPIES, (matches, legs, reasons, looked_at), strict=True):
            if not data:
                continue
            async with self._connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
                for place in range(0, len(data), COPY_BYTES):
                    await copy.write(data[place : place + COPY_BYTES])
        # Without statistics the joins that follow would be planned for a handful of rows.
        await self._connection.execute(_ANALYZE, prepare=False)

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
