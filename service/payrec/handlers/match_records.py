"""``/matches/{match_id}/record``."""

from __future__ import annotations

from fastapi.responses import Response

from payrec.errors import NotFoundError
from payrec.handlers.context import Context, ResourceId, problems, respond
from payrec.handlers.routing import GatedRouter
from payrec.models.match_records import MatchRecordPublic

router = GatedRouter(tags=["matches"])


@router.get(
    "/matches/{match_id}/record",
    summary="Get the record of a match",
    response_model=MatchRecordPublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, match_id: ResourceId) -> Response:
    """Return everything known of a match: its states, transactions, files, evidence, and audit records with seals."""
    return respond(await context.factory.create_match_record_service().get(context.caller, match_id))
