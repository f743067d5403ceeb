"""What becomes of events at endpoints: which are to be delivered, and what came of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from payrec.domain.deliveries import Message, Outcome
from payrec.domain.events import ALL_EVENTS
from payrec.models.webhooks import WebhookDeliveryQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, SortKey, select_page
from payrec.storage.rows import fetch_all

_COLUMNS: Final = (
    "d.event_id AS id, d.position, d.type, d.resource_id, d.status, d.attempts, d.created_at, d.attempted_at,"
    " d.next_attempt_at, d.duration_ms, d.response_status, d.response_excerpt, d.error"
)
_EVENT: Final = "e.position, e.id, e.type, e.resource_id, e.occurred_at, e.data"
_NEW: Final = f"""
    SELECT {_EVENT} FROM event e
    WHERE e.position > %(after)s AND e.position <= %(head)s AND (%(is_all)s OR e.type = ANY(%(types)s))
        AND NOT EXISTS (
            SELECT FROM webhook_delivery d WHERE d.webhook_id = %(webhook_id)s AND d.position = e.position
        )
    ORDER BY e.position LIMIT %(limit)s
"""  # noqa: S608 - our own text
_DUE: Final = f"""
    SELECT {_EVENT}, d.attempts FROM webhook_delivery d JOIN event e ON e.position = d.position
    WHERE d.webhook_id = %(webhook_id)s AND d.status = 'pending' AND d.next_attempt_at <= clock_timestamp()
        AND d.position <> ALL(%(but)s) AND NOT EXISTS (
            SELECT FROM webhook_delivery b WHERE b.webhook_id = d.webhook_id AND b.resource_id = d.resource_id
                AND b.status = 'pending' AND b.position < d.position
        )
    ORDER BY d.next_attempt_at, d.position LIMIT %(limit)s
"""  # noqa: S608 - our own text
_BLOCKED: Final = """
    SELECT DISTINCT resource_id FROM webhook_delivery
    WHERE webhook_id = %(webhook_id)s AND status = 'pending' AND (%(is_all)s OR resource_id = ANY(%(resources)s))
"""
_STORE: Final = """
    INSERT INTO webhook_delivery AS d (webhook_id, position, event_id, resource_id, created_at, attempted_at,
        next_attempt_at, attempts, duration_ms, response_status, status, type, error, response_excerpt)
    SELECT %(webhook_id)s, position, event_id, resource_id, %(at)s,
        CASE WHEN attempts > 0 THEN clock_timestamp() - age END,
        CASE WHEN status = 'pending' THEN clock_timestamp() + coalesce(delay, '0') END,
        attempts, duration_ms, response_status, status, type, error, response_excerpt
    FROM unnest(%(positions)s::bigint[], %(event_ids)s::uuid[], %(resources)s::uuid[], %(ages)s::interval[],
        %(delays)s::interval[], %(attempts)s::int[], %(durations)s::int[], %(response_statuses)s::int[],
        %(statuses)s::text[], %(types)s::text[], %(errors)s::text[], %(excerpts)s::text[])
        AS o (position, event_id, resource_id, age, delay, attempts, duration_ms, response_status, status, type, error,
            response_excerpt)
    ON CONFLICT (webhook_id, position) DO UPDATE SET attempted_at = EXCLUDED.attempted_at,
        next_attempt_at = EXCLUDED.next_attempt_at, attempts = EXCLUDED.attempts, duration_ms = EXCLUDED.duration_ms,
        response_status = EXCLUDED.response_status, status = EXCLUDED.status, error = EXCLUDED.error,
        response_excerpt = EXCLUDED.response_excerpt
    WHERE d.status = 'pending'
"""
_END_PENDING: Final = """
    UPDATE webhook_delivery SET status = 'failed', next_attempt_at = NULL, error = %(error)s
    WHERE webhook_id = %(webhook_id)s AND status = 'pending'
"""
_REDELIVER: Final = """
    INSERT INTO webhook_delivery AS d (webhook_id, position, event_id, resource_id, created_at, next_attempt_at, status,
        type)
    SELECT w.id, e.position, e.id, e.resource_id, %(at)s, clock_timestamp(), 'pending', e.type
    FROM webhook w JOIN event e ON e.position <= w.position
    LEFT JOIN webhook_delivery known ON known.webhook_id = w.id AND known.position = e.position
    WHERE w.id = %(webhook_id)s AND {wanted}
    ORDER BY e.position LIMIT %(limit)s
    ON CONFLICT (webhook_id, position) DO UPDATE SET status = 'pending', attempts = 0,
        next_attempt_at = EXCLUDED.next_attempt_at, error = NULL
    WHERE d.status <> 'pending'
"""
_NAMED: Final = "e.id = ANY(%(event_ids)s)"
_BETWEEN: Final = """
    e.position > %(after)s AND e.position <= %(through)s AND e.occurred_at >= %(since)s
    AND e.occurred_at <= coalesce(%(until)s, 'infinity'::timestamptz)
    AND coalesce(known.status, 'missed') = ANY(%(states)s) AND (e.type = ANY(w.events) OR %(all)s = ANY(w.events))
"""

FEED_END: Final = 2**63 - 1
"""Behind every place of a feed."""

BY_EVENT: Final = {
    "createdAt": SortKey(expression="d.position", descending=False, name="position"),
    "-createdAt": SortKey(expression="d.position", descending=True, name="position"),
}
"""Deliveries in the order of their events."""


class WebhookDeliveryStore:
    """``webhook_delivery`` of one endpoint."""

    def __init__(self, connection: Connection, webhook_id: UUID) -> None:
        self._connection = connection
        self._webhook_id = webhook_id

    async def new(self, *, after: int, head: int, types: Sequence[str], limit: int) -> list[Message]:
        """Return wanted events behind a place, up to the feed's head, that have no outcome yet."""
        parameters = {
            "webhook_id": self._webhook_id,
            "after": after,
            "head": head,
            "is_all": ALL_EVENTS in types,
            "types": list(types),
            "limit": limit,
        }
        return [_message(row) for row in await fetch_all(self._connection, _NEW, parameters)]

    async def due(self, *, but: Collection[int], limit: int) -> list[Message]:
        """Return messages whose time has come and that no earlier one of their resource holds back, but those given."""
        parameters = {"webhook_id": self._webhook_id, "but": list(but), "limit": limit}
        return [_message(row) for row in await fetch_all(self._connection, _DUE, parameters)]

    async def blocked(self, among: Collection[UUID] | None = None) -> set[UUID]:
        """Return the resources of which a message is still to be delivered; of those given, or all."""
        parameters = {"webhook_id": self._webhook_id, "is_all": among is None, "resources": list(among or ())}
        return {row["resource_id"] for row in await fetch_all(self._connection, _BLOCKED, parameters)}

    async def store(self, outcomes: Sequence[Outcome], *, at: datetime, monotonic_now: float) -> None:
        """Store outcomes; that of a message which somebody has settled meanwhile is left as it is."""
        answers = [o.answer for o in outcomes]
        messages = [o.message for o in outcomes]
        parameters = {
            "webhook_id": self._webhook_id,
            "at": at,
            "positions": [m.position for m in messages],
            "event_ids": [m.event_id for m in messages],
            "resources": [m.resource_id for m in messages],
            "types": [m.type for m in messages],
            "attempts": [m.attempts for m in messages],
            "ages": [timedelta(seconds=max(monotonic_now - o.ended_at, 0)) for o in outcomes],
            "delays": [o.delay for o in outcomes],
            "statuses": [o.status for o in outcomes],
            "durations": [a.duration_ms if a is not None else None for a in answers],
            "response_statuses": [a.status if a is not None else None for a in answers],
            "errors": [a.outcome if a is not None and not a.is_success else None for a in answers],
            "excerpts": [a.excerpt if a is not None else None for a in answers],
        }
        await self._connection.execute(_STORE, parameters)

    async def end_pending(self, *, error: str) -> None:
        """Give up what was still to be delivered: the endpoint is disabled."""
        await self._connection.execute(_END_PENDING, {"webhook_id": self._webhook_id, "error": error})

    async def redeliver(self, event_ids: Sequence[UUID], *, at: datetime) -> int:
        """Have events delivered (again) that are named; return how many.

        What the endpoint has not come to yet is left to its turn.
        """
        query = _REDELIVER.format(wanted=_NAMED)
        parameters = {"webhook_id": self._webhook_id, "at": at, "limit": len(event_ids), "event_ids": list(event_ids)}
        cursor = await self._connection.execute(query.encode(), parameters)
        return cursor.rowcount

    async def redeliver_between(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        at: datetime,
        limit: int,
        states: Collection[str],
        after: int = 0,
        through: int = FEED_END,
    ) -> int:
        """Have events of a time delivered (again) that the endpoint wants, the first ones; return how many.

        ``states`` are those of their deliveries, ``missed`` being that of an event without one; ``after`` and
        ``through`` are places of the feed. What the endpoint has not come to yet is left to its turn.
        """
        parameters = {
            "webhook_id": self._webhook_id,
            "at": at,
            "limit": limit,
            "since": since,
            "until": until,
            "states": list(states),
            "after": after,
            "through": through,
            "all": ALL_EVENTS,
        }
        cursor = await self._connection.execute(_REDELIVER.format(wanted=_BETWEEN).encode(), parameters)
        return cursor.rowcount

    async def page(self, page: PageRequest, query: WebhookDeliveryQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of the deliveries."""
        selection = Selection(columns=_COLUMNS, source="webhook_delivery d", id_column="d.event_id")
        selection.where("d.webhook_id = %(webhook_id)s", webhook_id=self._webhook_id)
        found = equalities(query, {"status": "d.status", "type": "d.type", "resource_id": "d.resource_id"})
        found += ranges(query, {"created_from": "d.created_at >=", "created_to": "d.created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)


def _message(row: dict[str, Any]) -> Message:
    return Message(
        position=row["position"],
        event_id=row["id"],
        type=row["type"],
        resource_id=row["resource_id"],
        occurred_at=row["occurred_at"],
        data=row["data"],
        attempts=row.get("attempts", 0),
    )
