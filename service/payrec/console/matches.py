"""``/console/{environment}/matches/{id}``: one match, what it joins, and all that became of it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from payrec.console.rendering import page
from payrec.console.review import item_values
from payrec.handlers.context import Context, ResourceId

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@router.get("/matches/{match_id}")
async def match(context: Context, match_id: ResourceId) -> Response:
    """Show one match: why it was proposed, who decided what and when, and the records of it."""
    found = await context.factory.create_review_service().item(context.caller, match_id)
    record = await context.factory.create_match_record_service().get(context.caller, match_id)
    actors = [state.decided_by for state in record.states] + [one.actor for one in record.audit]
    return page(context, "match.html", record=record, **await item_values(context, found, *actors))
