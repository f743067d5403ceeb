"""What else would fit, beside a match."""

from __future__ import annotations

from fastapi.responses import Response

from payrec.errors import NotFoundError
from payrec.handlers.context import Context, ResourceId, problems, respond
from payrec.handlers.routing import GatedRouter
from payrec.models.match_alternatives import MatchAlternativeList

router = GatedRouter(tags=["matches"])


@router.get(
    "/matches/{match_id}/alternatives",
    summary="What else would fit",
    response_model=MatchAlternativeList,
    responses=problems(NotFoundError),
)
async def of_match(context: Context, match_id: ResourceId) -> Response:
    """Return what would fit in the place of the match's transactions: what its run has seen, and what is near."""
    return respond(await context.factory.create_match_alternative_service().of_match(context.caller, match_id))
