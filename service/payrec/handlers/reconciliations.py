"""``/accounts/{account_id}/reconciliation``: what explains the balance of an account."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import AsOfOutOfRangeError, InvalidCursorError, NotFoundError, ValidationFailedError
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
from payrec.models.reconciliations import (
    ReconciliationLine,
    ReconciliationLineQuery,
    ReconciliationQuery,
    ReconciliationStatement,
)

Statement = Annotated[ReconciliationQuery, Depends(query_of(ReconciliationQuery))]
LineList = Annotated[ReconciliationLineQuery, Depends(query_of(ReconciliationLineQuery))]

router = GatedRouter(tags=["accounts"])


@router.get(
    "/accounts/{account_id}/reconciliation",
    summary="Reconciliation statement of an account",
    response_model=ReconciliationStatement,
    responses=problems(NotFoundError, AsOfOutOfRangeError, ValidationFailedError),
    openapi_extra=query_parameters(ReconciliationQuery),
)
async def statement(context: Context, account_id: ResourceId, query: Statement) -> Response:
    """Return what explains the account's balance at a cut-off: now, or as it was known at an instant (asOf)."""
    service = context.factory.create_reconciliation_service()
    return respond(await service.statement(context.caller, account_id, query))


@router.get(
    "/accounts/{account_id}/reconciliation/lines",
    summary="Lines of a reconciliation statement",
    response_model=Page[ReconciliationLine],
    responses=problems(NotFoundError, AsOfOutOfRangeError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(ReconciliationLineQuery),
)
async def lines(context: Context, account_id: ResourceId, query: LineList) -> Response:
    """Return the lines that have a share in a part of the statement, by booking date."""
    page = await context.factory.create_reconciliation_service().lines(context.caller, account_id, query)
    return respond_page(context, page, query)
