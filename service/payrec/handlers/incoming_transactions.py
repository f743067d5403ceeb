"""``/incoming-transactions``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from payrec.errors import (
    AmountExceedsOpenError,
    ConflictError,
    DuplicateExternalIdError,
    InvalidCursorError,
    NotFoundError,
    PayloadTooLargeError,
    UnreadableFileError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.bodies import uploaded
from payrec.handlers.context import (
    Context,
    IfMatch,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_page,
)
from payrec.handlers.routing import GatedRoute
from payrec.models.common import Page
from payrec.models.imports import ImportPublic, UploadOptions
from payrec.models.incoming_transactions import (
    IncomingTransactionCreate,
    IncomingTransactionPublic,
    IncomingTransactionQuery,
    ReversalLinkCreate,
)

_OPTIONS = UploadOptions.model_json_schema(by_alias=True)["properties"]
_BINARY = {"type": "string", "format": "binary"}
UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {"type": "object", "required": ["file"], "properties": {"file": _BINARY, **_OPTIONS}}
            },
            "application/octet-stream": {"schema": _BINARY},
            "application/x-ndjson": {"schema": _BINARY},
            "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    },
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in _OPTIONS.items()
    ],
}

IncomingTransactionList = Annotated[IncomingTransactionQuery, Depends(query_of(IncomingTransactionQuery))]

router = APIRouter(tags=["incoming transactions"], route_class=GatedRoute)


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
    responses=problems(InvalidCursorError, ValidationFailedError),
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
    headers = {**created.headers, "Location": f"/jobs/{created.job_id}" if status == 202 else created.location}
    return respond(created, status, headers)


@router.get(
    "/incoming-transactions/{transaction_id}",
    summary="Get an incoming transaction",
    response_model=IncomingTransactionPublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, transaction_id: ResourceId) -> Response:
    """Return one incoming transaction and what became of it."""
    found = await context.factory.create_incoming_transaction_service().get(context.caller, transaction_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.post(
    "/incoming-transactions/{transaction_id}/link-reversal",
    summary="Link a return to its payment",
    response_model=IncomingTransactionPublic,
    responses=problems(
        NotFoundError, VersionMismatchError, ConflictError, AmountExceedsOpenError, ValidationFailedError
    ),
)
async def link_reversal(
    context: Context, transaction_id: ResourceId, given: ReversalLinkCreate, if_match: IfMatch = None
) -> Response:
    """Say which payment a return takes back: that amount of what it settled is open again."""
    linked = await context.factory.create_return_service().link(context.caller, transaction_id, given, if_match)
    return respond(linked, headers={"ETag": linked.headers["ETag"]})
