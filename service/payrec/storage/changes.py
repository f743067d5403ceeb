"""The last statement of every business transaction of a tenant: its change, audit records and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from payrec.domain.changes import Record
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all

_FINISH: Final = """
    WITH record AS (
        SELECT * FROM unnest(
            %(actions)s::text[], %(resources)s::uuid[], %(reasons)s::text[], %(befores)s::jsonb[], %(afters)s::jsonb[],
            %(data)s::jsonb[]
        ) WITH ORDINALITY AS r (action, resource_id, reason, before, after, data, ordinal)
    ), audited AS (
        INSERT INTO audit_record (change_id, ordinal, actor, action, resource_id, reason, before, after, request_id)
        SELECT %(id)s, ordinal, %(actor)s, action, resource_id, reason, before, after, %(request_id)s FROM record
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
        "api_key.expiring",
        "data_source.failed",
        "data_source.recovered",
        "webhook.disabled",
    }
)
"""Actions that others are told about; the rest is audit alone."""


class ChangeStore:
    """``change``, ``audit_record`` and ``outbox`` of one tenant environment."""

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

    async def once(self, action: str) -> None:
        """Let nobody else do this in the tenant environment until the transaction ends."""
        await self._connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(current_schema()))", (action,)
        )

    async def done(self, action: str, resource_ids: Sequence[UUID]) -> set[UUID]:
        """Return to which of the resources this was done before; each audit record stands for its event too."""
        rows = await fetch_all(
            self._connection,
            "SELECT DISTINCT resource_id FROM audit_record WHERE resource_id = ANY(%s) AND action = %s",
            (list(resource_ids), action),
        )
        return {row["resource_id"] for row in rows}
