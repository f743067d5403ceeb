"""The last statement of every business transaction of a tenant: its change, audit records and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic_core import to_json

from payrec.domain.changes import Record
from payrec.storage.database import Connection
from payrec.storage.rows import Ids, array_text, fetch_one

# On Citus what an INSERT takes from another part of its statement goes to every worker, and with one of them away to
# none: so no part that inserts does so here, nor in the other statements that nearly every request or batch makes.
_FINISH: Final = """
    WITH audited AS (
        INSERT INTO audit_record (change_id, ordinal, actor, action, resource_id, reason, before, after, request_id)
        SELECT %(id)s, (v->>'ordinal')::integer, %(actor)s, v->>'action', (v->>'resource_id')::uuid, v->>'reason',
            nullif(v->'before', 'null'), nullif(v->'after', 'null'), %(request_id)s
        FROM jsonb_array_elements(%(records)s) AS r (v)
    ), unsealed AS (
        INSERT INTO audit_unsealed (change_id) SELECT %(id)s WHERE jsonb_array_length(%(records)s) > 0
    ), announced AS (
        INSERT INTO outbox (change_id, ordinal, type, resource_ids, data)
        SELECT %(id)s, ordinal, type, resource_ids::uuid[], data
        FROM unnest(%(ordinals)s::integer[], %(types)s::text[], %(resources)s::text[], %(data)s::jsonb[])
            AS t (ordinal, type, resource_ids, data)
        ORDER BY ordinal RETURNING ordinal
    ), changed AS (
        INSERT INTO change (id) VALUES (%(id)s)
    )
    -- Events of this change may also have been written before, by whoever writes many.
    SELECT EXISTS (SELECT 1 FROM announced) OR EXISTS (SELECT 1 FROM outbox WHERE change_id = %(id)s) AS has_events
"""
# By itself: on Citus the environment's tables are on a worker, and the control schema is not.
_TELL: Final = "SELECT control.note_unsealed(%s, %s)"

EVENT_IDS_MAX: Final = 1_000
"""Ids in one event row of a change that is about many."""

EVENT_TYPES: Final = frozenset(
    {
        "account.statement_missing",
        "expected_transaction.created",
        "expected_transaction.matched",
        "expected_transaction.updated",
        "expected_transaction.voided",
        "expected_transaction.overdue",
        "expected_transaction.partially_matched",
        "expected_transaction.reopened",
        "incoming_transaction.classified",
        "incoming_transaction.created",
        "incoming_transaction.ignored",
        "incoming_transaction.matched",
        "incoming_transaction.partially_matched",
        "incoming_transaction.reopened",
        "incoming_transaction.restored",
        "incoming_transaction.reversed",
        "incoming_transaction.updated",
        "import.completed",
        "import.failed",
        "import.statement_gap",
        "match.proposed",
        "match.pending_approval",
        "match.approved",
        "match.accepted",
        "match.rejected",
        "match.reversed",
        "match.superseded",
        "period.locked",
        "period.reopened",
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
    WITH changed AS (
        -- Who takes over the same events at the same time is waited for.
        INSERT INTO change (id, at)
        SELECT id, at FROM unnest(%(ordinals)s::integer[], %(ids)s::uuid[], %(instants)s::timestamptz[])
            AS t (ordinal, id, at)
        ORDER BY ordinal ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO outbox (change_id, ordinal, type, resource_ids, data)
    SELECT t.id, 1, t.type, ARRAY[t.resource_id], t.data
    FROM unnest(
        %(ordinals)s::integer[], %(ids)s::uuid[], %(resources)s::uuid[], %(types)s::text[], %(data)s::jsonb[]
    ) AS t (ordinal, id, resource_id, type, data) JOIN changed USING (id)
    ORDER BY t.ordinal
"""


@dataclass(slots=True)
class _Event:
    """A row of the outbox."""

    type: str
    resource_ids: list[UUID | str]
    data: dict[str, Any] | None


def _audited(ordinal: int, record: Record) -> dict[str, Any]:
    return {
        "ordinal": ordinal,
        "action": record.action,
        "resource_id": record.resource_id,
        "reason": record.reason,
        "before": record.before,
        "after": record.after,
    }


Told = tuple[str, Ids]
"""A type of event, and the resources that it is true of."""


def _events(records: Sequence[Record], told: Sequence[Told]) -> list[_Event]:
    """Return the rows of the outbox, in order: what follows each other and says no more than its type shares one."""
    found: list[_Event] = []

    def add(kind: str, resource_ids: Ids, data: dict[str, Any] | None) -> None:
        last = found[-1] if found else None
        room = 0
        if last and last.type == kind and not (last.data or data):
            room = EVENT_IDS_MAX - len(last.resource_ids)
            last.resource_ids += resource_ids[:room]
        found.extend(
            _Event(kind, [*resource_ids[place : place + EVENT_IDS_MAX]], data)
            for place in range(room, len(resource_ids), EVENT_IDS_MAX)
        )

    for record in records:
        if record.resource_id is not None and record.action in EVENT_TYPES:
            add(record.action, [record.resource_id], record.data)
    for kind, resource_ids in told:
        add(kind, resource_ids, None)
    return found


def _ordinals(rows: Sequence[object]) -> str:
    return array_text(range(1, len(rows) + 1))


class ChangeStore:
    """``change``, ``audit_record`` with what waits for its seal, and ``outbox`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def finish(
        self,
        change_id: UUID,
        *,
        environment_id: UUID,
        actor: str,
        request_id: str,
        records: Sequence[Record],
        told: Sequence[Told] = (),
    ) -> None:
        """Write all records and the change; the change's clock is the instant of the transaction.

        ``told`` are events beside those of the records: a type, and the resources that it is true of. Where there are
        events, the sealer is told when the transaction commits.
        """
        events = _events(records, told)
        parameters: dict[str, Any] = {
            "id": change_id,
            "environment_id": environment_id,
            "actor": actor,
            "request_id": request_id,
            "records": Jsonb([_audited(*numbered) for numbered in enumerate(records, start=1)], to_json),
            "ordinals": _ordinals(events),
            "types": [event.type for event in events],
            "resources": [array_text(event.resource_ids) for event in events],
            "data": [Jsonb(event.data or {}) for event in events],
        }
        row = await fetch_one(self._connection, _FINISH, parameters)
        if row is not None and row["has_events"]:
            await self._connection.execute(_TELL, (change_id, environment_id))

    async def take_over(self, events: Sequence[dict[str, Any]]) -> int:
        """Write events of the control schema into the outbox here; return how many of them were not here before.

        Each is a change of its own, which stays: an event that comes again changes nothing.
        """
        parameters = {
            "ordinals": _ordinals(events),
            "ids": [event["id"] for event in events],
            "resources": [event["resource_id"] for event in events],
            "instants": [event["occurred_at"] for event in events],
            "types": [event["type"] for event in events],
            "data": [Jsonb(event["data"]) for event in events],
        }
        cursor = await self._connection.execute(_TAKE_OVER, parameters)
        return cursor.rowcount
