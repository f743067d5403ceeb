"""``/imports``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response, StreamingResponse

from payrec.errors import InvalidCursorError, NotFoundError, ValidationFailedError
from payrec.handlers.context import Context, ResourceId, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.downloads import FILE_MEDIA_TYPE, VARIES, digest_headers, prefers_csv, respond_download
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.imports import ImportPublic, ImportQuery, RecordProblem, RecordProblemQuery
from payrec.services.csv_text import CSV_MEDIA_TYPE

ImportList = Annotated[ImportQuery, Depends(query_of(ImportQuery))]
RecordProblemList = Annotated[RecordProblemQuery, Depends(query_of(RecordProblemQuery))]

router = GatedRouter(tags=["imports"])


@router.get(
    "/imports",
    summary="List imports",
    response_model=Page[ImportPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(ImportQuery),
)
async def list_(context: Context, query: ImportList) -> Response:
    """List uploaded files, newest first."""
    page = await context.factory.create_import_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/imports/{import_id}", summary="Get an import", response_model=ImportPublic, responses=problems(NotFoundError)
)
async def get(context: Context, import_id: ResourceId) -> Response:
    """Return what became of one file."""
    found = await context.factory.create_import_service().get(context.caller, import_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.get(
    "/imports/{import_id}/errors",
    summary="List an import's errors",
    response_model=Page[RecordProblem],
    responses={
        200: {"content": {CSV_MEDIA_TYPE: {"schema": {"type": "string"}}}},
        **problems(NotFoundError, InvalidCursorError, ValidationFailedError),
    },
    openapi_extra=query_parameters(RecordProblemQuery),
)
async def errors(context: Context, import_id: ResourceId, query: RecordProblemList) -> Response:
    """List all problems of a file, in its order: rejected records, and what else there is to know.

    With `Accept: text/csv` all of them come as one CSV, without pages.
    """
    service = context.factory.create_import_service()
    if prefers_csv(context.request):
        lines = await service.errors_csv(context.caller, import_id)
        return respond_download(lines, name=f"{import_id}-errors.csv", media_type=CSV_MEDIA_TYPE, headers=VARIES)
    page = await service.errors(context.caller, import_id, query)
    return respond_page(context, page, query, headers=VARIES)


@router.get(
    "/imports/{import_id}/content",
    summary="Get an import's file",
    response_class=StreamingResponse,
    responses={
        200: {"content": {FILE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
        **problems(NotFoundError),
    },
)
async def content(context: Context, import_id: ResourceId) -> Response:
    """Return the file as it was uploaded, for as long as the setting `retention.rawLinesDays` keeps it."""
    found, chunks = await context.factory.create_import_service().content(context.caller, import_id)
    headers = {"Content-Length": str(found.bytes), **digest_headers(found.sha256)}
    return respond_download(chunks, name=found.name, media_type=FILE_MEDIA_TYPE, headers=headers)
