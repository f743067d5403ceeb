"""``/fx-rates``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import InvalidCursorError, PayloadTooLargeError, UnreadableFileError, ValidationFailedError
from payrec.handlers.bodies import received, upload_body
from payrec.handlers.context import Context, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRouter
from payrec.models.common import BulkResults, Page
from payrec.models.fx_rates import FxRateFileOptions, FxRatePublic, FxRateQuery, FxRatesPut, FxRatesUploaded

FxRateList = Annotated[FxRateQuery, Depends(query_of(FxRateQuery))]

router = GatedRouter(tags=["exchange rates"])


@router.put(
    "/fx-rates",
    summary="Store exchange rates",
    response_model=BulkResults,
    responses=problems(ValidationFailedError),
)
async def put(context: Context, given: FxRatesPut) -> Response:
    """Store rates, in the place of those of the same day and currencies; each item succeeds or fails by itself."""
    return respond(await context.factory.create_fx_rate_service().put(context.caller, given))


@router.get(
    "/fx-rates",
    summary="List exchange rates",
    response_model=Page[FxRatePublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(FxRateQuery),
)
async def list_(context: Context, query: FxRateList) -> Response:
    """List exchange rates, the last stored first unless sorted otherwise."""
    page = await context.factory.create_fx_rate_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.post(
    "/fx-rates/upload",
    summary="Upload a file of exchange rates",
    response_model=FxRatesUploaded,
    responses=problems(UnreadableFileError, ValidationFailedError, PayloadTooLargeError),
    openapi_extra=upload_body(FxRateFileOptions),
)
async def upload(context: Context) -> Response:
    """Store the rates of a file of the European Central Bank, its CSV (in its zip or not) or XML: all or none of it."""
    async with received(context.request, FxRateFileOptions) as (file, options):
        return respond(await context.factory.create_ecb_rate_service().upload(context.caller, file, options))
