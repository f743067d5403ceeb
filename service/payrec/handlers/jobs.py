"""``/jobs``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from payrec.errors import InvalidCursorError, MatchRunInProgressError, NotFoundError, ValidationFailedError
from payrec.handlers.context import Context, ResourceId, problems, query_of, query_parameters, respond, respond_page
from payrec.handlers.routing import GatedRoute
from payrec.models.common import Page
from payrec.models.jobs import JobCreate, JobPublic, JobQuery

JobList = Annotated[JobQuery, Depends(query_of(JobQuery))]

router = APIRouter(tags=["jobs"], route_class=GatedRoute)


@router.post(
    "/jobs",
    summary="Start a job",
    status_code=202,
    response_model=JobPublic,
    responses=problems(MatchRunInProgressError, ValidationFailedError),
)
async def create(context: Context, given: JobCreate) -> Response:
    """Start a job; its Location tells how it goes."""
    job = await context.factory.create_match_run_service().start_job(context.caller, given)
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
