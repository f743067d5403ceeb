"""What a matching run writes, as sets: proposals, what is accepted at once, and why the rest stays open.

Everybody who decides locks in one order: allocations, then open rows, then matches, each by side and id. So a run and
the people who accept at the same time wait for each other, but never in a circle; and a proposal is only written while
its run holds all of its open rows, so that whoever takes one of them afterwards sees the proposal and supersedes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.errors import AlreadyMatchedError
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

EVENT_IDS_MAX: Final = 1_000
"""Ids in one event row of a bulk change."""

ANALYZED_ROWS_MIN: Final = 1_000
"""New rows beyond which the statistics of the matches are brought up to date."""

PROPOSED_ORDINAL: Final = 1_000_000
"""Where the event rows of new matches begin among those of their change."""

SUPERSEDED_ORDINAL: Final = 2_000_000
"""Where those of superseded ones begin."""

_CONFLICTS: Final = """
    WITH changed AS (
        SELECT DISTINCT s.match_id FROM staged_leg s WHERE NOT EXISTS (
            SELECT 1 FROM {open} o WHERE o.transaction_id = s.{side}_id
            AND o.open_minor = s.{side}_open_minor AND o.revision = s.{side}_revision
        )
    ), legs AS (
        DELETE FROM staged_leg s USING changed c WHERE s.match_id = c.match_id
    ), gone AS (
        DELETE FROM staged_match s USING changed c WHERE s.id = c.match_id RETURNING s.auto
    )
    SELECT count(*) AS dropped, count(*) FILTER (WHERE auto) AS auto FROM gone
"""
_INDEX: Final = (
    b"CREATE INDEX ON staged_leg (expected_id); CREATE INDEX ON staged_leg (incoming_id);"
    b" CREATE INDEX ON staged_leg (match_id)"
)
_KEEP: Final = """
    WITH same AS (
        SELECT DISTINCT ON (x.id) x.id, m.id AS match_id, m.uniqueness FROM (
            SELECT s.match_id AS id, l.match_id, sum(l.amount_minor) AS minor FROM staged_leg s
            JOIN leg l ON l.expected_id = s.expected_id AND l.incoming_id = s.incoming_id
                AND l.amount_minor = s.amount_minor AND l.expected_revision = s.expected_revision
                AND l.incoming_revision = s.incoming_revision
            WHERE NOT s.auto GROUP BY s.match_id, l.match_id
        ) x JOIN staged_match s ON s.id = x.id JOIN match m ON m.id = x.match_id
        -- Amounts are positive: where those of the common legs sum to both matches, there are no other legs.
        WHERE m.status = 'proposed' AND m.amount_minor = x.minor AND s.amount_minor = x.minor
            AND m.kind = s.kind AND m.score = s.score AND m.levels = s.levels AND m.uniqueness = s.uniqueness
            AND m.confidence = s.confidence AND m.candidates = s.candidates
            AND m.alternatives IS NOT DISTINCT FROM s.alternatives AND m.proof IS NOT DISTINCT FROM s.proof
        ORDER BY x.id, m.id
    ), written AS (
        INSERT INTO kept_match SELECT match_id, uniqueness FROM same
    ), legs AS (
        DELETE FROM staged_leg s USING same WHERE s.match_id = same.id
    )
    DELETE FROM staged_match s USING same WHERE s.id = same.id
"""
# Each transaction once, in the order in which everybody locks. What an untouched one has in all is what is open of it.
_TAKEN: Final = """
    CREATE TEMPORARY TABLE taken_{side} ON COMMIT DROP AS
    SELECT {side}_id AS id, sum(amount_minor)::bigint AS minor, min({side}_open_minor) AS open_minor
    FROM staged_leg WHERE auto GROUP BY 1 ORDER BY 1
"""
_ALLOCATE: Final = """
    INSERT INTO allocation AS a (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at)
    SELECT {number}, id, open_minor, minor,
        CASE WHEN minor = open_minor THEN 'matched' ELSE 'partially_matched' END, 2, %(at)s
    FROM taken_{side} ORDER BY id
    ON CONFLICT (transaction_id, side) DO UPDATE SET
        allocated_minor = a.allocated_minor + EXCLUDED.allocated_minor,
        status = CASE WHEN a.allocated_minor + EXCLUDED.allocated_minor = a.amount_minor
                      THEN 'matched' ELSE 'partially_matched' END,
        version = a.version + 1, reason_code = NULL, updated_at = EXCLUDED.updated_at
"""
_HOLD: Final = """
    SELECT count(*) AS held FROM (
        SELECT 1 FROM staged_leg s JOIN {open} o ON o.transaction_id = s.{side}_id
            AND o.open_minor = s.{side}_open_minor AND o.revision = s.{side}_revision
        ORDER BY o.transaction_id FOR SHARE OF o
    ) h
"""
# The rows are held, so they are what was read.
_CLOSE: Final = """
    DELETE FROM {open} o USING taken_{side} t WHERE o.transaction_id = t.id AND t.open_minor = t.minor
"""
_REDUCE: Final = """
    UPDATE {open} o SET open_minor = o.open_minor - t.minor, reason = NULL
    FROM taken_{side} t WHERE o.transaction_id = t.id AND t.open_minor > t.minor
"""
_REASONS: Final = """
    WITH changed AS (
        SELECT o.transaction_id, s.reason FROM {open} o
        LEFT JOIN staged_reason s ON s.side = {number} AND s.transaction_id = o.transaction_id
        WHERE o.reason IS DISTINCT FROM s.reason{within}
        FOR NO KEY UPDATE OF o SKIP LOCKED
    )
    UPDATE {open} o SET reason = c.reason FROM changed c WHERE o.transaction_id = c.transaction_id
"""
_WITHIN: Final = """
    AND o.transaction_id IN (SELECT transaction_id FROM looked_at WHERE side = {number})
    AND NOT EXISTS (
        SELECT 1 FROM leg l JOIN match m ON m.id = l.match_id AND m.status = 'proposed'
        WHERE l.{side}_id = o.transaction_id AND NOT {looked_at}
    )
"""
_SUPERSEDE: Final = """
    WITH rival AS (
        SELECT DISTINCT ON (r.match_id) r.match_id, r.winner FROM (
            SELECT l.match_id, s.winner FROM (
                SELECT DISTINCT ON (expected_id) expected_id, match_id AS winner FROM staged_leg WHERE auto
                ORDER BY expected_id, match_id
            ) s JOIN leg l ON l.expected_id = s.expected_id
            LEFT JOIN expected_open o ON o.transaction_id = s.expected_id
            GROUP BY l.match_id, s.winner, s.expected_id, o.open_minor
            HAVING sum(l.settled_minor) > coalesce(o.open_minor, 0)
            UNION ALL
            SELECT l.match_id, s.winner FROM (
                SELECT DISTINCT ON (incoming_id) incoming_id, match_id AS winner FROM staged_leg WHERE auto
                ORDER BY incoming_id, match_id
            ) s JOIN leg l ON l.incoming_id = s.incoming_id
            LEFT JOIN incoming_open o ON o.transaction_id = s.incoming_id
            GROUP BY l.match_id, s.winner, s.incoming_id, o.open_minor
            HAVING sum(l.amount_minor) > coalesce(o.open_minor, 0)
        ) r ORDER BY r.match_id, r.winner
    ), gone AS (
        SELECT m.id, r.winner FROM match m LEFT JOIN rival r ON r.match_id = m.id
        WHERE m.status = 'proposed' AND (r.winner IS NOT NULL OR (
            NOT EXISTS (SELECT 1 FROM kept_match k WHERE k.id = m.id) AND {within}
        ))
        ORDER BY m.id FOR UPDATE OF m
    ), done AS (
        UPDATE match m SET status = 'superseded', superseded_by = gone.winner, updated_at = %(at)s,
            version = m.version + 1
        FROM gone WHERE m.id = gone.id RETURNING m.id
    ), announced AS (
        INSERT INTO outbox (change_id, ordinal, type, resource_ids)
        SELECT %(change_id)s, %(ordinal)s + chunk, 'match.superseded', array_agg(id ORDER BY id)
        FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / %(ids_max)s AS chunk FROM done) n GROUP BY chunk
    )
    SELECT count(*) AS count FROM done
"""
_LOOKED_AT: Final = """NOT EXISTS (
    SELECT 1 FROM leg x WHERE x.match_id = m.id AND NOT (
        EXISTS (SELECT 1 FROM looked_at e WHERE e.side = 1 AND e.transaction_id = x.expected_id)
        AND EXISTS (SELECT 1 FROM looked_at i WHERE i.side = 2 AND i.transaction_id = x.incoming_id)
    )
)"""
_INSERT: Final = """
    WITH matched AS (
        INSERT INTO match (id, run_id, amount_minor, created_at, updated_at, score, candidates, status, kind,
            confidence, uniqueness, currency, created_by, decided_by, decided_at, effective_on, levels, alternatives,
            proof)
        SELECT id, %(run_id)s, amount_minor, %(at)s, %(at)s, score, candidates,
            CASE WHEN auto THEN 'accepted' ELSE 'proposed' END, kind, confidence, uniqueness, currency,
            %(actor)s, CASE WHEN auto THEN %(actor)s END, CASE WHEN auto THEN %(at)s END,
            CASE WHEN auto THEN effective_on END, levels, alternatives, proof
        FROM staged_match
    ), announced AS (
        INSERT INTO outbox (change_id, ordinal, type, resource_ids)
        SELECT %(change_id)s, %(ordinal)s + row_number() OVER (ORDER BY auto, chunk),
            CASE WHEN auto THEN 'match.accepted' ELSE 'match.proposed' END, ids
        FROM (
            SELECT auto, chunk, array_agg(id ORDER BY id) AS ids FROM (
                SELECT id, auto, (row_number() OVER (PARTITION BY auto ORDER BY id) - 1) / %(ids_max)s AS chunk
                FROM staged_match
            ) n GROUP BY auto, chunk
        ) chunks
    )
    INSERT INTO leg (match_id, ordinal, expected_id, incoming_id, valid_from, amount_minor, settled_minor,
        expected_revision, incoming_revision, settled_currency)
    SELECT match_id, ordinal, expected_id, incoming_id, CASE WHEN auto THEN %(change_id)s::uuid END, amount_minor,
        amount_minor, expected_revision, incoming_revision, currency
    FROM staged_leg
"""
_COUNTS: Final = """
    SELECT confidence, count(*) AS count, count(*) FILTER (WHERE auto) AS auto,
        count(*) FILTER (WHERE uniqueness = 'ambiguous') AS ambiguous
    FROM staged_match GROUP BY confidence
"""
_KEPT: Final = """
    SELECT count(*) AS count, count(*) FILTER (WHERE uniqueness = 'ambiguous') AS ambiguous FROM kept_match
"""
_SIDES: Final = (
    {"number": 1, "side": "expected", "open": "expected_open"},
    {"number": 2, "side": "incoming", "open": "incoming_open"},
)


@dataclass(slots=True)
class Written:
    """What the commit of a run did."""

    conflicts: int = 0
    """Proposals that were dropped because their transactions had changed since they were read."""
    kept: int = 0
    """Proposals that were there already, just the same."""
    superseded: int = 0
    proposed: int = 0
    """New, accepted at once, and kept."""
    auto_accepted: int = 0
    ambiguous: int = 0
    by_confidence: dict[str, int] = field(default_factory=dict)
    """New ones, accepted at once or not."""


class MatchProposalStore:
    """Writes what ``MatchRunStore.stage`` has staged, in the same transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(self, *, run_id: UUID, change_id: UUID, actor: str, at: datetime, filtered: bool) -> Written:
        """Write the staged proposals: keep equal ones, supersede the others, allocate what is accepted at once.

        A ``filtered`` run did not look at everything: proposals and reasons of others stay as they are, unless
        something that it accepts takes their amounts.

        Raises
        ------
        AlreadyMatchedError
            Somebody was faster with something that would be accepted at once: propose again.
        """
        written = Written()
        parameters = {
            "run_id": run_id,
            "change_id": change_id,
            "actor": actor,
            "at": at,
            "ordinal": PROPOSED_ORDINAL,
            "ids_max": EVENT_IDS_MAX,
        }
        await self._connection.execute(b"CREATE TEMPORARY TABLE kept_match (id uuid, uniqueness text) ON COMMIT DROP")
        written.conflicts, _ = await self._drop_conflicts()
        proposed_before = await fetch_one(
            self._connection, "SELECT EXISTS (SELECT 1 FROM match WHERE status = 'proposed') AS found"
        )
        any_proposed = proposed_before is not None and proposed_before["found"]
        if any_proposed:
            await self._connection.execute(_INDEX, prepare=False)
            await self._connection.execute(_KEEP)
            await self._connection.execute(
                b"ANALYZE staged_match (id, auto), staged_leg (match_id, expected_id, incoming_id, auto), kept_match",
                prepare=False,
            )
        staged, legs, auto = await self._staged()
        if auto:
            await self.allocate(at=at)
        if legs:
            await self._hold(legs, written)
        for side in _SIDES:
            if auto:
                await self._execute(_CLOSE, side)
                await self._execute(_REDUCE, side)
            within = _WITHIN.format(**side, looked_at=_LOOKED_AT) if filtered else ""
            await self._execute(_REASONS, {**side, "within": within})
        if any_proposed:
            query = _SUPERSEDE.format(within=_LOOKED_AT if filtered else "true")
            row = await fetch_one(self._connection, query, {**parameters, "ordinal": SUPERSEDED_ORDINAL})
            written.superseded = row["count"] if row is not None else 0
        await self._connection.execute(_INSERT, parameters)
        await self._count(written)
        if max(staged, written.superseded) > ANALYZED_ROWS_MIN:
            # The next run may come before autovacuum does, and would be planned for the tables as they were.
            await self._connection.execute(
                b"ANALYZE match (id, status), leg (match_id, expected_id, incoming_id)", prepare=False
            )
        return written

    async def allocate(self, *, at: datetime) -> None:
        """Allocate what is accepted at once: the first locks that a run takes, as everybody does.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``.
        """
        for side in _SIDES:
            await self._execute(_TAKEN, side)
            await self._execute(_ALLOCATE, side, at=at)

    async def _drop_conflicts(self) -> tuple[int, int]:
        dropped = auto = 0
        for side in _SIDES:
            row = await fetch_one(self._connection, _CONFLICTS.format(**side)) or {}
            dropped += row["dropped"]
            auto += row["auto"]
        return dropped, auto

    async def _staged(self) -> tuple[int, int, int]:
        """Return how many proposals are staged, their legs, and how many are accepted at once."""
        query = """
            SELECT count(*) AS staged, count(*) FILTER (WHERE auto) AS auto,
                (SELECT count(*) FROM staged_leg) AS legs
            FROM staged_match
        """
        row = await fetch_one(self._connection, query) or {}
        return row["staged"], row["legs"], row["auto"]

    async def _hold(self, legs: int, written: Written) -> None:
        """Hold the open rows of what is staged until the commit; drop what changed before they were held."""
        held = []
        for side in _SIDES:
            row = await fetch_one(self._connection, _HOLD.format(**side)) or {}
            held.append(row["held"])
        if any(count < legs for count in held):
            dropped, auto = await self._drop_conflicts()
            if auto:
                raise AlreadyMatchedError("what the run would have accepted was taken meanwhile")
            written.conflicts += dropped

    async def _count(self, written: Written) -> None:
        for row in await fetch_all(self._connection, _COUNTS):
            written.by_confidence[row["confidence"]] = row["count"]
            written.proposed += row["count"]
            written.auto_accepted += row["auto"]
            written.ambiguous += row["ambiguous"]
        kept = await fetch_one(self._connection, _KEPT) or {}
        written.kept = kept["count"]
        written.proposed += kept["count"]
        written.ambiguous += kept["ambiguous"]

    async def _execute(self, query: str, names: dict[str, Any], **parameters: Any) -> None:
        await self._connection.execute(query.format(**names), parameters)
