"""``/remittance-advices``."""

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
    respond,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.remittance_advices import (
    RemittanceAdviceCreate,
    RemittanceAdviceListed,
    RemittanceAdvicePublic,
    RemittanceAdviceQuery,
)

RemittanceAdviceList = Annotated[RemittanceAdviceQuery, Depends(query_of(RemittanceAdviceQuery))]

router = GatedRouter(tags=["remittance advices"])


@router.post(
    "/remittance-advices",
    summary="Say what a payment is for",
    status_code=201,
    response_model=RemittanceAdvicePublic,
    responses=problems(ValidationFailedError),
)
async def create(context: Context, given: RemittanceAdviceCreate) -> Response:
    """Store which items a payment covers, before or after the payment and the items are there."""
    created = await context.factory.create_remittance_advice_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/remittance-advices",
    summary="List remittance advices",
    response_model=Page[RemittanceAdviceListed],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(RemittanceAdviceQuery),
)
async def list_(context: Context, query: RemittanceAdviceList) -> Response:
    """List remittance advices without their lines."""
    page = await context.factory.create_remittance_advice_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/remittance-advices/{advice_id}",
    summary="Get a remittance advice",
    response_model=RemittanceAdvicePublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, advice_id: ResourceId) -> Response:
    """Return one remittance advice with its lines."""
    found = await context.factory.create_remittance_advice_service().get(context.caller, advice_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})
