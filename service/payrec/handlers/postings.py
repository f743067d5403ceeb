"""``/postings``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import ConflictError, InvalidCursorError, ValidationFailedError
from payrec.handlers.context import Context, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.postings import (
    PostingAcknowledge,
    PostingAcknowledgementPublic,
    PostingAcknowledgementQuery,
    PostingPublic,
    PostingQuery,
)
from payrec.services.paging import link_header

PostingList = Annotated[PostingQuery, Depends(query_of(PostingQuery))]
AcknowledgementList = Annotated[PostingAcknowledgementQuery, Depends(query_of(PostingAcknowledgementQuery))]

router = GatedRouter(tags=["postings"])


@router.get(
    "/postings",
    summary="Read postings",
    response_model=Page[PostingPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(PostingQuery),
)
async def list_(context: Context, query: PostingList) -> Response:
    """Read what the books are given, in its order. With `after` the last sequence seen, nobody misses a posting."""
    page, cursor = await context.factory.create_posting_service().page(context.caller, query)
    headers = {} if cursor is None else {"Link": link_header(context.request.url.path, query, cursor)}
    return Response(page, headers=headers, media_type="application/json")


@router.post(
    "/postings/acknowledgements",
    summary="Acknowledge postings",
    status_code=201,
    response_model=PostingAcknowledgementPublic,
    responses={
        200: {"description": "The batch was acknowledged before.", "model": PostingAcknowledgementPublic},
        **problems(ConflictError, ValidationFailedError),
    },
)
async def acknowledge(context: Context, given: PostingAcknowledge) -> Response:
    """Say that all postings through one are in the books, as a batch of theirs. The same again is 200."""
    acknowledged, status = await context.factory.create_posting_service().acknowledge(context.caller, given)
    return respond(acknowledged, status)


@router.get(
    "/postings/acknowledgements",
    summary="List acknowledgements of postings",
    response_model=Page[PostingAcknowledgementPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(PostingAcknowledgementQuery),
)
async def acknowledgements(context: Context, query: AcknowledgementList) -> Response:
    """List what was taken over, and by which batch."""
    page = await context.factory.create_posting_service().acknowledgements(context.caller, query)
    return respond_page(context, page, query)
