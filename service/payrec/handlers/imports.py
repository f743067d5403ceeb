"""``/imports``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from payrec.errors import InvalidCursorError, NotFoundError, ValidationFailedError
from payrec.handlers.context import Context, ResourceId, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRoute
from payrec.models.common import Page
from payrec.models.imports import ImportPublic, ImportQuery, RecordProblem, RecordProblemQuery

ImportList = Annotated[ImportQuery, Depends(query_of(ImportQuery))]
RecordProblemList = Annotated[RecordProblemQuery, Depends(query_of(RecordProblemQuery))]

router = APIRouter(tags=["imports"], route_class=GatedRoute)


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
    responses=problems(NotFoundError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(RecordProblemQuery),
)
async def errors(context: Context, import_id: ResourceId, query: RecordProblemList) -> Response:
    """List all problems of a file, in its order: rejected records, and what else there is to know."""
    page = await context.factory.create_import_service().errors(context.caller, import_id, query)
    return respond_page(context, page, query)
