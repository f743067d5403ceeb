"""Decisions about matches, one by one: a proposal is accepted or rejected, an accepted match is reversed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.match_states import MATCH_STATES
from payrec.errors import AlreadyMatchedError, ConflictError, NotFoundError, SecondApproverRequiredError
from payrec.models.match_decisions import MatchAccept, MatchApprove, MatchReject, MatchReverse
from payrec.models.matches import MatchPublic
from payrec.services.approvals import check_may_accept, needs_approval
from payrec.services.auto_runs import match_soon
from payrec.services.effective_days import accounts_of_legs, effective_day
from payrec.services.match_ends import taken_of
from payrec.services.match_rendering import rendered
from payrec.services.match_rivals import supersede
from payrec.services.stale_proposals import check_unchanged
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.allocations import CLOSED, AllocationStore, Side, Take, hold_decisions
from payrec.storage.api_keys import ApiKeyStore
from payrec.storage.match_decisions import Decision, MatchDecisionStore
from payrec.storage.matches import MatchStore
from payrec.storage.open_rows import reopen

_VERBS: Final = {"accepted": "approve", "rejected": "reject", "reversed": "reverse"}
"""What leads from a decision to another: with the last two a match takes nothing any more."""


class MatchDecisionService:
    """Decides about matches of the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.matches")

    async def accept(self, caller: Caller, match_id: str, given: MatchAccept, if_match: str | None) -> MatchPublic:
        """Accept a proposal: allocate its amounts, and supersede what competes for them. Again is the same.

        Beyond a limit of ``settings.approval`` it waits for a second person, and has its amounts all the same.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ForbiddenError
            The caller is an API key, which the settings do not let accept.
        AlreadyMatchedError
            The amounts have gone to another match.
        StaleProposalError
            A transaction changed after the proposal was made.
        PeriodLockedError, ValidationFailedError
            It cannot count from the given day.
        ConflictError
            The match was decided otherwise, or a newer run has replaced it.
        """
        check_may_accept(caller)
        wanted = identifier(match_id)
        try:
            public = await self._accept(caller, wanted, given, if_match)
        except (AlreadyMatchedError, _DecidedMeanwhileError):
            # Perhaps it was this very match that another request has accepted at the same time.
            public = await self._accepted(caller, wanted, if_match)
        self._logger.info(f"match.{public.status}", match_id=str(wanted))
        return public

    async def approve(self, caller: Caller, match_id: str, given: MatchApprove, if_match: str | None) -> MatchPublic:
        """Accept what somebody else has decided and what waits for a second person.

        Raises
        ------
        NotFoundError, VersionMismatchError
        SecondApproverRequiredError
            The caller is who has decided, himself or by an API key that he made, or an API key.
        ConflictError
            It does not wait for a second person, or not any more.
        """
        wanted = identifier(match_id)
        own = await self._own(caller)
        async with self._work.tenant(caller, planned_once=True) as unit:
            row = await self._held(unit, wanted, if_match, status="accepted", own=own)
            decisions = MatchDecisionStore(unit.connection)
            await decisions.lock([wanted])
            # Its period may have been locked while it waited.
            day = await effective_day(unit, row["effective_on"], accounts_of_legs(row["legs"]))
            await decisions.approve(wanted, decision_of(unit, given.reason), effective_on=day)
            unit.record(approved(row, reason=given.reason))
            unit.record(accepted(wanted, row["amount_minor"], reason=given.reason, before=row["status"]))
            public = rendered(await _existing(MatchStore(unit.connection), wanted))
            unit.answer(200, public, public.headers)
        self._logger.info("match.approved", match_id=str(wanted))
        return public

    async def reject(self, caller: Caller, match_id: str, given: MatchReject, if_match: str | None) -> MatchPublic:
        """Reject a proposal, which is remembered: what it joins is not proposed again.

        What waits for a second person gives its amounts back.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ConflictError
            It is decided.
        """
        return await self._take_back(caller, match_id, given, if_match, status="rejected")

    async def reverse(self, caller: Caller, match_id: str, given: MatchReverse, if_match: str | None) -> MatchPublic:
        """Take an accepted match back: what it still has of its transactions is open again.

        Where the day from which it counts is locked, this counts from the first open day.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ConflictError
            It is not accepted, or not any more.
        """
        return await self._take_back(caller, match_id, given, if_match, status="reversed")

    async def _accept(self, caller: Caller, match_id: UUID, given: MatchAccept, if_match: str | None) -> MatchPublic:
        """Accept within one transaction. Everybody locks allocations first and matches after, so nobody deadlocks."""
        async with self._work.tenant(caller, planned_once=True) as unit:
            store = MatchStore(unit.connection)
            row = await _existing(store, match_id)
            check_version(if_match, row["version"])
            if row["status"] != "accepted":
                await check_acceptable(unit, row)
                await self._decide(unit, row, given)
                row = await _existing(store, match_id)
                # Nobody else can change what is allocated; what changed since it was read first is seen now.
                await check_unchanged(unit.connection, row)
            public = rendered(row)
            unit.answer(200, public, public.headers)
        return public

    async def _accepted(self, caller: Caller, match_id: UUID, if_match: str | None) -> MatchPublic:
        """Return the match if it is accepted, otherwise raise why it cannot be."""
        async with self._work.tenant(caller, planned_once=True) as unit:
            row = await _existing(MatchStore(unit.connection), match_id)
            check_version(if_match, row["version"])
            if row["status"] != "accepted":
                await check_acceptable(unit, row)
                raise AlreadyMatchedError
            public = rendered(row)
            unit.answer(200, public, public.headers)
        return public

    async def _decide(self, unit: Unit, row: dict[str, Any], given: MatchAccept) -> None:
        takes = takes_of(row)
        await allocate(unit, takes)
        store = MatchDecisionStore(unit.connection)
        locked = await store.lock_rivals(**ids_of(takes), beside=[row["id"]])
        if locked.pop(row["id"], None) is None:
            raise _DecidedMeanwhileError
        legs, reason = row["legs"], given.reason
        day = await effective_day(unit, effective_on(legs), accounts_of_legs(legs), given.effective_on)
        settled = [(leg["settled_currency"], leg["settled_minor"]) for leg in legs]
        status = "pending_approval" if await needs_approval(unit, row, settled, day) else "accepted"
        await store.accept({row["id"]: day}, decision_of(unit, reason), status=status)
        unit.record(accepted(row["id"], row["amount_minor"], reason=reason, status=status))
        await supersede(unit, locked, dict.fromkeys((take.transaction_id for take in takes), row["id"]))

    async def _take_back(
        self, caller: Caller, match_id: str, given: MatchReject | MatchReverse, if_match: str | None, *, status: str
    ) -> MatchPublic:
        wanted, reason = identifier(match_id), given.reason
        async with self._work.tenant(caller, planned_once=True) as unit:
            row = await self._held(unit, wanted, if_match, status=status)
            if has_amounts := any(leg["counts"] for leg in row["legs"]):
                await release(unit, [row])
            decisions = MatchDecisionStore(unit.connection)
            if row["status"] != "proposed":
                await decisions.lock([wanted])
            day = None
            if isinstance(given, MatchReverse):
                day = await effective_day(unit, row["effective_on"], accounts_of_legs(row["legs"]))
            await decisions.take_back([wanted], decision_of(unit, reason), status=status, reversed_on=day)
            unit.record(taken_back(wanted, status, before=row["status"], reason=reason))
            if has_amounts:
                await match_soon(unit, self._work.ids.new())
            public = rendered(await _existing(MatchStore(unit.connection), wanted))
            unit.answer(200, public, public.headers)
        self._logger.info(f"match.{status}", match_id=str(wanted))
        return public

    async def _own(self, caller: Caller) -> frozenset[str]:
        """Return by whom the caller decides: himself, and the keys that he made, which he has the secrets of."""
        actor, scope = caller.principal.actor, caller.tenant
        async with self._work.database.control(readonly=True) as connection:
            store = ApiKeyStore(
                connection, tenant_id=scope.tenant_id, environment=scope.environment, now=self._work.clock.now()
            )
            return frozenset({actor, *await store.made_by(actor)})

    async def _held(
        self, unit: Unit, match_id: UUID, if_match: str | None, *, status: str, own: Set[str] = frozenset()
    ) -> dict[str, Any]:
        """Return a match that may get a status, held so that nobody else decides about it."""
        store = MatchStore(unit.connection)
        row = await _existing(store, match_id)
        _check_next(unit, row, if_match, status, own)
        await _hold(unit, row)
        # From here on nobody else decides about it, so what is read now is what is changed.
        row = await _existing(store, match_id)
        _check_next(unit, row, if_match, status, own)
        return row


class _DecidedMeanwhileError(Exception):
    """The match was a proposal when it was read, and is not any more: the transaction is given up."""


async def _existing(store: MatchStore, match_id: UUID) -> dict[str, Any]:
    row = await store.get(match_id)
    if row is None:
        raise NotFoundError
    return row


async def check_acceptable(unit: Unit, row: dict[str, Any]) -> None:
    """Raise what keeps a match from being accepted, looking at its status first, then at its transactions."""
    check_proposed(row["status"], row["superseded_by"])
    await check_unchanged(unit.connection, row)
    for leg in row["legs"]:
        if leg["pending"]:
            raise ConflictError(PENDING)
        if CLOSED & {leg["expected_status"], leg["incoming_status"]}:
            raise ConflictError(NOT_OPEN)
    for taken in taken_of(row):
        if taken.minor > taken.left_minor:
            raise AlreadyMatchedError(f"only {taken.left} is left of the {taken.name} transaction")


PENDING: Final = "a pending transaction is not booked yet, so nothing can be accepted against it"
NOT_OPEN: Final = "a transaction of the match is not open any more"


def _check_next(unit: Unit, row: Mapping[str, Any], if_match: str | None, status: str, own: Set[str]) -> None:
    """Raise what keeps a match that is decided or proposed from getting a status.

    ``own`` are those of whom none may have decided what is approved.
    """
    check_version(if_match, row["version"])
    verb = _VERBS[status]
    if verb == "approve" and unit.caller.principal.kind != "user":
        raise SecondApproverRequiredError("only a person approves")
    MATCH_STATES.check(row["status"], verb)
    if verb == "approve" and row["decided_by"] in own:
        raise SecondApproverRequiredError("who has decided does not approve it")


def check_proposed(status: str, superseded_by: UUID | None) -> None:
    """Raise unless a match can be accepted by its status.

    Raises
    ------
    AlreadyMatchedError
        Another match has taken its amounts.
    ConflictError
        It was decided otherwise, or a newer run has replaced it.
    """
    if status == "superseded" and superseded_by is not None:
        raise AlreadyMatchedError("another match has taken the amounts", supersededBy=str(superseded_by))
    MATCH_STATES.check(status, "accept")


def decision_of(unit: Unit, reason: str | None) -> Decision:
    """Return who decides, when and why."""
    return Decision(change_id=unit.change_id, actor=unit.caller.principal.actor, at=unit.now, reason=reason)


def accepted(
    match_id: UUID,
    amount_minor: int,
    *,
    reason: str | None,
    before: str | None = "proposed",
    status: str = "accepted",
) -> Record:
    """Return what is recorded of an acceptance; with the status ``pending_approval`` of one beyond a limit."""
    return Record(
        action=f"match.{status}",
        resource_id=match_id,
        reason=reason,
        before={"status": before} if before is not None else None,
        after={"status": status, "amountMinor": amount_minor},
    )


def approved(row: Mapping[str, Any], *, reason: str | None) -> Record:
    """Return what is recorded of an approval: who had decided is not in the match any more."""
    return Record(
        action="match.approved",
        resource_id=row["id"],
        reason=reason,
        before={"status": row["status"], "decidedBy": row["decided_by"]},
        after={"status": "accepted", "amountMinor": row["amount_minor"]},
    )


def taken_back(match_id: UUID, status: str, *, before: str, reason: str | None) -> Record:
    """Return what is recorded of a rejection or a reversal."""
    return Record(
        action=f"match.{status}",
        resource_id=match_id,
        reason=reason,
        before={"status": before},
        after={"status": status},
    )


def effective_on(legs: Iterable[Mapping[str, Any]]) -> date | None:
    """Return the last booking day of the lines; items alone have none."""
    days = [leg["booking_on"] for leg in legs if not leg["incoming_contra"]]
    days += [leg["due_on"] for leg in legs if leg["expected_contra"]]
    return max(days, default=None)


def takes_of(row: Mapping[str, Any]) -> list[Take]:
    """Return what a match takes of its transactions."""
    return [
        Take(
            side=taken.side,
            transaction_id=taken.transaction_id,
            amount_minor=taken.whole_minor,
            taken_minor=taken.minor,
        )
        for taken in taken_of(row)
    ]


def ids_of(takes: Sequence[Take]) -> dict[str, list[UUID]]:
    """Return the ids of each side, by its name."""
    return {side.name.lower(): [t.transaction_id for t in takes if t.side is side] for side in Side}


async def allocate(unit: Unit, takes: Sequence[Take]) -> None:
    """Allocate amounts and tell whose transactions are matched by that, in part or whole."""
    tell(unit, await AllocationStore(unit.connection).take(takes, change_id=unit.change_id, at=unit.now))


def tell(unit: Unit, rows: Iterable[Mapping[str, Any]]) -> None:
    """Tell what became of transactions whose allocations have changed; why, is recorded with the match."""
    found: dict[str, list[UUID]] = {}
    for row in rows:
        status = row["status"] if row["status"] in {"matched", "partially_matched"} else "reopened"
        found.setdefault(f"{Side(row['side']).name.lower()}_transaction.{status}", []).append(row["transaction_id"])
    for event, ids in found.items():
        unit.tell(event, ids)


async def _hold(unit: Unit, row: dict[str, Any]) -> None:
    """Hold a match: what it has of its transactions, without which nobody changes it, or itself while it has nothing.

    No run may commit meanwhile: it would not see that the match is rejected, and propose the same anew.
    """
    if row["status"] == "proposed":
        await hold_decisions(unit.connection, alone=False)
        await MatchDecisionStore(unit.connection).lock([row["id"]])
    else:
        await AllocationStore(unit.connection).hold(**ids_of(takes_of(row)))


async def release(unit: Unit, rows: Sequence[Mapping[str, Any]]) -> None:
    """Give back what matches have of their transactions, less what has come back already, and open them again.

    The allocations are held.
    """
    takes = [take for row in rows for take in takes_of(row)]
    lines = ids_of(takes)["incoming"]
    returned = await MatchDecisionStore(unit.connection).returned([row["id"] for row in rows], lines=lines)
    minors: Counter[tuple[Side, UUID]] = Counter()
    for take in takes:
        minors[take.side, take.transaction_id] += take.taken_minor
    for part in returned:
        minors[Side(part["side"]), part["id"]] -= part["minor"]
    left = {key: minor for key, minor in minors.items() if minor > 0}
    changed = await AllocationStore(unit.connection).release(left, change_id=unit.change_id, at=unit.now)
    of_side = {side: [r["transaction_id"] for r in changed if r["side"] == side] for side in Side}
    await reopen(
        unit.connection, expected=of_side[Side.EXPECTED], incoming=of_side[Side.INCOMING], change_id=unit.change_id
    )
    for released in sorted(changed, key=lambda r: (r["side"], r["transaction_id"])):
        name = Side(released["side"]).name.lower()
        after = {"status": released["status"], "openAmountMinor": released["open_minor"]}
        unit.record(Record(action=f"{name}_transaction.reopened", resource_id=released["transaction_id"], after=after))
