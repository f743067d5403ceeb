"""What else would fit in the place of a match's transactions, for a person who asks about one match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

# An open side is read as a whole where no index has its amounts: one scan of a narrow table for each end.
_NEAR: Final = """
    SELECT o.transaction_id AS id, w.id AS replaces
    FROM unnest(%(ids)s::uuid[], %(minors)s::bigint[]) WITH ORDINALITY w (id, minor, place)
    JOIN {side}_transaction t ON t.id = w.id
    CROSS JOIN LATERAL (
        SELECT o.transaction_id, {days} AS days, o.tie_key FROM {side}_open o
        WHERE o.open_minor = w.minor AND o.currency = t.currency AND o.transaction_id <> ALL(%(beside)s)
            AND o.direction = CASE t.direction WHEN 'credit' THEN 1 ELSE -1 END{which}
        ORDER BY days NULLS LAST, o.tie_key, o.transaction_id LIMIT %(limit)s
    ) o ORDER BY w.place, o.days NULLS LAST, o.tie_key, o.transaction_id
"""
_NEAR_OF: Final = {
    Side.EXPECTED: _NEAR.format(
        side="expected",
        days="abs(coalesce(o.due_day, o.to_day, o.from_day) - (coalesce(t.due_on, t.expected_to_on,"
        " t.expected_from_on) - date '1970-01-01'))",
        which="",
    ),
    Side.INCOMING: _NEAR.format(
        side="incoming",
        days="abs(o.booking_day - (t.booking_on - date '1970-01-01'))",
        which=" AND NOT o.pending AND NOT o.reversal AND NOT o.duplicate",
    ),
}
_MATCH: Final = """
    (SELECT m.id FROM leg l JOIN match m ON m.id = l.match_id
     WHERE (l.{side}_id = t.id OR l.contra_{side}_id = t.id)
         AND m.status IN ('accepted', 'pending_approval', 'proposed')
     ORDER BY m.status, m.id DESC LIMIT 1) AS match_id
"""
_TOLD: Final = f"""
    SELECT 1 AS side, t.id, t.external_id, t.reference, t.counterparty_name, t.amount_minor, t.currency, t.direction,
        coalesce(t.due_on, t.expected_to_on, t.expected_from_on) AS day, coalesce(a.status, 'open') AS status,
        coalesce(a.amount_minor - a.allocated_minor, t.amount_minor - t.settled_before_minor) AS open_minor,
        {_MATCH.format(side="expected")}
    FROM expected_transaction t LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = t.id
    WHERE t.id = ANY(%(expected)s)
    UNION ALL
    SELECT 2, t.id, t.external_id, t.structured_reference, t.counterparty_name, t.amount_minor, t.currency, t.direction,
        t.booking_on, coalesce(a.status, CASE WHEN t.pending THEN 'pending' ELSE 'unmatched' END),
        coalesce(a.amount_minor - a.allocated_minor, t.amount_minor),
        {_MATCH.format(side="incoming")}
    FROM incoming_transaction t LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = t.id
    WHERE t.id = ANY(%(incoming)s)
"""  # noqa: S608 - our own text


class MatchAlternativeStore:
    """Reads what is open beside a match."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def near(
        self, side: Side, ids: Sequence[UUID], minors: Sequence[int], *, beside: Sequence[UUID], limit: int
    ) -> list[dict[str, Any]]:
        """Return open transactions of a side with the amount, currency and direction of one of these, as ``replaces``.

        The nearest in time first, at most ``limit`` for each, and none of ``beside``.
        """
        parameters = {"ids": list(ids), "minors": list(minors), "beside": list(beside), "limit": limit}
        return await fetch_all(self._connection, _NEAR_OF[side], parameters)

    async def told(self, *, expected: Sequence[UUID], incoming: Sequence[UUID]) -> dict[tuple[Side, UUID], Any]:
        """Return what a person is told of transactions, and which match has them now."""
        rows = await fetch_all(self._connection, _TOLD, {"expected": list(expected), "incoming": list(incoming)})
        return {(Side(row["side"]), row["id"]): row for row in rows}
