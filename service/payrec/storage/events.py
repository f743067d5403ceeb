"""The feed of events, as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.domain.retention import Removed
from payrec.models.events import EventQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, SortKey, select_page
from payrec.storage.rows import columns_of, fetch_all, fetch_one
from payrec.tables.events import Event

_COLUMNS: Final = columns_of(Event)
_DROP: Final = """
    WITH old AS MATERIALIZED (
        -- What is not posted yet stays until it is.
        SELECT position FROM event WHERE occurred_at < %(before)s
            AND position <= (SELECT coalesce(max(position), 0) FROM posting_feed)
        ORDER BY occurred_at LIMIT %(limit)s
    ), delivery AS (
        DELETE FROM webhook_delivery d USING old WHERE d.position = old.position RETURNING d.created_at AS at
    ), gone AS (
        DELETE FROM event e USING old WHERE e.position = old.position RETURNING e.occurred_at AS at
    )
    SELECT 'events' AS kind, count(*) AS count, min(at) AS oldest, max(at) AS newest FROM gone
    UNION ALL
    SELECT 'webhook_deliveries', count(*), min(at), max(at) FROM delivery
"""

BY_POSITION: Final = {
    "createdAt": SortKey(expression="position", descending=False, name="position"),
    "-createdAt": SortKey(expression="position", descending=True, name="position"),
}
"""The feed's order: the events of one resource in the order in which they happened."""


class EventStore:
    """``event`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, event_id: UUID) -> dict[str, Any] | None:
        """Return an event."""
        query = f"SELECT {_COLUMNS} FROM event WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (event_id,))

    async def page(self, page: PageRequest, query: EventQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of events."""
        selection = Selection(columns=_COLUMNS, source="event", id_column="id")
        found = equalities(query, {"type": "type", "resource_id": "resource_id"})
        found += ranges(
            query,
            {
                "after": "position >",
                "from_": "occurred_at >=",
                "to": "occurred_at <=",
                "created_from": "occurred_at >=",
                "created_to": "occurred_at <=",
            },
        )
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def head(self) -> int:
        """Return the place of the newest event that ever was; 0 before the first."""
        row = await fetch_one(self._connection, "SELECT position FROM event_feed")
        return int(row["position"]) if row is not None else 0

    async def span(self, since: datetime, until: datetime | None) -> tuple[int, int] | None:
        """Return the first and the last place of events of a time; None where there are none."""
        query = """
            SELECT min(position) AS first, max(position) AS last FROM event
            WHERE occurred_at >= %s AND occurred_at <= coalesce(%s, 'infinity'::timestamptz)
        """
        row = await fetch_one(self._connection, query, (since, until))
        return None if row is None or row["first"] is None else (row["first"], row["last"])

    async def has_events(self, *, before: datetime) -> bool:
        """Tell whether there are events of changes before an instant."""
        query = "SELECT 1 FROM event WHERE occurred_at < %s ORDER BY occurred_at LIMIT 1"
        return await fetch_one(self._connection, query, (before,)) is not None

    async def drop_events(self, *, before: datetime, limit: int) -> dict[str, Removed]:
        """Delete events of changes before an instant, with their deliveries; return what that was, of either kind."""
        rows = await fetch_all(self._connection, _DROP, {"before": before, "limit": limit})
        return {row.pop("kind"): Removed(**row) for row in rows}
