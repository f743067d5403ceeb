"""The sealer's statements: events leave the outbox for their place in the feed, after the commit of their change.

Why the order of the feed is right for each resource. A row gets its ``sequence`` when its transaction holds the rows
that it is about, so of two changes of a resource the later one gets its number after the earlier one has committed.
A drain takes, in the order of the numbers, what was committed when it began (``until``); whatever commits meanwhile
may have a smaller number, but what follows it has a greater one than ``until`` and waits with it for the next drain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import array_text, fetch_all, fetch_one

_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtext('event_feed'), hashtext(current_schema())) AS is_ours"
_LOOK: Final = """
    WITH waiting AS (
        SELECT sequence, cardinality(resource_ids) AS count FROM outbox
        WHERE sequence > %(after)s AND sequence <= coalesce(%(until)s, sequence)
        ORDER BY sequence LIMIT %(events_max)s
    ), summed AS (
        SELECT sequence, count, sum(count) OVER (ORDER BY sequence) AS total FROM waiting
    )
    SELECT array_agg(sequence ORDER BY sequence) AS sequences, coalesce(sum(count), 0)::int AS count,
        coalesce(%(until)s, (SELECT max(sequence) FROM outbox)) AS until
    FROM summed WHERE total - count < %(events_max)s
"""
_MOVE: Final = """
    WITH taken AS (
        DELETE FROM outbox WHERE sequence = ANY(%(sequences)s)
        RETURNING sequence, change_id, type, resource_ids, data
    ), expanded AS (
        SELECT row_number() OVER (ORDER BY t.sequence, r.ordinal) AS number, t.resource_ids[r.ordinal] AS resource_id,
            t.change_id, t.type, t.data
        FROM taken t CROSS JOIN LATERAL generate_subscripts(t.resource_ids, 1) AS r (ordinal)
    ), feed AS (
        INSERT INTO event_feed AS f (id, position) SELECT 1, count(*) FROM expanded
        ON CONFLICT (id) DO UPDATE SET position = f.position + EXCLUDED.position RETURNING position
    ), sealed AS (
        INSERT INTO event (position, id, resource_id, occurred_at, type, data)
        SELECT feed.position - %(count)s + e.number, i.id, e.resource_id, coalesce(c.at, clock_timestamp()), e.type,
            e.data
        FROM expanded e
        JOIN unnest(%(ids)s::uuid[], %(numbers)s::bigint[]) AS i (id, number) ON i.number = e.number
        LEFT JOIN change c ON c.id = e.change_id CROSS JOIN feed
        ORDER BY e.number RETURNING type
    )
    SELECT array_agg(DISTINCT type) AS types, count(*) AS count FROM sealed
"""
_WANTING: Final = """
    SELECT id FROM webhook WHERE status = 'active' AND (events && %(types)s OR %(all)s = ANY(events))
"""
_WAKE: Final = """
    SELECT count(control.schedule_webhook(id, %(environment_id)s, clock_timestamp(), false))
    FROM unnest(%(ids)s::uuid[]) AS w (id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The next rows of the outbox that are sealed together."""

    sequences: Sequence[int]
    count: int
    """Events that these rows stand for."""
    until: int
    """The drain that the batch is of takes no number beyond this."""


class SealingStore:
    """``outbox``, ``event_feed`` and ``event`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self) -> bool:
        """Keep everybody else from sealing here until the transaction ends; return whether nobody else does."""
        row = await fetch_one(self._connection, _LOCK)
        return row is not None and bool(row["is_ours"])

    async def look(self, *, after: int, until: int | None, events_max: int) -> Batch | None:
        """Return the next batch, or None when the drain is at its end.

        A row of many resources is not divided, so a batch may be larger than ``events_max`` by all but one of them.
        """
        row = await fetch_one(self._connection, _LOOK, {"after": after, "until": until, "events_max": events_max})
        if row is None or row["sequences"] is None:
            return None
        return Batch(sequences=row["sequences"], count=row["count"], until=row["until"])

    async def move(self, batch: Batch, ids: Sequence[UUID]) -> list[str]:
        """Give the batch's events their ids and places; return which types they are of."""
        numbers = array_text(range(1, len(ids) + 1))
        parameters = {
            "sequences": list(batch.sequences),
            "count": batch.count,
            "ids": list(ids),
            "numbers": numbers,
        }
        row = await fetch_one(self._connection, _MOVE, parameters)
        if row is None or row["count"] != batch.count or len(ids) != batch.count:
            raise AssertionError("a batch was not sealed as it was looked at")
        return row["types"] or []

    async def wake(self, environment_id: UUID, types: Sequence[str], *, all_events: str) -> None:
        """Have the endpoints looked at that want any of the types, when this transaction commits."""
        found = await fetch_all(self._connection, _WANTING, {"types": list(types), "all": all_events})
        await wake_webhooks(self._connection, environment_id, [row["id"] for row in found])


async def wake_webhooks(connection: Connection, environment_id: UUID, ids: Sequence[UUID]) -> None:
    """Have endpoints of an environment looked at, when this transaction commits."""
    if ids:
        await fetch_one(connection, _WAKE, {"environment_id": environment_id, "ids": list(ids)})
