"""What may belong to one open transaction, found without a run: rows of the other side that share something with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

_ITEM: Final = """
    o.transaction_id, o.currency, o.direction, o.open_minor AS amount_minor, o.total_minor, o.min_minor, o.max_minor,
    o.due_day, o.from_day, o.to_day, o.reference_key, o.end_to_end_key, o.name_key, o.account_key, o.own_account_key,
    o.terms, o.reference_digits
"""
_LINE: Final = """
    o.transaction_id, o.currency, o.direction, o.open_minor AS amount_minor, o.total_minor, o.booking_day, o.value_day,
    o.pending, o.duplicate, o.reference_keys, o.end_to_end_key, o.name_key, o.account_key, o.own_account_key,
    o.quoted_digits
"""
_COLUMNS: Final = {"expected": _ITEM, "incoming": _LINE}
_OTHER: Final = {"expected": "incoming", "incoming": "expected"}
_QUOTES: Final = """
    item.reference_key = ANY(line.reference_keys) OR item.reference_key = line.end_to_end_key
        OR item.end_to_end_key = ANY(line.reference_keys) OR item.end_to_end_key = line.end_to_end_key
"""
# Open items are found by their indexes. Open lines have none, so they are read once, and never copied.
_BESIDE: Final = """
    WITH item AS {item_kept} MATERIALIZED (SELECT * FROM expected_open {item_is}),
        line AS {line_kept} MATERIALIZED (SELECT * FROM incoming_open {line_is})
    SELECT {columns} FROM (
        SELECT {other}.*, coalesce({quotes}, false) AS quotes, item.currency = line.currency AS comparable,
            abs(item.open_minor - line.open_minor) AS gap,
            abs(coalesce(item.due_day, item.to_day, item.from_day) - line.booking_day) AS days
        FROM item, line
        WHERE item.direction = line.direction AND NOT line.reversal AND (
            {quotes} OR item.account_key = line.account_key OR item.name_key = line.name_key
            OR (item.open_minor = line.open_minor AND item.currency = line.currency)
        )
    ) o
    ORDER BY quotes DESC, comparable DESC, gap, days NULLS LAST, tie_key, transaction_id LIMIT %(limit)s
"""


class MatchCandidateStore:
    """Reads the open rows of both sides."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open_row(self, side: str, transaction_id: UUID) -> dict[str, Any] | None:
        """Return what matching reads of an open transaction; ``side`` is ``expected`` or ``incoming``."""
        query = f"SELECT {_COLUMNS[side]} FROM {side}_open o WHERE o.transaction_id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (transaction_id,))

    async def exists(self, side: str, transaction_id: UUID) -> bool:
        """Tell whether there is such a transaction, open or not."""
        query = f"SELECT 1 FROM {side}_transaction WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (transaction_id,)) is not None

    async def beside(self, side: str, transaction_id: UUID, *, limit: int) -> list[dict[str, Any]]:
        """Return the open rows of the other side that share a text, a counterparty or an amount, at most ``limit``."""
        only = "WHERE transaction_id = %(centre)s"
        query = _BESIDE.format(
            item_is=only if side == "expected" else "",
            line_is=only if side == "incoming" else "",
            item_kept="" if side == "expected" else "NOT",
            line_kept="" if side == "incoming" else "NOT",
            columns=_COLUMNS[_OTHER[side]],
            other="line" if side == "expected" else "item",
            quotes=_QUOTES,
        )
        return await fetch_all(self._connection, query, {"centre": transaction_id, "limit": limit})

    async def proposals(self, side: str, transaction_id: UUID, others: Sequence[UUID]) -> dict[UUID, UUID]:
        """Return the standing proposals that join the transaction with any of the others, by the other's id."""
        other = _OTHER[side]
        query = f"""
            SELECT l.{other}_id AS id, m.id AS match_id FROM leg l JOIN match m ON m.id = l.match_id
            WHERE l.{side}_id = %s AND l.{other}_id = ANY(%s) AND m.status = 'proposed'
        """  # noqa: S608 - our own text
        rows = await fetch_all(self._connection, query, (transaction_id, list(others)))
        return {row["id"]: row["match_id"] for row in rows}
