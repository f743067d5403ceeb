"""``/incoming-transactions``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends
from fastapi.responses import Response

from payrec.errors import (
    AmountExceedsOpenError,
    AsOfOutOfRangeError,
    ConflictError,
    DuplicateExternalIdError,
    InvalidCursorError,
    NotFoundError,
    PayloadTooLargeError,
    PeriodLockedError,
    UnreadableFileError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.bodies import upload_body, uploaded
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
from payrec.models.imports import ImportPublic, UploadOptions
from payrec.models.incoming_transactions import (
    IncomingTransactionClassify,
    IncomingTransactionCreate,
    IncomingTransactionIgnore,
    IncomingTransactionPublic,
    IncomingTransactionQuery,
    IncomingTransactionRestore,
    IncomingTransactionsCreate,
    ReversalLinkCreate,
)

UPLOAD_BODY = upload_body(UploadOptions)

IncomingTransactionList = Annotated[IncomingTransactionQuery, Depends(query_of(IncomingTransactionQuery))]
AsOf = Annotated[AsOfQuery, Depends(query_of(AsOfQuery))]

router = GatedRouter(tags=["incoming transactions"])


@router.post(
    "/incoming-transactions",
    summary="Create an incoming transaction",
    status_code=201,
    response_model=IncomingTransactionPublic,
    responses=problems(DuplicateExternalIdError, ValidationFailedError),
)
async def create(context: Context, given: IncomingTransactionCreate) -> Response:
    """State one movement on an account. Files go to ``/incoming-transactions/upload``."""
    created = await context.factory.create_incoming_transaction_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/incoming-transactions",
    summary="List incoming transactions",
    response_model=Page[IncomingTransactionPublic],
    responses=problems(AsOfOutOfRangeError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(IncomingTransactionQuery),
)
async def list_(context: Context, query: IncomingTransactionList) -> Response:
    """List incoming transactions, newest first unless sorted otherwise."""
    page = await context.factory.create_incoming_transaction_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.post(
    "/incoming-transactions/upload",
    summary="Upload incoming transactions",
    status_code=201,
    response_model=ImportPublic,
    responses={
        200: {"description": "The same file with the same options came before: its import.", "model": ImportPublic},
        202: {"description": "A worker reads the file; Location is its job.", "model": ImportPublic},
        **problems(UnreadableFileError, ValidationFailedError, PayloadTooLargeError, NotFoundError, ConflictError),
    },
    openapi_extra=UPLOAD_BODY,
)
async def upload(context: Context) -> Response:
    """Upload a bank file or JSON: its records are accepted, duplicate, skipped by a rule, or rejected with a reason."""
    async with uploaded(context.request) as (file, options):
        created, status = await context.factory.create_import_service().upload(context.caller, file, options)
    return respond_import(created, status)


@router.post(
    "/incoming-transactions/bulk",
    summary="Create many incoming transactions",
    response_model=BulkResults,
    responses=problems(ValidationFailedError),
)
async def create_many(context: Context, given: IncomingTransactionsCreate) -> Response:
    """State up to 10,000 at once; each item succeeds or fails by itself."""
    return respond(await context.factory.create_incoming_bulk_service().create(context.caller, given))


@router.get(
    "/incoming-transactions/{transaction_id}",
    summary="Get an incoming transaction",
    response_model=IncomingTransactionPublic,
    responses=problems(AsOfOutOfRangeError, NotFoundError, ValidationFailedError),
    openapi_extra=query_parameters(AsOfQuery),
)
async def get(context: Context, transaction_id: ResourceId, query: AsOf) -> Response:
    """Return one incoming transaction and what became of it."""
    found = await context.factory.create_incoming_transaction_service().get(
        context.caller, transaction_id, as_of=query.as_of
    )
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.post(
    "/incoming-transactions/{transaction_id}/ignore",
    summary="Ignore an incoming transaction",
    response_model=IncomingTransactionPublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, PeriodLockedError, ValidationFailedError),
)
async def ignore(
    context: Context, transaction_id: ResourceId, given: IncomingTransactionIgnore, if_match: IfMatch
) -> Response:
    """Have nothing done about it until somebody restores it. Proposals that join it are superseded."""
    service = context.factory.create_incoming_state_service()
    ignored = await service.ignore(context.caller, transaction_id, given, if_match)
    return respond(ignored, headers={"ETag": ignored.headers["ETag"]})


@router.post(
    "/incoming-transactions/{transaction_id}/classify",
    summary="Classify an incoming transaction",
    response_model=IncomingTransactionPublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, PeriodLockedError, ValidationFailedError),
)
async def classify(
    context: Context, transaction_id: ResourceId, given: IncomingTransactionClassify, if_match: IfMatch
) -> Response:
    """Say what it is that nobody expected: a fee, interest, payroll, tax. Proposals that join it are superseded."""
    service = context.factory.create_incoming_state_service()
    classified = await service.classify(context.caller, transaction_id, given, if_match)
    return respond(classified, headers={"ETag": classified.headers["ETag"]})


@router.post(
    "/incoming-transactions/{transaction_id}/restore",
    summary="Restore an incoming transaction",
    response_model=IncomingTransactionPublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, PeriodLockedError, ValidationFailedError),
)
async def restore(
    context: Context,
    transaction_id: ResourceId,
    if_match: IfMatch,
    given: Annotated[IncomingTransactionRestore | None, Body()] = None,
) -> Response:
    """Take back that it is ignored or classified; or, where it is open, say that it is no duplicate."""
    service = context.factory.create_incoming_state_service()
    restored = await service.restore(context.caller, transaction_id, given or IncomingTransactionRestore(), if_match)
    return respond(restored, headers={"ETag": restored.headers["ETag"]})


@router.post(
    "/incoming-transactions/{transaction_id}/link-reversal",
    summary="Link a return to its payment",
    response_model=IncomingTransactionPublic,
    responses=problems(
        NotFoundError, VersionMismatchError, ConflictError, AmountExceedsOpenError, ValidationFailedError
    ),
)
async def link_reversal(
    context: Context, transaction_id: ResourceId, given: ReversalLinkCreate, if_match: IfMatch
) -> Response:
    """Say which payment a return takes back: that amount of what it settled is open again."""
    linked = await context.factory.create_return_service().link(context.caller, transaction_id, given, if_match)
    return respond(linked, headers={"ETag": linked.headers["ETag"]})
