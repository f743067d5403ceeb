"""``/matching/rejections``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import InvalidCursorError, NotFoundError, ValidationFailedError
from payrec.handlers.context import (
    Context,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.match_rejections import MatchRejectionPublic, MatchRejectionQuery

RejectionList = Annotated[MatchRejectionQuery, Depends(query_of(MatchRejectionQuery))]

router = GatedRouter(tags=["matching"])


@router.get(
    "/matching/rejections",
    summary="List rejections",
    response_model=Page[MatchRejectionPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(MatchRejectionQuery),
)
async def list_(context: Context, query: RejectionList) -> Response:
    """List the rejected and reversed matches that are not proposed again, with who decided and why, newest first."""
    page = await context.factory.create_match_rejection_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.delete(
    "/matching/rejections/{match_id}",
    summary="Forget a rejection",
    status_code=204,
    responses=problems(NotFoundError),
)
async def forget(context: Context, match_id: ResourceId) -> Response:
    """Forget that a match was rejected or reversed: the next run may propose the same again. Again is the same."""
    await context.factory.create_match_rejection_service().forget(context.caller, match_id)
    return Response(status_code=204)
