"""What may belong to one open transaction, found without a run: rows of the other side that share something with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    o.pending, o.reversal, o.duplicate, o.reference_keys, o.end_to_end_key, o.name_key, o.account_key,
    o.own_account_key, o.quoted_digits, o.ultimate_name_key, o.text_name_keys, o.series_digits
"""
_COLUMNS: Final = {"expected": _ITEM, "incoming": _LINE}
_OTHER: Final = {"expected": "incoming", "incoming": "expected"}
_NAMED: Final = {
    "expected": """
        o.name_key IN (%(name_key)s, %(ultimate_name_key)s) OR o.name_key = ANY(%(text_name_keys)s::bigint[])
    """,
    "incoming": """
        o.name_key = %(name_key)s OR o.ultimate_name_key = %(name_key)s OR %(name_key)s = ANY(o.text_name_keys)
    """,
}
"""Whether a row of that side is of the other one's counterparty."""
_DAY: Final = {"expected": "coalesce(o.due_day, o.to_day, o.from_day)", "incoming": "o.booking_day"}
_ALSO: Final = {"expected": "", "incoming": "AND NOT o.reversal"}
_QUOTES: Final = {
    "expected": "o.reference_key = ANY(%(names)s::bigint[]) OR o.end_to_end_key = ANY(%(names)s::bigint[])",
    "incoming": """
        %(reference_key)s = ANY(o.reference_keys) OR %(end_to_end_key)s = ANY(o.reference_keys)
            OR o.end_to_end_key = ANY(%(names)s::bigint[])
    """,
}
"""Whether a row of that side names the other one, or is named by it."""

# What the one row says is given as values: what it does not say drops out of the plan. Open items are found by their
# indexes. Open lines have none, because they come in by the million, so they are read once.
_BESIDE: Final = """
    SELECT {columns} FROM (
        SELECT o.*, coalesce({quotes}, false) AS quotes, o.currency = %(currency)s AS comparable,
            abs(o.open_minor - %(amount_minor)s) AS gap, abs({day} - %(day)s) AS days
        FROM {other}_open o
        WHERE o.direction = %(direction)s {also} AND (
            {quotes} OR o.account_key = %(account_key)s OR {named}
            OR (o.open_minor = %(amount_minor)s AND o.currency = %(currency)s)
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

    async def is_reviewed_blindly(self, side: str, transaction_id: UUID) -> bool:
        """Tell whether a proposal of it waits for a person who is not told what the engine thinks."""
        query = f"""
            SELECT 1 FROM leg l JOIN match m ON m.id = l.match_id
            WHERE l.{side}_id = %s AND m.status = 'proposed' AND m.sampled
        """  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (transaction_id,)) is not None

    async def beside(self, side: str, own: Mapping[str, Any], *, limit: int) -> list[dict[str, Any]]:
        """Return the open rows of the other side that share a text, a counterparty or an amount, at most ``limit``.

        ``own`` is what ``open_row`` returned of the transaction.
        """
        if own.get("reversal"):
            return []
        other = _OTHER[side]
        query = _BESIDE.format(
            columns=_COLUMNS[other],
            other=other,
            quotes=_QUOTES[other],
            named=_NAMED[other],
            day=_DAY[other],
            also=_ALSO[other],
        )
        names = {own.get("reference_key"), *own.get("reference_keys", ()), own["end_to_end_key"]} - {None}
        day = own["booking_day"] if side == "incoming" else _first(own["due_day"], own["to_day"], own["from_day"])
        return await fetch_all(self._connection, query, {**own, "names": sorted(names), "day": day, "limit": limit})

    async def proposals(self, side: str, transaction_id: UUID, others: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
        """Return ``match_id`` and ``kind`` of the standing proposals that join the transaction with any of the others.

        By the other's id.
        """
        other = _OTHER[side]
        query = f"""
            SELECT l.{other}_id AS id, m.id AS match_id, m.kind FROM leg l JOIN match m ON m.id = l.match_id
            WHERE l.{side}_id = %s AND l.{other}_id = ANY(%s) AND m.status = 'proposed'
        """  # noqa: S608 - our own text
        rows = await fetch_all(self._connection, query, (transaction_id, list(others)))
        return {row["id"]: row for row in rows}


def _first(*days: int | None) -> int | None:
    return next((day for day in days if day is not None), None)
