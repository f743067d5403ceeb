"""``/reports``: summary, ageing, open balances and exceptions."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import AsOfOutOfRangeError, InvalidCursorError, ValidationFailedError
from payrec.handlers.context import Context, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRouter
from payrec.models.reports import (
    AgeingQuery,
    AgeingReport,
    ExceptionsReport,
    OpenBalancesQuery,
    OpenBalancesReport,
    ReportQuery,
    SummaryReport,
)

Report = Annotated[ReportQuery, Depends(query_of(ReportQuery))]
Ageing = Annotated[AgeingQuery, Depends(query_of(AgeingQuery))]
OpenBalances = Annotated[OpenBalancesQuery, Depends(query_of(OpenBalancesQuery))]

router = GatedRouter(tags=["reports"])


@router.get(
    "/reports/summary",
    summary="Summary of reconciliation",
    response_model=SummaryReport,
    responses=problems(AsOfOutOfRangeError, ValidationFailedError),
    openapi_extra=query_parameters(ReportQuery),
)
async def summary(context: Context, query: Report) -> Response:
    """Return counts, amounts and match rates by currency and direction, and altogether; now, or as it was (asOf)."""
    return respond(await context.factory.create_report_service().summary(context.caller, query))


@router.get(
    "/reports/ageing",
    summary="Open items by due date",
    response_model=AgeingReport,
    responses=problems(AsOfOutOfRangeError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(AgeingQuery),
)
async def ageing(context: Context, query: Ageing) -> Response:
    """Return what is open of the expected transactions by the days since it was due, on the tenant's day."""
    report = await context.factory.create_report_service().ageing(context.caller, query)
    return respond_page(context, report, query)


@router.get(
    "/reports/open-balances",
    summary="Open balances by account or counterparty",
    response_model=OpenBalancesReport,
    responses=problems(AsOfOutOfRangeError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(OpenBalancesQuery),
)
async def open_balances(context: Context, query: OpenBalances) -> Response:
    """Return what is open of both sides, by account or counterparty."""
    report = await context.factory.create_report_service().open_balances(context.caller, query)
    return respond_page(context, report, query)


@router.get(
    "/reports/exceptions",
    summary="Open transactions by reason",
    response_model=ExceptionsReport,
    responses=problems(AsOfOutOfRangeError, ValidationFailedError),
    openapi_extra=query_parameters(ReportQuery),
)
async def exceptions(context: Context, query: Report) -> Response:
    """Return why transactions are open: counts, amounts, the oldest, and the list, for each reason."""
    return respond(await context.factory.create_report_service().exceptions(context.caller, query))
