"""``/console/{environment}/review``: what waits for a person, one after the other."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import StringConstraints

from payrec.console.formatting import visible
from payrec.console.highlights import Highlights
from payrec.console.rendering import page
from payrec.domain.money import exponent
from payrec.domain.review_order import QueueStatus
from payrec.handlers.context import Context, RequestContext, ResourceId, query_of, while_asked
from payrec.models.common import Currency
from payrec.models.forms import FormQuery
from payrec.models.matches import Confidence
from payrec.services.review import Direction, Queue, QueueQuery, ReviewItem


class ReviewQuery(FormQuery):
    """Which part of the queue, and where in it."""

    status: QueueStatus = "proposed"
    currency: Currency | None = None
    confidence: Confidence | None = None
    match: Annotated[str, StringConstraints(max_length=36)] | None = None
    direction: Direction = "from"


Shown = Annotated[ReviewQuery, Depends(query_of(ReviewQuery))]

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@router.get("/review")
async def review(context: Context, query: Shown) -> Response:
    """Show the queue from where somebody was, and what is first in it."""
    queue = await _queue(context, query)
    shown = next((str(row["id"]) for row in queue.rows), None)
    service = context.factory.create_review_service()
    values = await item_values(context, await service.item(context.caller, shown)) if shown is not None else {}
    asked = None if query.match is None or query.direction != "from" else query.match.lower()
    gone = asked if asked != shown else None
    return page(context, "review.html", **{**_queue_values(query, queue), **values, "current": shown, "gone": gone})


@router.get("/review/queue")
async def rows(context: Context, query: Shown) -> Response:
    """Return more of the queue, behind a match or before it."""
    queue = await _queue(context, query)
    return page(context, "review_rows.html", **_queue_values(query, queue), current=None)


@router.get("/review/items/{match_id}")
async def item(context: Context, match_id: ResourceId) -> Response:
    """Return one match as it is decided."""
    found = await context.factory.create_review_service().item(context.caller, match_id)
    return page(context, "review_item.html", **await item_values(context, found))


@router.get("/review/items/{match_id}/choices")
async def choices(context: Context, match_id: ResourceId) -> Response:
    """Return what might be matched instead. Apart from the match, because it looks at all that is open."""
    service = context.factory.create_review_service()
    found = await while_asked(context, service.choices(context.caller, match_id))
    return page(context, "review_choices.html", choices=found, exponent=exponent)


async def _queue(context: RequestContext, query: ReviewQuery) -> Queue:
    wanted = QueueQuery(
        status=query.status,
        currency=query.currency,
        confidence=query.confidence,
        match_id=query.match,
        direction=query.direction,
    )
    return await context.factory.create_review_service().queue(context.caller, wanted)


def _queue_values(query: ReviewQuery, queue: Queue) -> dict[str, Any]:
    return {
        "query": query,
        "queue": queue,
        "exponent": exponent,
    }


async def item_values(context: RequestContext, found: ReviewItem, *actors: str | None) -> dict[str, Any]:
    """Return what the templates of a match are rendered with; ``actors`` are others whom they name."""
    service = context.factory.create_actor_name_service()
    names = await service.names(context.caller, [found.match.created_by, found.match.decided_by, *actors])
    highlights = Highlights(found.match.evidence, items=found.items, lines=found.lines)
    return {
        "found": found,
        "match": found.match,
        "names": names,
        "highlights": highlights,
        "visible": visible,
        "exponent": exponent,
    }
