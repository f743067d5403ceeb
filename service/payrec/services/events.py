"""The feed of events: read from a place on, in an order that is right for each resource."""

from __future__ import annotations

from typing import Any, Final

from payrec.domain.caller import Caller
from payrec.domain.events import told
from payrec.errors import NotFoundError
from payrec.models.common import Page
from payrec.models.events import EventPublic, EventQuery
from payrec.services.paging import Pager
from payrec.services.validation import identifier
from payrec.services.work import Work
from payrec.storage.events import BY_POSITION, EventStore

COLLECTION: Final = "/events"


class EventService:
    """Lists the events of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def get(self, caller: Caller, event_id: str) -> EventPublic:
        """Return an event.

        Raises
        ------
        NotFoundError
            There is none of this id, or its time is over.
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await EventStore(connection).get(identifier(event_id))
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: EventQuery) -> Page[EventPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_POSITION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await EventStore(connection).page(listing.request, query)
        return listing.page(
            EventPublic,
            rows,
            data=[public_of(row) for row in rows],
            more=more,
        )


def public_of(row: dict[str, Any]) -> EventPublic:
    """Return the resource of a stored event."""
    data = told(row["type"], row["resource_id"], row["data"])
    return EventPublic.model_validate({**row, "created_at": row["occurred_at"], "data": data})
