"""What postings are made of: the feed of events tells which decisions there were, and in which order.

The feed has each decision once, after its commit. So whoever follows it, and keeps his place in the transaction in
which he writes postings, posts each of them once, and a crash posts nothing twice. Only what cannot change is read of
matches and lines, or what history keeps as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb
from pydantic_core import to_json

from payrec.storage.database import Connection
from payrec.storage.rows import array_text, fetch_all, fetch_one

ACCEPTED: Final = "match.accepted"
REVERSED: Final = "match.reversed"
REJECTED: Final = "match.rejected"
CLASSIFIED: Final = "incoming_transaction.classified"
RESTORED: Final = "incoming_transaction.restored"
UPDATED: Final = "incoming_transaction.updated"
"""What a return is when something of it is linked; of other lines as well."""
REOPENED: Final = "incoming_transaction.reopened"
"""What a return is when it has to give back what it took of an open payment; of other lines as well."""

_TYPES: Final = (ACCEPTED, REVERSED, REJECTED, CLASSIFIED, RESTORED, UPDATED, REOPENED)


def _line(alias: str, prefix: str = "") -> str:
    """Return the columns of a line: what it says, and what its account moved, in its currency beside its amount."""
    moved = f"{alias}.net_minor - CASE {alias}.direction WHEN 'credit' THEN 1 ELSE -1 END * {alias}.amount_minor"
    beside = f"CASE WHEN {alias}.net_currency = {alias}.currency THEN {moved} ELSE {alias}.net_minor END"
    columns = {name: f"{alias}.{name}" for name in ("id", "direction", "currency", "account")}
    columns |= {"whole_minor": f"{alias}.amount_minor", "beside_minor": f"coalesce({beside}, 0)"}
    columns["moved_currency"] = f"{alias}.net_currency"
    return ", ".join(f"{expression} AS {prefix}{name}" for name, expression in columns.items())


_FEED: Final = """
    SELECT coalesce(p.sequence, 0) AS sequence, coalesce(p.position, 0) AS position, coalesce(e.position, 0) AS head
    FROM (SELECT 1) o LEFT JOIN posting_feed p ON true LEFT JOIN event_feed e ON true
"""
_DECISIONS: Final = f"""
    SELECT e.position, e.type, e.resource_id, e.occurred_at,
        CASE WHEN e.type IN ('{ACCEPTED}', '{REVERSED}')
            THEN (SELECT count(*) FROM leg l WHERE l.match_id = e.resource_id) ELSE 1 END
    FROM event e WHERE e.position > %(after)s AND e.position <= %(through)s AND e.type = ANY(%(types)s)
    ORDER BY e.position
"""  # noqa: S608 - our own text
# When it was accepted it counted from the day that it said then.
_MATCHES: Final = """
    SELECT m.id, m.created_by, m.returned_minor, m.adjustments, m.reversed_on, CASE m.status
        WHEN 'accepted' THEN m.effective_on ELSE coalesce((
            SELECT s.effective_on FROM match_state s WHERE s.match_id = m.id AND s.status = 'accepted'
            ORDER BY s.version LIMIT 1), m.effective_on) END AS effective_on
    FROM match m WHERE m.id = ANY(%(ids)s)
"""
_LEGS: Final = f"""
    SELECT l.match_id, l.amount_minor, l.settled_minor, l.settled_currency, m.currency,
        {_line("i")}, {_line("c")},
        l.expected_id, e.direction, e.external_id,
        l.contra_expected_id, d.direction, d.external_id
    FROM leg l JOIN match m ON m.id = l.match_id
    LEFT JOIN incoming_transaction i ON i.id = l.incoming_id
    LEFT JOIN incoming_transaction c ON c.id = l.contra_incoming_id
    LEFT JOIN expected_transaction e ON e.id = l.expected_id
    LEFT JOIN expected_transaction d ON d.id = l.contra_expected_id
    WHERE l.match_id = ANY(%(ids)s) AND m.id = ANY(%(ids)s) ORDER BY l.match_id, l.ordinal
"""  # noqa: S608 - our own text
# The instant of an event is that of its change, and history has what a line was made by each.
_LINES: Final = f"""
    SELECT u.position, {_line("i")}, i.booking_on, s.amount_minor, s.category, s.posting_code, s.effective_on,
        s.change_id
    FROM unnest(%(positions)s::bigint[], %(ids)s::uuid[], %(instants)s::timestamptz[]) AS u (position, id, at)
    JOIN incoming_transaction i ON i.id = u.id
    JOIN allocation_state s ON s.side = 2 AND s.transaction_id = u.id
    JOIN change c ON c.id = s.change_id AND c.at = u.at
"""  # noqa: S608 - our own text
_LINKS: Final = f"""
    SELECT r.reversal_id, r.ordinal, r.change_id, r.match_id, m.created_by, r.expected_id, r.amount_minor,
        r.settled_minor, {{until}} AS until_change_id,
        {_line("i")}, {_line("b", "back_")}, greatest(i.booking_on, b.booking_on) AS booking_on, e.external_id,
        m.adjustments, (
            SELECT l.settled_currency FROM leg l
            WHERE l.match_id = r.match_id AND l.incoming_id = r.incoming_id AND l.expected_id = r.expected_id LIMIT 1
        ) AS settled_currency
    FROM {{links}} r LEFT JOIN match m ON m.id = r.match_id
    JOIN incoming_transaction i ON i.id = r.incoming_id JOIN incoming_transaction b ON b.id = r.reversal_id
    LEFT JOIN expected_transaction e ON e.id = r.expected_id
    WHERE {{which}} ORDER BY r.change_id, r.reversal_id, r.match_id, r.ordinal
"""  # noqa: S608 - our own text
_STANDING: Final = {"links": "reversal_link", "until": "NULL::uuid"}
_LINKS_OF_RETURNS: Final = _LINKS.format(**_STANDING, which="r.reversal_id = ANY(%(ids)s)")
_LINKS_OF_MATCHES: Final = _LINKS.format(
    **_STANDING, which="r.incoming_id = ANY(%(lines)s) AND r.match_id = ANY(%(matches)s)"
)
_ENDED_LINKS: Final = _LINKS.format(
    links="reversal_link_state", until="r.until_change_id", which="r.reversal_id = ANY(%(ids)s)"
)
_TAKERS: Final = """
    SELECT m.id, m.created_by FROM match m WHERE m.id IN (
        SELECT l.match_id FROM leg l WHERE l.incoming_id = ANY(%(ids)s) AND l.valid_from IS NOT NULL
        UNION
        SELECT l.match_id FROM leg l WHERE l.contra_incoming_id = ANY(%(ids)s) AND l.valid_from IS NOT NULL
        UNION
        SELECT r.match_id FROM reversal_link r WHERE r.reversal_id = ANY(%(ids)s)
    )
    UNION
    SELECT r.reversal_id, NULL FROM reversal_link r WHERE r.incoming_id = ANY(%(ids)s)
"""
_POSTED: Final = """
    WITH original AS (
        SELECT sequence FROM posting
        WHERE source_id = ANY(%(ids)s) AND kind IN ('match', 'classification', 'return') AND reverses_sequence IS NULL
    ), wanted AS (
        SELECT sequence FROM original
        UNION
        SELECT p.sequence FROM posting p JOIN original o ON o.sequence = p.reverses_sequence
        UNION
        SELECT sequence FROM posting WHERE reverses_id = ANY(%(ids)s)
    )
    SELECT p.sequence, p.kind, p.source_id, p.change_id, p.reverses_sequence, p.reverses_id, p.effective_on,
        p.codes_version, p.lines, p.charged
    FROM posting p JOIN wanted w ON w.sequence = p.sequence
"""
_CODES: Final = """
    SELECT version, codes FROM posting_codes
    WHERE version = ANY(%s) OR version = (SELECT max(version) FROM posting_codes) ORDER BY version
"""
_ADD: Final = """
    INSERT INTO posting (sequence, source_id, change_id, reverses_sequence, reverses_id, effective_on, line_count,
        codes_version, kind, lines, charged)
    SELECT sequence, source_id, change_id, reverses_sequence, reverses_id, effective_on, jsonb_array_length(lines),
        codes_version, kind, lines, charged
    FROM jsonb_to_recordset(%s) AS p (sequence bigint, source_id uuid, change_id uuid, reverses_sequence bigint,
        reverses_id uuid, effective_on date, codes_version integer, kind text, lines jsonb, charged jsonb)
"""
_MOVE: Final = """
    INSERT INTO posting_feed AS f (id, sequence, position) VALUES (1, %(sequence)s, %(position)s)
    ON CONFLICT (id) DO UPDATE SET sequence = EXCLUDED.sequence, position = EXCLUDED.position
"""


class Feed(NamedTuple):
    """How far postings and events are."""

    sequence: int
    position: int
    """Up to which place of the feed of events postings were made."""
    head: int
    """The last place of that feed."""


class Decision(NamedTuple):
    """An event of what is to be posted, if it is."""

    position: int
    type: str
    resource_id: UUID
    at: datetime
    legs: int
    """What it takes to post it."""


class PostingSealingStore:
    """Reads what postings are made of, and writes them: ``posting``, ``posting_codes`` and ``posting_feed``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def feed(self) -> Feed:
        """Return how far postings and events are."""
        row = await fetch_one(self._connection, _FEED)
        return Feed(**row) if row is not None else Feed(0, 0, 0)

    async def decisions(self, *, after: int, through: int) -> list[Decision]:
        """Return what may be to be posted of a range of places, in the order of the feed."""
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_DECISIONS, {"after": after, "through": through, "types": list(_TYPES)})
            return [Decision(*row) for row in await cursor.fetchall()]

    async def matches(self, match_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
        """Return matches by id; those that there are not are missing."""
        rows = await fetch_all(self._connection, _MATCHES, {"ids": array_text(match_ids)})
        return {row["id"]: row for row in rows}

    async def legs(self, match_ids: Sequence[UUID]) -> list[tuple[Any, ...]]:
        """Return legs, those of a match together and in their order, as tuples of what ``_LEGS`` selects."""
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_LEGS, {"ids": array_text(match_ids)})
            return await cursor.fetchall()

    async def lines(self, decisions: Sequence[Decision]) -> dict[int, dict[str, Any]]:
        """Return what lines were made by these decisions, by the places of the events; others are missing."""
        parameters = {
            "positions": [decision.position for decision in decisions],
            "ids": [decision.resource_id for decision in decisions],
            "instants": [decision.at for decision in decisions],
        }
        return {row["position"]: row for row in await fetch_all(self._connection, _LINES, parameters)}

    async def links(
        self, return_ids: Sequence[UUID], *, match_ids: Sequence[UUID], line_ids: Sequence[UUID]
    ) -> list[dict[str, Any]]:
        """Return what returns have taken of matches: these returns, and any of these lines of these matches."""
        ids = {"ids": array_text(return_ids)}
        rows = await fetch_all(self._connection, _LINKS_OF_RETURNS, ids) if return_ids else []
        if match_ids:
            parameters = {"lines": array_text(line_ids), "matches": array_text(match_ids)}
            rows += await fetch_all(self._connection, _LINKS_OF_MATCHES, parameters)
        return rows

    async def ended_links(self, return_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return what these returns had taken of open payments and gave back, as ``links``."""
        return await fetch_all(self._connection, _ENDED_LINKS, {"ids": array_text(return_ids)}) if return_ids else []

    async def takers(self, line_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return who made the matches that took of lines, or of which these took back, and the returns of these."""
        return await fetch_all(self._connection, _TAKERS, {"ids": array_text(line_ids)})

    async def posted(self, source_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return postings of these matches, classified lines and returns, and those that have taken back of them."""
        return await fetch_all(self._connection, _POSTED, {"ids": array_text(source_ids)}) if source_ids else []

    async def codes(self, versions: Collection[int]) -> dict[int, dict[str, Any]]:
        """Return the codes of these versions, and the last ones that there are, by version in its order."""
        rows = await fetch_all(self._connection, _CODES, (list(versions),))
        return {row["version"]: row["codes"] for row in rows}

    async def add_codes(self, version: int, codes: Mapping[str, Any]) -> None:
        """Keep other codes than before."""
        query = "INSERT INTO posting_codes (version, codes) VALUES (%s, %s)"
        await self._connection.execute(query, (version, Jsonb(codes)))

    async def add(self, postings: Sequence[Mapping[str, Any]]) -> None:
        """Store new postings."""
        await self._connection.execute(_ADD, (Jsonb(postings, to_json),))

    async def move(self, *, sequence: int, position: int) -> None:
        """Say up to which place of the feed postings were made, and which was the last."""
        await self._connection.execute(_MOVE, {"sequence": sequence, "position": position})
