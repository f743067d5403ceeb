"""The last statement of every business transaction of a tenant: its change, audit records and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.domain.changes import Record
from payrec.storage.database import Connection

_FINISH: Final = """
    WITH record AS (
        SELECT * FROM unnest(
            %(actions)s::text[], %(resources)s::uuid[], %(reasons)s::text[], %(befores)s::jsonb[], %(afters)s::jsonb[],
            %(data)s::jsonb[]
        ) WITH ORDINALITY AS r (action, resource_id, reason, before, after, data, ordinal)
    ), audited AS (
        INSERT INTO audit_record (change_id, ordinal, actor, action, resource_id, reason, before, after, request_id)
        SELECT %(id)s, ordinal, %(actor)s, action, resource_id, reason, before, after, %(request_id)s FROM record
    ), unsealed AS (
        INSERT INTO audit_unsealed (change_id) SELECT %(id)s WHERE cardinality(%(actions)s::text[]) > 0
    ), announced AS (
        INSERT INTO outbox (change_id, ordinal, type, resource_ids, data)
        SELECT %(id)s, ordinal, action, ARRAY[resource_id], coalesce(data, '{}') FROM record
        WHERE resource_id IS NOT NULL AND action = ANY(%(events)s)
        ORDER BY ordinal RETURNING ordinal
    ), changed AS (
        INSERT INTO change (id) VALUES (%(id)s)
    )
    -- Events of this change may also have been written before, by whoever writes many.
    SELECT control.note_unsealed(%(id)s, %(environment_id)s)
    WHERE EXISTS (SELECT FROM announced) OR EXISTS (SELECT FROM outbox WHERE change_id = %(id)s)
"""

EVENT_TYPES: Final = frozenset(
    {
        "expected_transaction.created",
        "expected_transaction.overdue",
        "expected_transaction.reopened",
        "incoming_transaction.created",
        "incoming_transaction.reversed",
        "incoming_transaction.updated",
        "import.completed",
        "import.failed",
        "import.statement_gap",
        "match.proposed",
        "match.accepted",
        "match.superseded",
        "job.succeeded",
        "job.failed",
        "job.cancelled",
        "data_source.failed",
        "data_source.recovered",
        "webhook.disabled",
    }
)
"""Actions that others are told about; the rest is audit alone. ``control_outbox`` has those of tenants and keys."""

_TAKE_OVER: Final = """
    WITH told AS (
        SELECT * FROM unnest(
            %(ids)s::uuid[], %(resources)s::uuid[], %(instants)s::timestamptz[], %(types)s::text[], %(data)s::jsonb[]
        ) WITH ORDINALITY AS t (id, resource_id, at, type, data, ordinal)
    ), changed AS (
        -- Who takes over the same events at the same time is waited for.
        INSERT INTO change (id, at) SELECT id, at FROM told ORDER BY ordinal ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO outbox (change_id, ordinal, type, resource_ids, data)
    SELECT t.id, 1, t.type, ARRAY[t.resource_id], t.data FROM told t JOIN changed USING (id) ORDER BY t.ordinal
"""


class ChangeStore:
    """``change``, ``audit_record`` with what waits for its seal, and ``outbox`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def finish(
        self, change_id: UUID, *, environment_id: UUID, actor: str, request_id: str, records: Sequence[Record]
    ) -> None:
        """Write all records and the change; the change's clock is the instant of the transaction.

        Where there are events, the sealer is told when the transaction commits.
        """
        parameters: dict[str, Any] = {
            "id": change_id,
            "environment_id": environment_id,
            "actor": actor,
            "request_id": request_id,
            "actions": [r.action for r in records],
            "resources": [r.resource_id for r in records],
            "reasons": [r.reason for r in records],
            "befores": [Jsonb(r.before) if r.before is not None else None for r in records],
            "afters": [Jsonb(r.after) if r.after is not None else None for r in records],
            "data": [Jsonb(r.data) if r.data is not None else None for r in records],
            "events": list(EVENT_TYPES),
        }
        await self._connection.execute(_FINISH, parameters)

    async def take_over(self, events: Sequence[dict[str, Any]]) -> int:
        """Write events of the control schema into the outbox here; return how many of them were not here before.

        Each is a change of its own, which stays: an event that comes again changes nothing.
        """
        parameters = {
            "ids": [event["id"] for event in events],
            "resources": [event["resource_id"] for event in events],
            "instants": [event["occurred_at"] for event in events],
            "types": [event["type"] for event in events],
            "data": [Jsonb(event["data"]) for event in events],
        }
        cursor = await self._connection.execute(_TAKE_OVER, parameters)
        return cursor.rowcount
