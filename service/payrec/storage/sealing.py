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
_COMMITTED: Final = "SELECT id FROM change WHERE id = ANY(%s)"
_LOOK: Final = """
    WITH waiting AS (
        SELECT sequence, type, cardinality(resource_ids) AS count FROM outbox
        WHERE sequence > %(after)s AND sequence <= coalesce(%(until)s, sequence)
        ORDER BY sequence LIMIT %(events_max)s
    ), summed AS (
        SELECT sequence, type, count, sum(count) OVER (ORDER BY sequence) AS total FROM waiting
    )
    SELECT array_agg(sequence ORDER BY sequence) AS sequences, coalesce(sum(count), 0)::int AS count,
        coalesce(array_agg(DISTINCT type) FILTER (WHERE count > 0), '{}') AS types,
        coalesce(%(until)s, (SELECT max(sequence) FROM outbox)) AS until
    FROM summed WHERE total - count < %(events_max)s
"""
_ADVANCE: Final = """
    INSERT INTO event_feed AS f (id, position) VALUES (1, %(count)s)
    ON CONFLICT (id) DO UPDATE SET position = f.position + EXCLUDED.position RETURNING position
"""
_SEAL: Final = b"""
    INSERT INTO event (position, id, resource_id, occurred_at, type, data)
    SELECT %(before)s + e.number, i.id, e.resource_id, coalesce(c.at, clock_timestamp()), e.type, e.data
    FROM (
        SELECT row_number() OVER (ORDER BY t.sequence, r.ordinal) AS number, t.resource_ids[r.ordinal] AS resource_id,
            t.change_id, t.type, t.data
        FROM outbox t CROSS JOIN LATERAL generate_subscripts(t.resource_ids, 1) AS r (ordinal)
        WHERE t.sequence = ANY(%(sequences)s)
    ) e
    JOIN unnest(%(ids)s::uuid[], %(numbers)s::bigint[]) AS i (id, number) ON i.number = e.number
    LEFT JOIN change c ON c.id = e.change_id
    ORDER BY e.number
"""
_DROP: Final = b"DELETE FROM outbox WHERE sequence = ANY(%s)"
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
    types: Sequence[str]
    """Of which types they are."""
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

    async def committed(self, change_ids: Sequence[UUID]) -> set[UUID]:
        """Return those of these changes that can be seen."""
        return {row["id"] for row in await fetch_all(self._connection, _COMMITTED, (list(change_ids),))}

    async def look(self, *, after: int, until: int | None, events_max: int) -> Batch | None:
        """Return the next batch, or None when the drain is at its end.

        A row of many resources is not divided, so a batch may be larger than ``events_max`` by all but one of them.
        """
        row = await fetch_one(self._connection, _LOOK, {"after": after, "until": until, "events_max": events_max})
        if row is None or row["sequences"] is None:
            return None
        return Batch(sequences=row["sequences"], count=row["count"], types=row["types"], until=row["until"])

    async def move(self, batch: Batch, ids: Sequence[UUID]) -> None:
        """Give the batch's events their ids and places."""
        feed = await fetch_one(self._connection, _ADVANCE, {"count": batch.count})
        assert feed is not None, "it was inserted or updated"
        sequences = list(batch.sequences)
        numbers = array_text(range(1, len(ids) + 1))
        parameters = {
            "before": feed["position"] - batch.count,
            "sequences": sequences,
            "ids": list(ids),
            "numbers": numbers,
        }
        sealed = await self._connection.execute(_SEAL, parameters)
        if not sealed.rowcount == len(ids) == batch.count:
            raise AssertionError("a batch was not sealed as it was looked at")
        await self._connection.execute(_DROP, (sequences,))

    async def wake(self, environment_id: UUID, types: Sequence[str], *, all_events: str) -> None:
        """Have the endpoints looked at that want any of the types, when this transaction commits."""
        found = await fetch_all(self._connection, _WANTING, {"types": list(types), "all": all_events})
        await wake_webhooks(self._connection, environment_id, [row["id"] for row in found])


async def wake_webhooks(connection: Connection, environment_id: UUID, ids: Sequence[UUID]) -> None:
    """Have endpoints of an environment looked at, when this transaction commits."""
    if ids:
        await fetch_one(connection, _WAKE, {"environment_id": environment_id, "ids": list(ids)})
