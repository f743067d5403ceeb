"""Many proposals read at once, as little of each as deciding about it needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple
from uuid import UUID

from psycopg.rows import tuple_row

from payrec.storage.database import Connection

_MATCHES: Final = "SELECT id, status, superseded_by, amount_minor FROM match WHERE id = ANY(%s)"
_ENDS: Final = """
    WITH joined AS (
        SELECT l.* FROM leg l JOIN match m ON m.id = l.match_id
        WHERE l.match_id = ANY(%(ids)s) AND m.status = 'proposed'
    ), ends AS (
        SELECT match_id, 1 AS side, expected_id AS id, settled_minor AS minor, expected_revision AS revision
        FROM joined WHERE expected_id IS NOT NULL
        UNION ALL
        SELECT match_id, 1, contra_expected_id, amount_minor, contra_revision
        FROM joined WHERE contra_expected_id IS NOT NULL
        UNION ALL
        SELECT match_id, 2, incoming_id, amount_minor, incoming_revision FROM joined WHERE incoming_id IS NOT NULL
        UNION ALL
        SELECT match_id, 2, contra_incoming_id, settled_minor, contra_revision
        FROM joined WHERE contra_incoming_id IS NOT NULL
        UNION ALL
        SELECT m.id, CASE a.side WHEN 'expected' THEN 1 ELSE 2 END, a.id, a.minor, NULL
        FROM match m CROSS JOIN LATERAL jsonb_to_recordset(m.adjustments) AS a (side text, id uuid, minor bigint)
        WHERE m.id = ANY(%(ids)s) AND m.status = 'proposed' AND m.adjustments IS NOT NULL
    ), parts AS (
        SELECT match_id, side, id, sum(minor)::bigint AS minor, max(revision) AS revision
        FROM ends GROUP BY match_id, side, id
    )
    SELECT p.match_id, p.side, p.id, p.minor, p.revision, e.revision AS revision_now,
        e.amount_minor - e.settled_before_minor AS whole_minor,
        coalesce(a.amount_minor - a.allocated_minor, e.amount_minor - e.settled_before_minor) AS left_minor,
        coalesce(a.status, 'open') AS status, NULL::date AS booking_on
    FROM parts p JOIN expected_transaction e ON e.id = p.id
    LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = p.id WHERE p.side = 1
    UNION ALL
    SELECT p.match_id, p.side, p.id, p.minor, p.revision, i.revision, i.amount_minor,
        coalesce(a.amount_minor - a.allocated_minor, i.amount_minor),
        CASE WHEN i.pending THEN 'pending' ELSE coalesce(a.status, 'unmatched') END, i.booking_on
    FROM parts p JOIN incoming_transaction i ON i.id = p.id
    LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = p.id WHERE p.side = 2
"""
_CHANGED: Final = """
    SELECT EXISTS (
        SELECT FROM unnest(%s::uuid[], %s::integer[]) AS u (id, revision)
        JOIN expected_transaction t ON t.id = u.id WHERE t.revision <> u.revision
    ) OR EXISTS (
        SELECT FROM unnest(%s::uuid[], %s::integer[]) AS u (id, revision)
        JOIN incoming_transaction t ON t.id = u.id WHERE t.revision <> u.revision OR t.pending
    )
"""


class Candidate(NamedTuple):
    """A match that somebody wants to decide about."""

    id: UUID
    status: str
    superseded_by: UUID | None
    amount_minor: int


class End(NamedTuple):
    """What a proposal takes of one transaction, all legs and adjustments together, and what there is of it."""

    match_id: UUID
    side: int
    id: UUID
    minor: int
    revision: int
    """What the proposal was made for."""
    revision_now: int
    whole_minor: int
    left_minor: int
    status: str
    booking_on: date | None


class MatchBulkStore:
    """Reads what many decisions rest on; nobody else may decide meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def matches(self, match_ids: Sequence[UUID]) -> dict[UUID, Candidate]:
        """Return matches by id; those that there are not are missing."""
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_MATCHES, (list(match_ids),))
            return {row[0]: Candidate(*row) for row in await cursor.fetchall()}

    async def ends(self, match_ids: Sequence[UUID]) -> dict[UUID, list[End]]:
        """Return what each of those that are proposals takes."""
        found: dict[UUID, list[End]] = {}
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_ENDS, {"ids": list(match_ids)})
            for row in await cursor.fetchall():
                found.setdefault(row[0], []).append(End(*row))
        return found

    async def changed(self, ends: Sequence[End]) -> bool:
        """Tell whether one of these transactions is not any more what it was when it was read."""
        columns = [
            values
            for side in (1, 2)
            for values in ([e.id for e in ends if e.side == side], [e.revision_now for e in ends if e.side == side])
        ]
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_CHANGED, columns)
            row = await cursor.fetchone()
        return row is not None and bool(row[0])
