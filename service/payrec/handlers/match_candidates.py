"""Candidates of one open transaction, of either side."""

from __future__ import annotations

from fastapi.responses import Response

from payrec.errors import NotFoundError
from payrec.handlers.context import Context, ResourceId, problems, respond, while_asked
from payrec.handlers.routing import GatedRouter
from payrec.models.match_candidates import MatchCandidateList

router = GatedRouter(tags=["matches"])


@router.get(
    "/expected-transactions/{transaction_id}/candidates",
    summary="Nearest candidates of an expected transaction",
    response_model=MatchCandidateList,
    responses=problems(NotFoundError),
)
async def of_expected(context: Context, transaction_id: ResourceId) -> Response:
    """Return the incoming transactions that come nearest to what is open, and what each would need to be proposed."""
    service = context.factory.create_match_candidate_service()
    return respond(await while_asked(context, service.of_expected(context.caller, transaction_id)))


@router.get(
    "/incoming-transactions/{transaction_id}/candidates",
    summary="Nearest candidates of an incoming transaction",
    response_model=MatchCandidateList,
    responses=problems(NotFoundError),
)
async def of_incoming(context: Context, transaction_id: ResourceId) -> Response:
    """Return the expected transactions that come nearest to what is open, and what each would need to be proposed."""
    service = context.factory.create_match_candidate_service()
    return respond(await while_asked(context, service.of_incoming(context.caller, transaction_id)))
