"""Matches and their legs, one by one; a run writes them as sets in ``payrec.storage.match_runs``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.models.matches import MatchQuery
from payrec.storage.database import Connection
from payrec.storage.filters import Condition, equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import columns_of, fetch_all, fetch_one
from payrec.tables.matches import Match

_COLUMNS: Final = columns_of(Match, "m")
_LEGS: Final = """
    SELECT l.match_id, l.ordinal, l.expected_id, l.incoming_id, l.amount_minor, l.settled_minor, l.settled_currency,
           l.expected_revision, l.incoming_revision,
           e.amount_minor - e.settled_before_minor AS expected_minor, e.currency AS expected_currency,
           e.revision AS expected_revision_now, e.due_on, e.expected_from_on, e.expected_to_on, e.reference,
           e.end_to_end_id AS expected_end_to_end_id, e.counterparty_name AS expected_name,
           e.counterparty_account AS expected_account, e.account AS expected_own_account, e.external_id,
           e.group_key AS expected_group_key, i.group_key AS incoming_group_key,
           coalesce(ea.status, 'open') AS expected_status, coalesce(ea.allocated_minor, 0) AS expected_allocated_minor,
           i.amount_minor AS incoming_minor, i.currency AS incoming_currency, i.revision AS incoming_revision_now,
           i.booking_on, i.remittance, i.structured_reference, i.end_to_end_id AS incoming_end_to_end_id,
           i.counterparty_name AS incoming_name, i.counterparty_account AS incoming_account,
           i.account AS incoming_own_account, i.pending, coalesce(ia.status, 'unmatched') AS incoming_status,
           coalesce(ia.allocated_minor, 0) AS incoming_allocated_minor
    FROM leg l
    LEFT JOIN expected_transaction e ON e.id = l.expected_id
    LEFT JOIN incoming_transaction i ON i.id = l.incoming_id
    LEFT JOIN allocation ea ON ea.side = 1 AND ea.transaction_id = l.expected_id
    LEFT JOIN allocation ia ON ia.side = 2 AND ia.transaction_id = l.incoming_id
    WHERE l.match_id = ANY(%s) ORDER BY l.match_id, l.ordinal
"""
_ACCEPT: Final = """
    WITH decided AS (
        UPDATE match SET status = 'accepted', decided_by = %(actor)s, decided_at = %(at)s, decision_reason = %(reason)s,
            effective_on = %(effective_on)s, updated_at = %(at)s, version = version + 1
        WHERE id = %(id)s AND status = 'proposed' RETURNING id
    )
    UPDATE leg SET valid_from = %(change_id)s FROM decided WHERE match_id = decided.id
"""
_LOCK: Final = """
    SELECT m.id FROM match m WHERE m.status = 'proposed' AND (m.id = %(id)s OR m.id IN (
        SELECT l.match_id FROM leg l LEFT JOIN expected_open o ON o.transaction_id = l.expected_id
        WHERE l.expected_id = ANY(%(expected)s) GROUP BY l.match_id, l.expected_id, o.open_minor
        HAVING sum(l.settled_minor) > coalesce(o.open_minor, 0)
        UNION ALL
        SELECT l.match_id FROM leg l LEFT JOIN incoming_open o ON o.transaction_id = l.incoming_id
        WHERE l.incoming_id = ANY(%(incoming)s) GROUP BY l.match_id, l.incoming_id, o.open_minor
        HAVING sum(l.amount_minor) > coalesce(o.open_minor, 0)
    )) ORDER BY m.id FOR UPDATE
"""
_SUPERSEDE: Final = """
    UPDATE match SET status = 'superseded', superseded_by = %s, updated_at = %s, version = version + 1
    WHERE id = ANY(%s)
"""
_STANDING: Final = """
    SELECT 'expected' AS side, expected_id AS id, sum(settled_minor)::bigint AS minor,
           coalesce(sum(settled_minor) FILTER (WHERE match_id = %(id)s), 0)::bigint AS own_minor
    FROM leg WHERE expected_id = ANY(%(expected)s) AND valid_from IS NOT NULL AND valid_to IS NULL GROUP BY expected_id
    UNION ALL
    SELECT 'incoming', incoming_id, sum(amount_minor)::bigint,
           coalesce(sum(amount_minor) FILTER (WHERE match_id = %(id)s), 0)::bigint
    FROM leg WHERE incoming_id = ANY(%(incoming)s) AND valid_from IS NOT NULL AND valid_to IS NULL GROUP BY incoming_id
"""
_NAMED_ITEMS: Final = """
    SELECT o.transaction_id AS id, o.open_minor, e.created_at
    FROM incoming_open c
    JOIN expected_open o ON o.currency = c.currency AND o.direction = c.direction
    JOIN expected_transaction e ON e.id = o.transaction_id
    WHERE c.transaction_id = %(centre)s AND (CASE WHEN %(by_key)s
        THEN (o.group_key = c.group_key OR o.group_key = ANY(c.reference_keys)) AND o.group_key & 1 = 1
        ELSE (o.reference_key = ANY(c.reference_keys || c.end_to_end_key) AND o.reference_key & 1 = 1)
            OR (o.end_to_end_key = ANY(c.reference_keys || c.end_to_end_key) AND o.end_to_end_key & 1 = 1)
    END) LIMIT %(limit)s
"""
_NAMED_LINES: Final = """
    SELECT o.transaction_id AS id, o.open_minor, i.created_at
    FROM expected_open c
    JOIN incoming_open o ON o.currency = c.currency AND o.direction = c.direction
    JOIN incoming_transaction i ON i.id = o.transaction_id
    WHERE c.transaction_id = %(centre)s AND NOT o.reversal AND NOT o.duplicate AND (
        (c.reference_key = ANY(o.reference_keys || o.end_to_end_key) AND c.reference_key & 1 = 1)
        OR (c.end_to_end_key = ANY(o.reference_keys || o.end_to_end_key) AND c.end_to_end_key & 1 = 1)
    ) LIMIT %(limit)s
"""


def conditions(query: MatchQuery) -> list[Condition]:
    """Return the conditions of the query's filters."""
    found = equalities(
        query, {"status": "m.status", "kind": "m.kind", "confidence": "m.confidence", "run_id": "m.run_id"}
    )
    found += ranges(query, {"created_from": "m.created_at >=", "created_to": "m.created_at <="})
    for name, column in (("expected_transaction_id", "expected_id"), ("incoming_transaction_id", "incoming_id")):
        value = getattr(query, name)
        if value is not None:
            leg = f"m.id IN (SELECT match_id FROM leg WHERE {column} = %({name})s)"  # noqa: S608 - our own text
            found.append((leg, {name: value}))
    return found


class MatchStore:
    """``match`` and ``leg``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, match_id: UUID) -> dict[str, Any] | None:
        """Return a match with its legs and what they join."""
        query = sql.SQL("SELECT {} FROM match m WHERE m.id = %s").format(sql.SQL(_COLUMNS))
        row = await fetch_one(self._connection, query, (match_id,))
        if row is None:
            return None
        row["legs"] = await self.legs([match_id])
        return row

    async def page(self, page: PageRequest, query: MatchQuery) -> tuple[list[dict[str, Any]], bool]:
        """Return a page of matches with their legs."""
        selection = Selection(columns=_COLUMNS, source="match m", id_column="m.id")
        for condition, parameters in conditions(query):
            selection.where(condition, **parameters)
        rows, more = await select_page(self._connection, selection, page)
        legs: dict[UUID, list[dict[str, Any]]] = {row["id"]: [] for row in rows}
        for leg in await self.legs(list(legs)):
            legs[leg["match_id"]].append(leg)
        return [{**row, "legs": legs[row["id"]]} for row in rows], more

    async def legs(self, match_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return the legs of matches, each with both of its transactions and their state."""
        return await fetch_all(self._connection, _LEGS, (list(match_ids),))

    async def accept(
        self,
        match_id: UUID,
        *,
        change_id: UUID,
        actor: str,
        at: datetime,
        reason: str | None,
        effective_on: date | None,
    ) -> bool:
        """Mark a proposal as accepted; its legs count from this change on. Return whether it still was one."""
        cursor = await self._connection.execute(
            _ACCEPT,
            {
                "id": match_id,
                "change_id": change_id,
                "actor": actor,
                "at": at,
                "reason": reason,
                "effective_on": effective_on,
            },
        )
        return cursor.rowcount > 0

    async def lock_with_rivals(
        self, match_id: UUID, *, expected: Sequence[UUID], incoming: Sequence[UUID]
    ) -> list[UUID]:
        """Lock a proposal and those for which nothing is left on one of their sides, in one order for everybody.

        Called when the amounts are allocated. A match that is no proposal any more is not among the ids returned.
        """
        parameters = {"id": match_id, "expected": list(expected), "incoming": list(incoming)}
        return [row["id"] for row in await fetch_all(self._connection, _LOCK, parameters)]

    async def supersede(self, match_ids: Sequence[UUID], *, by: UUID, at: datetime) -> None:
        """Supersede proposals that were locked before, by the match that has taken their amounts."""
        await self._connection.execute(_SUPERSEDE, (by, at, list(match_ids)))

    async def standing(
        self, match_id: UUID, *, expected: Sequence[UUID], incoming: Sequence[UUID]
    ) -> list[dict[str, Any]]:
        """Return what counts of transactions: ``side, id, minor`` of all matches, ``own_minor`` of this one."""
        parameters = {"id": match_id, "expected": list(expected), "incoming": list(incoming)}
        return await fetch_all(self._connection, _STANDING, parameters)

    async def named_items(self, line_id: UUID, *, by_key: bool, limit: int) -> list[dict[str, Any]]:
        """Return the open items that an open line names: ``by_key`` those of its group id, else what it quotes in full.

        As ``id, open_minor, created_at``, at most ``limit``.
        """
        parameters = {"centre": line_id, "by_key": by_key, "limit": limit}
        return await fetch_all(self._connection, _NAMED_ITEMS, parameters)

    async def named_lines(self, expected_id: UUID, *, limit: int) -> list[dict[str, Any]]:
        """Return the open lines that quote an open item in full, as ``named_items`` does."""
        return await fetch_all(self._connection, _NAMED_LINES, {"centre": expected_id, "limit": limit})
