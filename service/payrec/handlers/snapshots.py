"""``/expected-transactions/snapshots``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    AmountOutOfRangeError,
    AsOfOutOfRangeError,
    ControlTotalsMismatchError,
    InvalidCursorError,
    NotFoundError,
    PayloadTooLargeError,
    UnreadableFileError,
    ValidationFailedError,
)
from payrec.handlers.bodies import received, upload_body
from payrec.handlers.context import (
    Context,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_import,
    respond_page,
)
from payrec.handlers.downloads import VARIES, prefers_csv, respond_download
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.snapshots import Difference, DifferenceQuery, SnapshotOptions, SnapshotPublic, SnapshotQuery
from payrec.services.csv_text import CSV_MEDIA_TYPE

SnapshotList = Annotated[SnapshotQuery, Depends(query_of(SnapshotQuery))]
DifferenceList = Annotated[DifferenceQuery, Depends(query_of(DifferenceQuery))]

router = GatedRouter(tags=["expected transactions"])


@router.post(
    "/expected-transactions/snapshots",
    summary="Compare a snapshot",
    status_code=201,
    response_model=SnapshotPublic,
    responses={
        200: {"description": "The same file with the same options came before: its snapshot.", "model": SnapshotPublic},
        202: {"description": "A worker compares the file; Location is its job.", "model": SnapshotPublic},
        **problems(
            UnreadableFileError,
            ValidationFailedError,
            AmountOutOfRangeError,
            AsOfOutOfRangeError,
            ControlTotalsMismatchError,
            PayloadTooLargeError,
        ),
    },
    openapi_extra=upload_body(SnapshotOptions),
)
async def upload(context: Context) -> Response:
    """Compare what another system has open with what was open here at that instant.

    JSON, JSON lines or a CSV of `externalId`, `openAmountMinor` or `openAmount`, `currency` and `direction`. A file
    that has a wrong record, or other totals than `controlTotals`, is refused. With `apply`, what is missing here is
    created where the record says what creation needs.
    """
    async with received(context.request, SnapshotOptions) as (file, options):
        created, status = await context.factory.create_import_service().upload(context.caller, file, options)
    return respond_import(created, status)


@router.get(
    "/expected-transactions/snapshots",
    summary="List snapshots",
    response_model=Page[SnapshotPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(SnapshotQuery),
)
async def list_(context: Context, query: SnapshotList) -> Response:
    """List snapshots, newest first."""
    page = await context.factory.create_snapshot_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/expected-transactions/snapshots/{snapshot_id}",
    summary="Get a snapshot",
    response_model=SnapshotPublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, snapshot_id: ResourceId) -> Response:
    """Return how a snapshot compares with what was open here."""
    found = await context.factory.create_snapshot_service().get(context.caller, snapshot_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.get(
    "/expected-transactions/snapshots/{snapshot_id}/differences",
    summary="List a snapshot's differences",
    response_model=Page[Difference],
    responses={
        200: {"content": {CSV_MEDIA_TYPE: {"schema": {"type": "string"}}}},
        **problems(NotFoundError, InvalidCursorError, ValidationFailedError),
    },
    openapi_extra=query_parameters(DifferenceQuery),
)
async def differences(context: Context, snapshot_id: ResourceId, query: DifferenceList) -> Response:
    """List the differences of a snapshot, by kind and externalId.

    With `Accept: text/csv` all of them come as one CSV, without pages.
    """
    service = context.factory.create_snapshot_service()
    if prefers_csv(context.request):
        lines = await service.differences_csv(context.caller, snapshot_id)
        return respond_download(lines, name=f"{snapshot_id}-differences.csv", media_type=CSV_MEDIA_TYPE, headers=VARIES)
    page = await service.differences(context.caller, snapshot_id, query)
    return respond_page(context, page, query, headers=VARIES)
