"""What matches have said of names on statements, and what follows of it for the aliases.

An alias is what its lessons say: this is the only place that writes either. A lesson that is taken back stays, with the
change that took it back, so that what was known at an instant can be told later (``AliasStore.active``). Everybody
locks the aliases in the order of their keys, before their lessons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import array_text, copy_out, fetch_all, fetch_one

LESSON_COLUMNS: Final = [
    "match_id",
    "status",
    "levels",
    "by_hand",
    "decided_at",
    "decided_by",
    "statement_name",
    "counterparty_name",
]
"""Columns of the decisions that may say something of a name, in the order of the CSV; instants in microseconds."""

# What has been looked at and says the same is left out. Who acts for another one means somebody else each time.
_TOLD: Final = """
    COPY (
        SELECT m.id, m.status, array_to_string(m.levels, ' '), m.by_hand,
            (extract(epoch FROM m.decided_at) * 1000000)::bigint, m.decided_by,
            CASE WHEN lower(i.ultimate_counterparty_name) = lower(i.counterparty_name)
                OR i.ultimate_counterparty_name IS NULL THEN i.counterparty_name END,
            e.counterparty_name
        FROM (
            SELECT id, status, levels, left(created_by, 7) <> 'engine:' AS by_hand, decided_at, decided_by FROM match
            WHERE {which} AND kind = 'one_to_one' AND status IN ('accepted', 'rejected', 'reversed')
            ORDER BY decided_at, id LIMIT %(limit)s
        ) m
        LEFT JOIN alias_lesson s ON s.match_id = m.id
        JOIN leg l ON l.match_id = m.id
        JOIN expected_transaction e ON e.id = l.expected_id
        JOIN incoming_transaction i ON i.id = l.incoming_id
        WHERE CASE m.status
            WHEN 'accepted' THEN s.match_id IS NULL
            WHEN 'reversed' THEN s.match_id IS NOT NULL AND s.taken_back_change_id IS NULL
            ELSE s.match_id IS NULL AND NOT EXISTS (SELECT FROM rejection_forgotten f WHERE f.match_id = m.id)
        END
        ORDER BY m.decided_at, m.id
    ) TO STDOUT (FORMAT CSV)
"""
# An imported match was decided long before it came here, so it is learned of by itself; to reverse it is decided here.
_HERE: Final = """
    left(decided_by, 7) <> 'engine:' AND decided_at >= coalesce({since}, '-infinity')
        AND (created_by <> 'import' OR status = 'reversed')
"""
_READ: Final = _TOLD.format(which=_HERE.format(since="%(since)s::timestamptz"))
_READ_IMPORTED: Final = _TOLD.format(which="id = ANY(%(ids)s::uuid[])")
_SINCE: Final = "(SELECT decided_through FROM learning_mark)"
_COUNT: Final = f"""
    SELECT {_SINCE} AS since, count(*) AS count, max(decided_at) AS last FROM (
        SELECT decided_at FROM match
        WHERE {_HERE.format(since=_SINCE)} AND kind = 'one_to_one' AND status IN ('accepted', 'rejected', 'reversed')
        ORDER BY decided_at, id LIMIT %(limit)s
    ) m
"""  # noqa: S608 - our own text
_MARK: Final = """
    INSERT INTO learning_mark AS l (decided_through) VALUES (%s)
    ON CONFLICT (id) DO UPDATE SET decided_through = greatest(l.decided_through, EXCLUDED.decided_through)
"""
_ACCEPTED: Final = """
    SELECT u.place, m.id, m.decided_at, m.decided_by
    FROM unnest(%(expected)s::uuid[], %(incoming)s::uuid[]) WITH ORDINALITY AS u (expected_id, incoming_id, place)
    JOIN leg l ON l.expected_id = u.expected_id AND l.incoming_id = u.incoming_id
    JOIN match m ON m.id = l.match_id
    WHERE m.status = 'accepted' AND m.kind = 'one_to_one'
"""
_NAME: Final = """
    INSERT INTO alias (id, statement_key, counterparty_key, created_at, updated_at, confirmations, status,
        statement_name, counterparty_name, change_id)
    SELECT DISTINCT ON (statement_key) id, statement_key, counterparty_key, %(at)s, %(at)s, 0, 'unlearned',
        statement_name, counterparty_name, %(change_id)s
    FROM unnest(%(ids)s::uuid[], %(statement_keys)s::bigint[], %(counterparty_keys)s::bigint[],
        %(statement_names)s::text[], %(counterparty_names)s::text[], %(agrees)s::boolean[])
        WITH ORDINALITY AS g (id, statement_key, counterparty_key, statement_name, counterparty_name, agrees, place)
    WHERE agrees AND (SELECT count(*) FROM alias) < %(names_max)s
    ORDER BY statement_key, place
    ON CONFLICT (statement_key) DO NOTHING
"""
_LOCK_NAMES: Final = """
    SELECT id FROM alias WHERE statement_key = ANY(%s) AND status <> 'forgotten' ORDER BY statement_key FOR UPDATE
"""
_LOCK_TAUGHT: Final = """
    SELECT id FROM alias WHERE status <> 'forgotten' AND id IN (
        SELECT alias_id FROM alias_lesson WHERE match_id = ANY(%s) AND taken_back_change_id IS NULL
    ) ORDER BY statement_key FOR UPDATE
"""
# Beyond what is kept of a name nothing is added: it would change nothing that anybody sees.
_LEARN: Final = """
    INSERT INTO alias_lesson (match_id, alias_id, counterparty_key, taught_at, change_id, agrees, taught_by,
        counterparty_name)
    SELECT g.match_id, a.id, g.counterparty_key, g.taught_at, %(change_id)s, g.agrees, g.taught_by, g.counterparty_name
    FROM unnest(%(statement_keys)s::bigint[], %(counterparty_keys)s::bigint[], %(match_ids)s::uuid[],
        %(instants)s::timestamptz[], %(agrees)s::boolean[], %(actors)s::text[], %(counterparty_names)s::text[])
        AS g (statement_key, counterparty_key, match_id, taught_at, agrees, taught_by, counterparty_name)
    JOIN alias a USING (statement_key)
    WHERE a.status <> 'forgotten' AND CASE
        WHEN NOT g.agrees THEN g.counterparty_key = a.counterparty_key AND a.rejections < %(lessons_max)s
        WHEN g.counterparty_key = a.counterparty_key THEN a.confirmations < %(lessons_max)s
        ELSE a.disagreements < %(lessons_max)s
    END
    ORDER BY g.match_id
    ON CONFLICT (match_id) DO NOTHING
"""
_TAKE_BACK: Final = """
    UPDATE alias_lesson SET taken_back_change_id = %s WHERE match_id = ANY(%s) AND taken_back_change_id IS NULL
"""
_SETTLE: Final = """
    WITH said AS (
        SELECT alias_id, counterparty_key, min(counterparty_name) AS counterparty_name,
            sum(confirmations)::integer AS confirmations, sum(rejections)::integer AS rejections
        FROM (
            SELECT alias_id, counterparty_key, counterparty_name, agrees::integer AS confirmations,
                (NOT agrees)::integer AS rejections
            FROM alias_lesson WHERE alias_id = ANY(%(ids)s) AND taken_back_change_id IS NULL
            UNION ALL
            SELECT id, counterparty_key, counterparty_name, earlier, 0 FROM alias WHERE id = ANY(%(ids)s)
        ) s GROUP BY alias_id, counterparty_key
    ), meant AS (
        SELECT DISTINCT ON (s.alias_id) s.*,
            (sum(s.confirmations) OVER (PARTITION BY s.alias_id) - s.confirmations)::integer AS disagreements
        FROM said s JOIN alias a ON a.id = s.alias_id
        ORDER BY s.alias_id, s.confirmations > 0 DESC, s.counterparty_key = a.counterparty_key DESC,
            s.confirmations DESC, s.counterparty_name
    ), settled AS (
        SELECT *, CASE WHEN confirmations = 0 THEN 'unlearned'
            WHEN disagreements > 0 OR rejections >= confirmations THEN 'contradicted' ELSE 'active' END AS status
        FROM meant
    )
    UPDATE alias a SET counterparty_key = s.counterparty_key, counterparty_name = s.counterparty_name,
        confirmations = s.confirmations, disagreements = s.disagreements, rejections = s.rejections,
        status = s.status, change_id = %(change_id)s, updated_at = %(at)s, version = a.version + 1
    FROM settled s
    WHERE a.id = s.alias_id AND a.status <> 'forgotten'
        AND (a.counterparty_key, a.confirmations, a.disagreements, a.rejections, a.status)
            <> (s.counterparty_key, s.confirmations, s.disagreements, s.rejections, s.status)
    RETURNING a.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one match says of one name."""

    alias_id: UUID
    """Of the alias, where there is none of the name yet."""
    match_id: UUID
    statement_key: int
    counterparty_key: int
    statement_name: str
    counterparty_name: str
    agrees: bool
    """The match was accepted, not rejected."""
    taught_at: datetime
    taught_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How many decisions there are to be looked at, no more than were asked for, and when the last was made."""

    since: datetime | None
    """From when on; None for all."""
    count: int
    last: datetime | None


class AliasLessonStore:
    """``alias_lesson`` and ``learning_mark`` of one tenant environment, and what they make of ``alias``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def move_mark(self, to: datetime) -> None:
        """Look only at later decisions from now on."""
        await self._connection.execute(_MARK, (to,))

    async def decided(self, *, limit: int) -> Decided:
        """Count the first decisions of persons from the mark on, on matches of one item and one line."""
        row = await fetch_one(self._connection, _COUNT, {"limit": limit}) or {}
        return Decided(since=row.get("since"), count=row.get("count", 0), last=row.get("last"))

    async def read(self, *, since: datetime | None, limit: int) -> bytes:
        """Return of the decisions that ``decided`` counts those that teach something new, as CSV without header.

        In the order of LESSON_COLUMNS.
        """
        return await copy_out(self._connection, _READ, {"since": since, "limit": limit})

    async def read_imported(self, match_ids: Sequence[UUID]) -> bytes:
        """Return the same of imported matches that there are."""
        return await copy_out(self._connection, _READ_IMPORTED, {"ids": array_text(match_ids), "limit": len(match_ids)})

    async def accepted(self, *, expected: Sequence[str], incoming: Sequence[str]) -> list[dict[str, Any]]:
        """Return the accepted matches of one item and one line, named by both in turn.

        As ``place`` (from 1), ``id, decided_at, decided_by``; a pair without one is left out.
        """
        parameters = {"expected": list(expected), "incoming": list(incoming)}
        return await fetch_all(self._connection, _ACCEPTED, parameters)

    async def teach(
        self, lessons: Sequence[Lesson], *, change_id: UUID, at: datetime, names_max: int, lessons_max: int
    ) -> int:
        """Keep lessons, and settle what the aliases mean; return how many of these have changed.

        A name gets no alias beyond ``names_max`` of them. Once it has ``lessons_max`` of a kind, no more are kept. A
        rejection counts where the name has an alias that means the rejected counterparty.
        """
        parameters = {
            "ids": [lesson.alias_id for lesson in lessons],
            "match_ids": [lesson.match_id for lesson in lessons],
            "statement_keys": [lesson.statement_key for lesson in lessons],
            "counterparty_keys": [lesson.counterparty_key for lesson in lessons],
            "statement_names": [lesson.statement_name for lesson in lessons],
            "counterparty_names": [lesson.counterparty_name for lesson in lessons],
            "agrees": [lesson.agrees for lesson in lessons],
            "instants": [lesson.taught_at for lesson in lessons],
            "actors": [lesson.taught_by for lesson in lessons],
            "change_id": change_id,
            "at": at,
            "names_max": names_max,
            "lessons_max": lessons_max,
        }
        await self._connection.execute(_NAME, parameters)
        found = await fetch_all(self._connection, _LOCK_NAMES, (parameters["statement_keys"],))
        await self._connection.execute(_LEARN, parameters)
        return await self._settle((row["id"] for row in found), change_id=change_id, at=at)

    async def take_back(self, match_ids: Sequence[UUID], *, change_id: UUID, at: datetime) -> int:
        """Take back what matches have taught; return how many aliases have changed."""
        ids = list(match_ids)
        found = await fetch_all(self._connection, _LOCK_TAUGHT, (ids,))
        await self._connection.execute(_TAKE_BACK, (change_id, ids))
        return await self._settle((row["id"] for row in found), change_id=change_id, at=at)

    async def _settle(self, alias_ids: Iterable[UUID], *, change_id: UUID, at: datetime) -> int:
        parameters = {"ids": list(alias_ids), "change_id": change_id, "at": at}
        return len(await fetch_all(self._connection, _SETTLE, parameters)) if parameters["ids"] else 0
