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
            %(actions)s::text[], %(resources)s::uuid[], %(reasons)s::text[], %(befores)s::jsonb[], %(afters)s::jsonb[]
        ) WITH ORDINALITY AS r (action, resource_id, reason, before, after, ordinal)
    ), audited AS (
        INSERT INTO audit_record (change_id, ordinal, actor, action, resource_id, reason, before, after, request_id)
        SELECT %(id)s, ordinal, %(actor)s, action, resource_id, reason, before, after, %(request_id)s FROM record
    ), announced AS (
        INSERT INTO outbox (change_id, ordinal, type, resource_ids)
        SELECT %(id)s, ordinal, action, ARRAY[resource_id] FROM record
        WHERE resource_id IS NOT NULL AND action = ANY(%(events)s)
    )
    INSERT INTO change (id) VALUES (%(id)s)
"""

EVENT_TYPES: Final = frozenset(
    {
        "expected_transaction.created",
        "incoming_transaction.created",
        "import.completed",
        "import.failed",
        "match.proposed",
        "match.accepted",
        "match.superseded",
        "job.succeeded",
        "job.failed",
    }
)
"""Actions that others are told about; the rest is audit alone."""


class ChangeStore:
    """``change``, ``audit_record`` and ``outbox`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def finish(self, change_id: UUID, *, actor: str, request_id: str, records: Sequence[Record]) -> None:
        """Write all records and the change; the change's clock is the instant of the transaction."""
        parameters: dict[str, Any] = {
            "id": change_id,
            "actor": actor,
            "request_id": request_id,
            "actions": [r.action for r in records],
            "resources": [r.resource_id for r in records],
            "reasons": [r.reason for r in records],
            "befores": [Jsonb(r.before) if r.before is not None else None for r in records],
            "afters": [Jsonb(r.after) if r.after is not None else None for r in records],
            "events": list(EVENT_TYPES),
        }
        await self._connection.execute(_FINISH, parameters)
