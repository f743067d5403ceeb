"""What imported decisions have to teach: what was open before them, and what matching would have made of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.rows import array_text, fetch_all, fetch_one

STATED_AT_ONCE: Final = 5_000
"""Transactions that are read together, so that others are heard meanwhile."""

_WAITING: Final = """
    SELECT p.match_id, m.kind, m.status, m.adjustments, l.expected_id, l.incoming_id, l.settled_minor, l.amount_minor
    FROM (
        SELECT w.match_id FROM imported_match w JOIN match d ON d.id = w.match_id
        WHERE w.import_id = %(import_id)s AND w.reviewed AND w.learned_change_id IS NULL
        ORDER BY d.decided_at DESC, w.match_id DESC LIMIT %(limit)s
    ) p JOIN match m ON m.id = p.match_id JOIN leg l ON l.match_id = p.match_id
    ORDER BY m.decided_at DESC, p.match_id DESC, l.ordinal LIMIT %(legs)s
"""
_IS_WAITING: Final = """
    SELECT EXISTS (
        SELECT FROM imported_match WHERE import_id = %s AND reviewed AND learned_change_id IS NULL
    ) AS found
"""
_STATED: Final = {
    Side.EXPECTED: """
        SELECT t.*, coalesce(a.status, 'open') AS status,
            coalesce(a.amount_minor - a.allocated_minor, t.amount_minor - t.settled_before_minor) AS left_minor
        FROM expected_transaction t LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = t.id
        WHERE t.id = ANY(%s::uuid[])
    """,
    Side.INCOMING: """
        SELECT t.*, coalesce(a.status, 'unmatched') AS status,
            coalesce(a.amount_minor - a.allocated_minor, t.amount_minor) AS left_minor
        FROM incoming_transaction t LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = t.id
        WHERE t.id = ANY(%s::uuid[])
    """,
}
# Once for each pair: what was said of it first stays.
_KEEP: Final = """
    INSERT INTO imported_match_lesson
        (expected_id, incoming_id, match_id, change_id, rival_milli, agrees, levels, uniqueness)
    SELECT expected_id, incoming_id, match_id, %(change_id)s, rival_milli, agrees, levels::smallint[], uniqueness
    FROM unnest(%(expected_ids)s::uuid[], %(incoming_ids)s::uuid[], %(match_ids)s::uuid[], %(rivals)s::bigint[],
        %(agrees)s::boolean[], %(levels)s::text[], %(uniquenesses)s::text[])
        AS t (expected_id, incoming_id, match_id, rival_milli, agrees, levels, uniqueness)
    ORDER BY expected_id, incoming_id ON CONFLICT DO NOTHING
"""
_LEARNED: Final = """
    UPDATE imported_match SET learned_change_id = %s WHERE import_id = %s AND reviewed AND learned_change_id IS NULL
"""


class MatchImportLessonStore:
    """``imported_match_lesson``, and which of ``imported_match`` were looked at."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def is_waiting(self, import_id: UUID) -> bool:
        """Tell whether a file had reviewed decisions of which nobody has learned."""
        row = await fetch_one(self._connection, _IS_WAITING, (import_id,))
        return row is not None and row["found"]

    async def waiting(self, import_id: UUID, *, limit: int, legs: int) -> list[dict[str, Any]]:
        """Return the legs of those decisions, the newest so many, with their matches; no more than so many ``legs``."""
        return await fetch_all(self._connection, _WAITING, {"import_id": import_id, "limit": limit, "legs": legs})

    async def stated(self, side: Side, ids: Sequence[UUID]) -> AsyncIterator[list[dict[str, Any]]]:
        """Return what transactions state, with their ``status`` and what is left of them now, in pieces."""
        for place in range(0, len(ids), STATED_AT_ONCE):
            parameters = (array_text(ids[place : place + STATED_AT_ONCE]),)
            yield await fetch_all(self._connection, _STATED[side], parameters)

    async def keep(self, lessons: Sequence[Mapping[str, Any]], import_id: UUID, *, change_id: UUID) -> None:
        """Keep lessons, and that this file was learned of."""
        parameters: dict[str, Any] = {
            "expected_ids": array_text(lesson["expected_id"] for lesson in lessons),
            "incoming_ids": array_text(lesson["incoming_id"] for lesson in lessons),
            "match_ids": array_text(lesson["match_id"] for lesson in lessons),
            "rivals": [lesson["rival_milli"] for lesson in lessons],
            "agrees": [lesson["agrees"] for lesson in lessons],
            "levels": [array_text(lesson["levels"]) for lesson in lessons],
            "uniquenesses": [lesson["uniqueness"] for lesson in lessons],
            "change_id": change_id,
        }
        await self._connection.execute(_KEEP, parameters)
        await self._connection.execute(_LEARNED, (change_id, import_id))
