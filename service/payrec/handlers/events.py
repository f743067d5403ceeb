"""``/events``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import InvalidCursorError, NotFoundError, ValidationFailedError
from payrec.handlers.context import Context, ResourceId, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.events import EventPublic, EventQuery

EventList = Annotated[EventQuery, Depends(query_of(EventQuery))]

router = GatedRouter(tags=["events"])


@router.get(
    "/events",
    summary="List events",
    response_model=Page[EventPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(EventQuery),
)
async def list_(context: Context, query: EventList) -> Response:
    """List what happened. With `sort=createdAt` and `after` the last position seen, a poll misses no event."""
    page = await context.factory.create_event_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get("/events/{event_id}", summary="Get an event", response_model=EventPublic, responses=problems(NotFoundError))
async def get(context: Context, event_id: ResourceId) -> Response:
    """Return one event."""
    return respond(await context.factory.create_event_service().get(context.caller, event_id))
