"""Matches: listed with their reasons, accepted once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.money import format_minor
from payrec.errors import AlreadyMatchedError, ConflictError, NotFoundError, StaleProposalError
from payrec.models.common import Page
from payrec.models.matches import MatchAccept, MatchPublic, MatchQuery
from payrec.services.match_ends import ENDS, taken_of
from payrec.services.match_rendering import rendered
from payrec.services.paging import Pager
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.allocations import AllocationStore, Side, Take
from payrec.storage.listing import BY_CREATION
from payrec.storage.matches import MatchStore

COLLECTION: Final = "/matches"


class MatchService:
    """Lists and decides matches of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager
        self._logger = structlog.get_logger("payrec.matches")

    async def get(self, caller: Caller, match_id: str) -> MatchPublic:
        """Return a match.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await MatchStore(connection).get(identifier(match_id))
        if row is None:
            raise NotFoundError
        return rendered(row)

    async def page(self, caller: Caller, query: MatchQuery) -> Page[MatchPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await MatchStore(connection).page(listing.request, query)
        return listing.page(
            MatchPublic,
            rows,
            data=[rendered(row) for row in rows],
            more=more,
        )

    async def accept(self, caller: Caller, match_id: str, given: MatchAccept, if_match: str | None) -> MatchPublic:
        """Accept a proposal: allocate its amounts, and supersede what competes for them. Again is the same.

        Raises
        ------
        NotFoundError, VersionMismatchError
        AlreadyMatchedError
            The amounts have gone to another match.
        StaleProposalError
            A transaction changed after the proposal was made.
        ConflictError
            The match was decided otherwise, or a newer run has replaced it.
        """
        wanted = identifier(match_id)
        try:
            public = await self._accept(caller, wanted, given, if_match)
        except (AlreadyMatchedError, _DecidedMeanwhileError):
            # Perhaps it was this very match that another request has accepted at the same time.
            public = await self._accepted(caller, wanted, if_match)
        self._logger.info("match.accepted", match_id=str(wanted))
        return public

    async def _accept(self, caller: Caller, match_id: UUID, given: MatchAccept, if_match: str | None) -> MatchPublic:
        """Accept within one transaction. Everybody locks allocations first and matches after, so nobody deadlocks."""
        async with self._work.tenant(caller) as unit:
            store = MatchStore(unit.connection)
            row = await store.get(match_id)
            if row is None:
                raise NotFoundError
            check_version(if_match, row["version"])
            if row["status"] != "accepted":
                _check_acceptable(row)
                await self._allocate(unit, row)
                await self._decide(unit, row, given)
                row = await store.get(match_id)
                if row is None:
                    raise NotFoundError
                # Nobody else can change what is allocated; what changed since it was read first is seen now.
                _check_unchanged(row)
            public = rendered(row)
            unit.answer(200, public, public.headers)
        return public

    async def _accepted(self, caller: Caller, match_id: UUID, if_match: str | None) -> MatchPublic:
        """Return the match if it is accepted, otherwise raise why it cannot be."""
        async with self._work.tenant(caller) as unit:
            row = await MatchStore(unit.connection).get(match_id)
            if row is None:
                raise NotFoundError
            check_version(if_match, row["version"])
            if row["status"] != "accepted":
                _check_acceptable(row)
                raise AlreadyMatchedError
            public = rendered(row)
            unit.answer(200, public, public.headers)
        return public

    async def _decide(self, unit: Unit, row: dict[str, Any], given: MatchAccept) -> None:
        store = MatchStore(unit.connection)
        taken = taken_of(row)
        locked = await store.lock_with_rivals(
            row["id"],
            expected=[t.transaction_id for t in taken if t.side is Side.EXPECTED],
            incoming=[t.transaction_id for t in taken if t.side is Side.INCOMING],
        )
        if row["id"] not in locked:
            raise _DecidedMeanwhileError
        await store.accept(
            row["id"],
            change_id=unit.change_id,
            actor=unit.caller.principal.actor,
            at=unit.now,
            reason=given.reason,
            effective_on=_effective_on(row),
        )
        unit.record(
            Record(
                action="match.accepted",
                resource_id=row["id"],
                reason=given.reason,
                before={"status": row["status"]},
                after={"status": "accepted", "amountMinor": row["amount_minor"]},
            )
        )
        rivals = [rival for rival in locked if rival != row["id"]]
        await store.supersede(rivals, by=row["id"], at=unit.now)
        for rival in rivals:
            unit.record(Record(action="match.superseded", resource_id=rival, after={"supersededBy": str(row["id"])}))

    async def _allocate(self, unit: Unit, row: dict[str, Any]) -> None:
        takes = [
            Take(
                side=taken.side,
                transaction_id=taken.transaction_id,
                amount_minor=taken.whole_minor,
                taken_minor=taken.minor,
            )
            for taken in taken_of(row)
        ]
        await AllocationStore(unit.connection).take(takes, at=unit.now)


class _DecidedMeanwhileError(Exception):
    """The match was a proposal when it was read, and is not any more: the transaction is given up."""


def _effective_on(row: Mapping[str, Any]) -> date | None:
    """Return the last booking day of the lines; items alone have none."""
    days = [leg["booking_on"] for leg in row["legs"] if not leg["incoming_contra"]]
    days += [leg["due_on"] for leg in row["legs"] if leg["expected_contra"]]
    return max(days, default=None)


_CLOSED: Final = frozenset({"void", "ignored", "classified", "reversed", "linked"})


def _check_acceptable(row: dict[str, Any]) -> None:
    """Raise what keeps a match from being accepted, looking at its status first, then at its transactions."""
    if row["status"] == "superseded" and row["superseded_by"] is not None:
        raise AlreadyMatchedError("another match has taken the amounts", supersededBy=str(row["superseded_by"]))
    if row["status"] != "proposed":
        raise ConflictError(f"the match is {row['status']}")
    _check_unchanged(row)
    for leg in row["legs"]:
        if leg["pending"]:
            raise ConflictError("a pending transaction is not booked yet, so nothing can be accepted against it")
        if _CLOSED & {leg["expected_status"], leg["incoming_status"]}:
            raise ConflictError("a transaction of the match is not open any more")
    _check_left(row)


def _check_unchanged(row: dict[str, Any]) -> None:
    changed = {
        leg[f"{side}_id"]: None
        for leg in row["legs"]
        for side, _ in ENDS
        if leg[f"{side}_revision"] != leg[f"{side}_revision_now"]
    }
    if changed:
        raise StaleProposalError(
            "a transaction changed after the proposal was made",
            changed=[{"id": str(name), "field": "revision"} for name in changed],
        )


def _check_left(row: dict[str, Any]) -> None:
    """Raise unless all that legs and adjustments take of each transaction together is left of it."""
    for taken in taken_of(row):
        if taken.minor > taken.left_minor:
            left = f"{format_minor(taken.left_minor, taken.currency)} {taken.currency}"
            raise AlreadyMatchedError(f"only {left} is left of the {taken.name} transaction")
