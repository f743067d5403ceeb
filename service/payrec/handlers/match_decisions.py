"""Decisions about ``/matches``: what people state, accept, reject and take back."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body
from fastapi.responses import Response

from payrec.errors import (
    AlreadyMatchedError,
    AmountExceedsOpenError,
    ConflictError,
    NotFoundError,
    PeriodLockedError,
    SecondApproverRequiredError,
    StaleProposalError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.context import Context, IfMatch, ResourceId, problems, respond
from payrec.handlers.routing import GatedRouter
from payrec.models.common import BulkResults
from payrec.models.match_decisions import (
    MatchAccept,
    MatchApprove,
    MatchCreate,
    MatchesAccept,
    MatchesReject,
    MatchReject,
    MatchReverse,
)
from payrec.models.matches import MatchPublic

router = GatedRouter(tags=["matches"])


@router.post(
    "/matches",
    summary="Match by hand",
    status_code=201,
    response_model=MatchPublic,
    responses=problems(
        AlreadyMatchedError, AmountExceedsOpenError, ConflictError, PeriodLockedError, ValidationFailedError
    ),
)
async def create(context: Context, given: MatchCreate) -> Response:
    """State which transactions settle each other: accepted at once, and what competes for them is superseded."""
    stated = await context.factory.create_manual_match_service().create(context.caller, given)
    return respond(stated, 201, stated.headers)


@router.post(
    "/matches/accept",
    summary="Accept many matches",
    response_model=BulkResults,
    responses=problems(ValidationFailedError),
)
async def accept_many(context: Context, given: MatchesAccept) -> Response:
    """Accept proposals, each by itself; of those that compete with each other, the first one in the request."""
    return respond(await context.factory.create_bulk_match_service().accept(context.caller, given))


@router.post(
    "/matches/reject",
    summary="Reject many matches",
    response_model=BulkResults,
    responses=problems(ValidationFailedError),
)
async def reject_many(context: Context, given: MatchesReject) -> Response:
    """Reject proposals, each by itself."""
    return respond(await context.factory.create_bulk_match_service().reject(context.caller, given))


@router.post(
    "/matches/{match_id}/accept",
    summary="Accept a match",
    response_model=MatchPublic,
    responses=problems(
        NotFoundError,
        VersionMismatchError,
        AlreadyMatchedError,
        StaleProposalError,
        ConflictError,
        PeriodLockedError,
        ValidationFailedError,
    ),
)
async def accept(
    context: Context,
    match_id: ResourceId,
    if_match: IfMatch,
    given: Annotated[MatchAccept | None, Body()] = None,
) -> Response:
    """Accept a proposal: its amounts are allocated, and what competes for them is superseded.

    Beyond a limit of `settings.approval` it has the amounts as `pending_approval`, until another person approves it.
    """
    service = context.factory.create_match_decision_service()
    accepted = await service.accept(context.caller, match_id, given or MatchAccept(), if_match)
    return respond(accepted, headers={"ETag": accepted.headers["ETag"]})


@router.post(
    "/matches/{match_id}/approve",
    summary="Approve a match",
    response_model=MatchPublic,
    responses=problems(
        NotFoundError, VersionMismatchError, SecondApproverRequiredError, ConflictError, ValidationFailedError
    ),
)
async def approve(
    context: Context,
    match_id: ResourceId,
    if_match: IfMatch,
    given: Annotated[MatchApprove | None, Body()] = None,
) -> Response:
    """Accept, as a second person, what is beyond a limit: `settings.approval`. A key, or who has decided, cannot."""
    service = context.factory.create_match_decision_service()
    approved = await service.approve(context.caller, match_id, given or MatchApprove(), if_match)
    return respond(approved, headers={"ETag": approved.headers["ETag"]})


@router.post(
    "/matches/{match_id}/reject",
    summary="Reject a match",
    response_model=MatchPublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, ValidationFailedError),
)
async def reject(
    context: Context,
    match_id: ResourceId,
    if_match: IfMatch,
    given: Annotated[MatchReject | None, Body()] = None,
) -> Response:
    """Reject a proposal: what it joins is not proposed again. One that waits for approval gives its amounts back."""
    service = context.factory.create_match_decision_service()
    rejected = await service.reject(context.caller, match_id, given or MatchReject(), if_match)
    return respond(rejected, headers={"ETag": rejected.headers["ETag"]})


@router.post(
    "/matches/{match_id}/reverse",
    summary="Reverse a match",
    response_model=MatchPublic,
    responses=problems(NotFoundError, VersionMismatchError, ConflictError, PeriodLockedError, ValidationFailedError),
)
async def reverse(context: Context, match_id: ResourceId, given: MatchReverse, if_match: IfMatch) -> Response:
    """Take an accepted match back: what it still has of its transactions is open again.

    Where the day from which it counts is locked, that counts from the first open day: `reversedOn`.
    """
    service = context.factory.create_match_decision_service()
    reversed_ = await service.reverse(context.caller, match_id, given, if_match)
    return respond(reversed_, headers={"ETag": reversed_.headers["ETag"]})
