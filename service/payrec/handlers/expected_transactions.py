"""``/expected-transactions``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    AmountOutOfRangeError,
    AsOfOutOfRangeError,
    ConflictError,
    DuplicateExternalIdError,
    InvalidCursorError,
    NotFoundError,
    PayloadTooLargeError,
    UnreadableFileError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.bodies import received, upload_body
from payrec.handlers.context import (
    Context,
    IfMatch,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_import,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import AsOfQuery, BulkResults, Page
from payrec.models.expected_transactions import (
    ExpectedTransactionCreate,
    ExpectedTransactionPatch,
    ExpectedTransactionPublic,
    ExpectedTransactionQuery,
    ExpectedTransactionsBulk,
    ExpectedTransactionVoid,
    ExpectedUploadOptions,
)
from payrec.models.imports import ImportPublic

ExpectedTransactionList = Annotated[ExpectedTransactionQuery, Depends(query_of(ExpectedTransactionQuery))]
AsOf = Annotated[AsOfQuery, Depends(query_of(AsOfQuery))]

router = GatedRouter(tags=["expected transactions"])


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
    responses=problems(AsOfOutOfRangeError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(ExpectedTransactionQuery),
)
async def list_(context: Context, query: ExpectedTransactionList) -> Response:
    """List expected transactions, newest first unless sorted otherwise."""
    page = await context.factory.create_expected_transaction_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.post(
    "/expected-transactions/upload",
    summary="Upload expected transactions",
    status_code=201,
    response_model=ImportPublic,
    responses={
        200: {"description": "The same file with the same options came before: its import.", "model": ImportPublic},
        202: {"description": "A worker reads the file; Location is its job.", "model": ImportPublic},
        **problems(UnreadableFileError, ValidationFailedError, PayloadTooLargeError),
    },
    openapi_extra=upload_body(ExpectedUploadOptions),
)
async def upload(context: Context) -> Response:
    """Upload JSON, JSON lines or a CSV whose header names the fields. A record is known by its `externalId`.

    What is stored already is a duplicate; with another amount, currency or direction it is rejected.
    """
    async with received(context.request, ExpectedUploadOptions) as (file, options):
        created, status = await context.factory.create_import_service().upload(context.caller, file, options)
    return respond_import(created, status)


@router.post(
    "/expected-transactions/bulk",
    summary="Create many expected transactions",
    response_model=BulkResults,
    responses=problems(ValidationFailedError),
)
async def create_many(context: Context, given: ExpectedTransactionsBulk) -> Response:
    """State up to 10,000 at once; each item succeeds or fails by itself."""
    return respond(await context.factory.create_expected_bulk_service().create(context.caller, given))


@router.get(
    "/expected-transactions/{transaction_id}",
    summary="Get an expected transaction",
    response_model=ExpectedTransactionPublic,
    responses=problems(AsOfOutOfRangeError, NotFoundError, ValidationFailedError),
    openapi_extra=query_parameters(AsOfQuery),
)
async def get(context: Context, transaction_id: ResourceId, query: AsOf) -> Response:
    """Return one expected transaction and what became of it."""
    found = await context.factory.create_expected_transaction_service().get(
        context.caller, transaction_id, as_of=query.as_of
    )
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.patch(
    "/expected-transactions/{transaction_id}",
    summary="Update an expected transaction",
    response_model=ExpectedTransactionPublic,
    responses=problems(
        NotFoundError,
        VersionMismatchError,
        ConflictError,
        DuplicateExternalIdError,
        AmountOutOfRangeError,
        ValidationFailedError,
    ),
)
async def patch(
    context: Context, transaction_id: ResourceId, given: ExpectedTransactionPatch, if_match: IfMatch
) -> Response:
    """Change fields: all of them while nothing is matched; later description, metadata and dates. null removes."""
    service = context.factory.create_expected_change_service()
    changed = await service.patch(context.caller, transaction_id, given, if_match)
    return respond(changed, headers={"ETag": changed.headers["ETag"]})


@router.post(
    "/expected-transactions/{transaction_id}/void",
    summary="Void an expected transaction",
    response_model=ExpectedTransactionPublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, ValidationFailedError),
)
async def void(
    context: Context, transaction_id: ResourceId, given: ExpectedTransactionVoid, if_match: IfMatch
) -> Response:
    """Say that it is not expected any more, while nothing of it is matched. Proposals that join it are superseded."""
    service = context.factory.create_expected_change_service()
    voided = await service.void(context.caller, transaction_id, given, if_match)
    return respond(voided, headers={"ETag": voided.headers["ETag"]})
