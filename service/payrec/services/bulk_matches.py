"""Many decisions at once: each proposal by itself, decided in memory and written as one set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

import structlog

from payrec.domain.caller import Caller, IdSource
from payrec.domain.identifiers import parse_uuid
from payrec.domain.match_states import MATCH_STATES
from payrec.errors import AlreadyMatchedError, ConflictError, NotFoundError, PayrecError
from payrec.models.common import BulkResults
from payrec.models.match_decisions import MatchesAccept, MatchesReject
from payrec.services.approvals import check_may_accept, needing_approval
from payrec.services.auto_runs import match_soon
from payrec.services.bulk_results import Results
from payrec.services.effective_days import effective_days
from payrec.services.match_decisions import (
    NOT_OPEN,
    PENDING,
    accepted,
    check_proposed,
    decision_of,
    ids_of,
    release,
    taken_back,
    takes_of,
)
from payrec.services.match_rivals import supersede
from payrec.services.stale_proposals import Key, changed_fields, stale
from payrec.services.work import Unit, Work
from payrec.storage.allocations import CLOSED, AllocationStore, Side, hold_decisions
from payrec.storage.approvals import ApprovalStore
from payrec.storage.match_bulk import Candidate, End, MatchBulkStore
from payrec.storage.match_decisions import MatchDecisionStore
from payrec.storage.matches import MatchStore


class BulkMatchService:
    """Decides about many matches of the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.matches")

    async def accept(self, caller: Caller, given: MatchesAccept) -> BulkResults:
        """Accept proposals in the order of the request: of those that compete, the first takes the amounts.

        Those beyond a limit of ``settings.approval`` wait for a second person, and have their amounts all the same.

        Raises
        ------
        ForbiddenError
            The caller is an API key, which the settings do not let accept.
        """
        check_may_accept(caller)
        results = Results(caller)
        async with self._work.tenant(caller) as unit:
            # Alone, so that what is read stays true: for no longer than a run's commit takes.
            await hold_decisions(unit.connection, alone=True)
            wanted = _ids(given.ids, results)
            store = MatchBulkStore(unit.connection)
            ids = list(dict.fromkeys(wanted.values()))
            are_new = await store.hold(ids)
            candidates = await store.candidates(ids)
            # Which of those that compete, or that something keeps from being accepted, is decided here, one by one.
            looked_at = [c.id for c in candidates.values() if c.status == "proposed" and not c.is_free]
            last = {c.id: c.booking_on for c in candidates.values() if c.status == "proposed"}
            decided = await effective_days(unit, last, given.effective_on)
            choice = _Choice(candidates, await store.ends(looked_at) if looked_at else {}, decided.refused)
            refused: dict[int, UUID] = {}
            for index, match_id in wanted.items():
                try:
                    choice.choose(match_id)
                except _StaleError:
                    refused[index] = match_id
                except PayrecError as error:
                    results.refuse(index, error)
                else:
                    results.succeed(index, 200, match_id)
            if refused:
                changed = {match_id: choice.changed(match_id) for match_id in refused.values()}
                fields = await changed_fields(
                    unit.connection, {k: r for keys in changed.values() for k, r in keys.items()}
                )
                results.refuse_all({index: stale(changed[match_id], fields) for index, match_id in refused.items()})
            if choice.chosen:
                days = {match_id: decided.days[match_id] for match_id in choice.chosen}
                await _write(unit, choice.chosen, days, given.reason, are_new=are_new)
            told = results.told()
            unit.answer(200, told)
        self._logger.info("matches.accepted", count=len(choice.chosen))
        return told

    async def reject(self, caller: Caller, given: MatchesReject) -> BulkResults:
        """Reject proposals, which is remembered; those that wait for approval give their amounts back."""
        try:
            return await self._reject(caller, given, alone=False)
        except _HoldsAmountsError:
            # What is to be given back must not change, so nobody else decides meanwhile.
            return await self._reject(caller, given, alone=True)

    async def _reject(self, caller: Caller, given: MatchesReject, *, alone: bool) -> BulkResults:
        results = Results(caller)
        async with self._work.tenant(caller) as unit:
            await hold_decisions(unit.connection, alone=alone)
            store = MatchDecisionStore(unit.connection)
            wanted = _ids(given.ids, results)
            ids = list(dict.fromkeys(wanted.values()))
            if alone:
                await _give_back(unit, ids, self._work.ids)
            statuses = await store.lock(ids)
            if not alone and "pending_approval" in statuses.values():
                raise _HoldsAmountsError
            chosen: dict[UUID, None] = {}
            for index, match_id in wanted.items():
                try:
                    _check_rejectable(statuses.get(match_id), is_again=match_id in chosen)
                except PayrecError as error:
                    results.refuse(index, error)
                    continue
                chosen[match_id] = None
                results.succeed(index, 200, match_id)
            await store.take_back(list(chosen), decision_of(unit, given.reason), status="rejected")
            for match_id in chosen:
                unit.record(taken_back(match_id, "rejected", before=statuses[match_id], reason=given.reason))
            told = results.told()
            unit.answer(200, told)
        self._logger.info("matches.rejected", count=len(chosen))
        return told


class _HoldsAmountsError(Exception):
    """A match that is to be rejected has amounts, which are given back by who decides alone."""


class _StaleError(Exception):
    """A proposal was made for a transaction as it is not any more."""


class _Choice:
    """Which of the proposals are accepted: in the order of the request, as long as there is enough left.

    What is free competes with nothing that is asked about, so only the others are looked at end by end.
    """

    def __init__(
        self, matches: dict[UUID, Candidate], ends: dict[UUID, list[End]], refused: Mapping[UUID, PayrecError]
    ) -> None:
        self._matches = matches
        self._ends = ends
        self._refused = refused
        self._left: dict[Key, int] = {}
        self._taken_by: dict[Key, UUID] = {}
        self.chosen: dict[UUID, Candidate] = {}
        """The accepted ones."""

    def choose(self, match_id: UUID) -> None:
        """Choose a proposal, or raise why it cannot be accepted. Again is the same."""
        found = self._matches.get(match_id)
        if found is None:
            raise NotFoundError
        if match_id in self.chosen or found.status == "accepted":
            return
        check_proposed(found.status, found.superseded_by)
        if (refusal := self._refused.get(match_id)) is not None:
            raise refusal
        if not found.is_free:
            self._take(match_id, self._ends[match_id])
        self.chosen[match_id] = found

    def changed(self, match_id: UUID) -> dict[Key, int]:
        """Return the transactions that are not what a proposal was made for, and the revision that it was made for."""
        ends = self._ends[match_id]
        return {(Side(end.side), end.id): end.revision for end in ends if end.revision != end.revision_now}

    def _take(self, match_id: UUID, ends: Sequence[End]) -> None:
        if any(end.revision != end.revision_now for end in ends):
            raise _StaleError
        for end in ends:
            if end.status == "pending":
                raise ConflictError(PENDING)
            if end.status in CLOSED:
                raise ConflictError(NOT_OPEN)
        for end in ends:
            key = (Side(end.side), end.id)
            if end.minor > self._left.get(key, end.left_minor):
                winner = self._taken_by.get(key)
                told: dict[str, Any] = {} if winner is None else {"supersededBy": str(winner)}
                raise AlreadyMatchedError("another match has taken the amounts", **told)
        for end in ends:
            key = (Side(end.side), end.id)
            self._left[key] = self._left.get(key, end.left_minor) - end.minor
            self._taken_by[key] = match_id


async def _write(
    unit: Unit,
    chosen: Mapping[UUID, Candidate],
    days: Mapping[UUID, date | None],
    reason: str | None,
    *,
    are_new: bool,
) -> None:
    """Write what is chosen, of which all that it takes of is held."""
    bulk = MatchBulkStore(unit.connection)
    ids: dict[Side, list[str]] = {side: [] for side in Side}
    for done in await bulk.take(list(chosen), are_new=are_new, change_id=unit.change_id, at=unit.now):
        ids[done.side] += done.ids
        unit.tell(f"{done.side.name.lower()}_transaction.{done.status}", done.ids)
    store = MatchDecisionStore(unit.connection)
    # Nobody else locks matches: they need not be held first, and their legs count when rivals are looked for.
    waiting = await needing_approval(unit, days)
    for status, of_status in (("accepted", days.keys() - waiting), ("pending_approval", waiting)):
        if of_status:
            its_days = {match_id: day for match_id, day in days.items() if match_id in of_status}
            await store.accept(its_days, decision_of(unit, reason), status=status, alone=True)
    for match_id, found in chosen.items():
        status = "pending_approval" if match_id in waiting else "accepted"
        unit.record(accepted(match_id, found.amount_minor, reason=reason, status=status))
    rivals = await store.lock_rivals(expected=ids[Side.EXPECTED], incoming=ids[Side.INCOMING])
    if rivals:
        short = {name for names in rivals.values() for name in names}
        await supersede(unit, rivals, await bulk.takers(list(short), list(chosen)))


async def _give_back(unit: Unit, match_ids: Sequence[UUID], ids: IdSource) -> None:
    """Give back the amounts of those matches that wait for approval, before matches are locked."""
    rows = {row["id"]: {**row, "legs": []} for row in await ApprovalStore(unit.connection).waiting(match_ids)}
    if not rows:
        return
    for leg in await MatchStore(unit.connection).legs(list(rows)):
        rows[leg["match_id"]]["legs"].append(leg)
    takes = [take for row in rows.values() for take in takes_of(row)]
    await AllocationStore(unit.connection).hold(**ids_of(takes))
    await release(unit, list(rows.values()))
    await match_soon(unit, ids.new())


def _ids(texts: Sequence[str], results: Results) -> dict[int, UUID]:
    """Return the ids by their place; what cannot be one is refused."""
    found = {}
    for index, text in enumerate(texts):
        if (parsed := parse_uuid(text)) is None:
            results.refuse(index, NotFoundError())
        else:
            found[index] = parsed
    return found


def _check_rejectable(status: str | None, *, is_again: bool) -> None:
    if status is None:
        raise NotFoundError
    MATCH_STATES.check("rejected" if is_again else status, "reject")
