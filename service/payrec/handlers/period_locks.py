"""``/period-locks``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import (
    ConflictError,
    InvalidCursorError,
    NotFoundError,
    PeriodIncompleteError,
    PeriodLockedError,
    ValidationFailedError,
    VersionMismatchError,
)
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
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.period_locks import PeriodLockCreate, PeriodLockPublic, PeriodLockQuery, PeriodLockReopen

PeriodLockList = Annotated[PeriodLockQuery, Depends(query_of(PeriodLockQuery))]

router = GatedRouter(tags=["period-locks"])


@router.post(
    "/period-locks",
    summary="Lock a period",
    status_code=201,
    response_model=PeriodLockPublic,
    responses=problems(PeriodIncompleteError, PeriodLockedError, ValidationFailedError),
)
async def create(context: Context, given: PeriodLockCreate) -> Response:
    """Lock all days until one: no decision counts in them any more, and their statements stay what they are.

    Open lines, missing statements and matches that wait for approval keep it open: 409 `period_incomplete` tells how
    many in `incomplete`, and the first 100 of each. With `override` it is locked all the same.
    """
    created = await context.factory.create_period_lock_service().create(context.caller, given)
    return respond(created, 201, created.headers)


@router.get(
    "/period-locks",
    summary="List locks of periods",
    response_model=Page[PeriodLockPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(PeriodLockQuery),
)
async def list_(context: Context, query: PeriodLockList) -> Response:
    """List locks, those that were reopened as well."""
    page = await context.factory.create_period_lock_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/period-locks/{lock_id}",
    summary="Get a lock of a period",
    response_model=PeriodLockPublic,
    responses=problems(NotFoundError),
)
async def get(context: Context, lock_id: ResourceId) -> Response:
    """Return one lock."""
    found = await context.factory.create_period_lock_service().get(context.caller, lock_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.post(
    "/period-locks/{lock_id}/reopen",
    summary="Reopen a period",
    response_model=PeriodLockPublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, ValidationFailedError),
)
async def reopen(context: Context, lock_id: ResourceId, given: PeriodLockReopen, if_match: IfMatch) -> Response:
    """Open the days of a lock again, as far as no other one binds them; what was decided meanwhile keeps its day."""
    reopened = await context.factory.create_period_lock_service().reopen(context.caller, lock_id, given, if_match)
    return respond(reopened, headers={"ETag": reopened.headers["ETag"]})
