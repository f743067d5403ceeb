"""The feed of events, as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from payrec.models.events import EventQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, SortKey, select_page
from payrec.storage.rows import columns_of, fetch_one
from payrec.tables.events import Event

_COLUMNS: Final = columns_of(Event)
_PRUNE: Final = """
    WITH old AS MATERIALIZED (
        SELECT position FROM event WHERE occurred_at < clock_timestamp() - %(age)s ORDER BY occurred_at LIMIT %(limit)s
    ), forgotten AS (
        DELETE FROM webhook_delivery d USING old WHERE d.position = old.position
    )
    DELETE FROM event e USING old WHERE e.position = old.position
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

    async def prune(self, age: timedelta, *, limit: int) -> int:
        """Delete events older than ``age``, with their deliveries; return how many were deleted."""
        cursor = await self._connection.execute(_PRUNE, {"age": age, "limit": limit})
        return cursor.rowcount
