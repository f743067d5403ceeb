"""``/expected-transactions``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from payrec.errors import DuplicateExternalIdError, InvalidCursorError, NotFoundError, ValidationFailedError
from payrec.handlers.context import Context, ResourceId, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRoute
from payrec.models.common import Page
from payrec.models.expected_transactions import (
    ExpectedTransactionCreate,
    ExpectedTransactionPublic,
    ExpectedTransactionQuery,
)

ExpectedTransactionList = Annotated[ExpectedTransactionQuery, Depends(query_of(ExpectedTransactionQuery))]

router = APIRouter(tags=["expected transactions"], route_class=GatedRoute)


@router.post(
    "/expected-transactions",
    summary="Create an expected transaction",
    status_code=201,
    response_model=ExpectedTransactionPublic,
    responses=problems(DuplicateExternalIdError, ValidationFailedError),
)
async def create(context: Context, given: ExpectedTransactionCreate) -> Response:
    """State something that the company expects to be paid, or to pay."""
    created = await context.factory.create_expected_transaction_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/expected-transactions",
    summary="List expected transactions",
    response_model=Page[ExpectedTransactionPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(ExpectedTransactionQuery),
)
async def list_(context: Context, query: ExpectedTransactionList) -> Response:
    """List expected transactions, newest first unless sorted otherwise."""
    page = await context.factory.create_expected_transaction_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/expected-transactions/{transaction_id}",
    summary="Get an expected transaction",
    response_model=ExpectedTransactionPublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, transaction_id: ResourceId) -> Response:
    """Return one expected transaction and what became of it."""
    found = await context.factory.create_expected_transaction_service().get(context.caller, transaction_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})
