"""``/privacy/erasures``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    ConflictError,
    InvalidCursorError,
    MatchRunInProgressError,
    NotFoundError,
    ValidationFailedError,
)
from payrec.handlers.context import (
    Context,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.erasures import ErasureCreate, ErasurePublic, ErasureQuery

ErasureList = Annotated[ErasureQuery, Depends(query_of(ErasureQuery))]

router = GatedRouter(tags=["privacy"])


@router.post(
    "/privacy/erasures",
    summary="Erase texts of a counterparty or a user",
    status_code=201,
    response_model=ErasurePublic,
    responses={
        202: {"model": ErasurePublic, "description": "A job erases."},
        **problems(ConflictError, MatchRunInProgressError, ValidationFailedError),
    },
)
async def create(context: Context, given: ErasureCreate) -> Response:
    """Erase for good, everywhere in the environment; what a duty or a file keeps is told with the day until when.

    Amounts, dates and references stay, and so does what was decided. Where there is much to look through, a job does it
    (202, with its Location).
    """
    made, status, headers = await context.factory.create_erasure_service().erase(context.caller, given)
    return respond(made, status, headers)


@router.get(
    "/privacy/erasures",
    summary="List erasures",
    response_model=Page[ErasurePublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(ErasureQuery),
)
async def list_(context: Context, query: ErasureList) -> Response:
    """List what was erased, by numbers: what it was is not known any more."""
    page = await context.factory.create_erasure_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/privacy/erasures/{erasure_id}",
    summary="Get an erasure",
    response_model=ErasurePublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, erasure_id: ResourceId) -> Response:
    """Return one erasure."""
    found = await context.factory.create_erasure_service().get(context.caller, erasure_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})
