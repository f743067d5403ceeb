"""``/matches``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends
from fastapi.responses import Response

from payrec.errors import (
    AsOfOutOfRangeError,
    InvalidCursorError,
    MatchRunInProgressError,
    NotFoundError,
    ValidationFailedError,
)
from payrec.handlers.context import (
    Context,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import AsOfQuery, Page
from payrec.models.matches import MatchPublic, MatchQuery, MatchRunCreate, MatchRunPublic

MatchList = Annotated[MatchQuery, Depends(query_of(MatchQuery))]
AsOf = Annotated[AsOfQuery, Depends(query_of(AsOfQuery))]

router = GatedRouter(tags=["matches"])


@router.post(
    "/matches/match",
    summary="Run matching",
    response_model=MatchRunPublic,
    responses={
        202: {"description": "The run goes on; Location is its job.", "model": MatchRunPublic},
        **problems(MatchRunInProgressError, ValidationFailedError),
    },
)
async def match(context: Context, given: Annotated[MatchRunCreate | None, Body()] = None) -> Response:
    """Propose which transactions belong together. An empty body looks at all that is open."""
    run = await context.factory.create_match_run_service().start(context.caller, given or MatchRunCreate())
    finished = run.status not in {"queued", "running"}
    return respond(run, 200 if finished else 202, {"Location": f"/jobs/{run.job_id}"})


@router.get(
    "/matches",
    summary="List matches",
    response_model=Page[MatchPublic],
    responses=problems(AsOfOutOfRangeError, InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(MatchQuery),
)
async def list_(context: Context, query: MatchList) -> Response:
    """List matches with their reasons, newest first."""
    page = await context.factory.create_match_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/matches/{match_id}",
    summary="Get a match",
    response_model=MatchPublic,
    responses=problems(AsOfOutOfRangeError, NotFoundError, ValidationFailedError),
    openapi_extra=query_parameters(AsOfQuery),
)
async def get(context: Context, match_id: ResourceId, query: AsOf) -> Response:
    """Return one match and why it was proposed."""
    found = await context.factory.create_match_service().get(context.caller, match_id, as_of=query.as_of)
    return respond(found, headers={"ETag": found.headers["ETag"]})
