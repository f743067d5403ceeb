"""``/jobs``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    AsOfOutOfRangeError,
    ConflictError,
    ForbiddenError,
    InvalidCursorError,
    MatchRunInProgressError,
    NotFoundError,
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
from payrec.models.jobs import JobCreate, JobPublic, JobQuery

JobList = Annotated[JobQuery, Depends(query_of(JobQuery))]

router = GatedRouter(tags=["jobs"])


@router.post(
    "/jobs",
    summary="Start a job",
    status_code=202,
    response_model=JobPublic,
    responses=problems(
        AsOfOutOfRangeError,
        ForbiddenError,
        NotFoundError,
        ConflictError,
        MatchRunInProgressError,
        ValidationFailedError,
    ),
)
async def create(context: Context, given: JobCreate) -> Response:
    """Start a job; its Location tells how it goes."""
    factory = context.factory
    starters: dict[str, Callable[[], Any]] = {
        "backtest": factory.create_backtest_service,
        "export": factory.create_export_service,
        "match": factory.create_match_run_service,
        "redeliver": factory.webhooks.create_redelivery_service,
        "sync": factory.sources.create_sync_service,
    }
    job = await starters[given.kind]().start_job(context.caller, given)
    return respond(job, 202, job.headers)


@router.get(
    "/jobs",
    summary="List jobs",
    response_model=Page[JobPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(JobQuery),
)
async def list_(context: Context, query: JobList) -> Response:
    """List jobs, newest first."""
    page = await context.factory.create_job_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get("/jobs/{job_id}", summary="Get a job", response_model=JobPublic, responses=problems(NotFoundError))
async def get(context: Context, job_id: ResourceId) -> Response:
    """Return one job and how far it is."""
    found = await context.factory.create_job_service().get(context.caller, job_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.post(
    "/jobs/{job_id}/cancel",
    summary="Cancel a job",
    dependencies=[NOTHING_GIVEN],
    response_model=JobPublic,
    responses=problems(ForbiddenError, NotFoundError, VersionMismatchError, ConflictError, ValidationFailedError),
)
async def cancel(context: Context, job_id: ResourceId, if_match: IfMatch) -> Response:
    """Cancel a job: at once while it waits; 202 while it runs, until its worker has stopped. Nothing of it is kept."""
    job, status = await context.factory.create_job_service().cancel(context.caller, job_id, if_match)
    return respond(job, status, {"ETag": job.headers["ETag"]} if status == 200 else job.headers)
