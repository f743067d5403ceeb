"""``/data-sources``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    ConflictError,
    InvalidCursorError,
    NotFoundError,
    UrlNotAllowedError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.context import (
    NOTHING_GIVEN,
    Context,
    IfMatch,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.data_sources import DataSourceCreate, DataSourcePublic, DataSourceQuery, DataSourceUpdate
from payrec.models.jobs import JobPublic

DataSourceList = Annotated[DataSourceQuery, Depends(query_of(DataSourceQuery))]

router = GatedRouter(tags=["data sources"])


@router.post(
    "/data-sources",
    summary="Create a data source",
    status_code=201,
    response_model=DataSourcePublic,
    responses=problems(ConflictError, ValidationFailedError, UrlNotAllowedError),
)
async def create(context: Context, given: DataSourceCreate) -> Response:
    """Say what the files of a bank or a program look like, and where they are pulled from or that they are uploaded."""
    created = await context.factory.sources.create_data_source_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/data-sources",
    summary="List data sources",
    response_model=Page[DataSourcePublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(DataSourceQuery),
)
async def list_(context: Context, query: DataSourceList) -> Response:
    """List data sources and how their last files went."""
    page = await context.factory.sources.create_data_source_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/data-sources/{source_id}",
    summary="Get a data source",
    response_model=DataSourcePublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, source_id: ResourceId) -> Response:
    """Return one data source."""
    found = await context.factory.sources.create_data_source_service().get(context.caller, source_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.patch(
    "/data-sources/{source_id}",
    summary="Change a data source",
    response_model=DataSourcePublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, ValidationFailedError, UrlNotAllowedError),
)
async def patch(context: Context, source_id: ResourceId, given: DataSourceUpdate, if_match: IfMatch) -> Response:
    """Change what is given, for files that come from now on."""
    service = context.factory.sources.create_data_source_service()
    changed = await service.update(context.caller, source_id, given, if_match)
    return respond(changed, headers={"ETag": changed.headers["ETag"]})


@router.post(
    "/data-sources/{source_id}/sync",
    summary="Pull a data source",
    dependencies=[NOTHING_GIVEN],
    status_code=202,
    response_model=JobPublic,
    responses=problems(NotFoundError, ConflictError, ValidationFailedError),
)
async def sync(context: Context, source_id: ResourceId) -> Response:
    """Start a sync now, whatever the schedule; its Location tells how it goes."""
    job = await context.factory.sources.create_sync_service().start(context.caller, source_id)
    return respond(job, 202, job.headers)


@router.delete(
    "/data-sources/{source_id}",
    summary="Delete a data source",
    status_code=204,
    responses=problems(NotFoundError, VersionMismatchError, ValidationFailedError),
)
async def delete(context: Context, source_id: ResourceId, if_match: IfMatch) -> Response:
    """Delete a data source. What it brought stays."""
    await context.factory.sources.create_data_source_service().delete(context.caller, source_id, if_match)
    return Response(status_code=204)
