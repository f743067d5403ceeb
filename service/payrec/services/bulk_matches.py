"""Many decisions at once: each proposal by itself, decided in memory and written as one set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.identifiers import parse_uuid
from payrec.domain.match_states import MATCH_STATES
from payrec.errors import AlreadyMatchedError, ConflictError, NotFoundError, PayrecError
from payrec.models.common import BulkResults
from payrec.models.match_decisions import MatchesAccept, MatchesReject
from payrec.services.bulk_results import Results
from payrec.services.match_decisions import (
    NOT_OPEN,
    PENDING,
    accepted,
    allocate,
    check_proposed,
    decision_of,
    ids_of,
    taken_back,
)
from payrec.services.match_rivals import supersede
from payrec.services.stale_proposals import Key, changed_fields, stale
from payrec.services.work import Unit, Work
from payrec.storage.allocations import CLOSED, Side, Take, hold_decisions
from payrec.storage.match_bulk import Candidate, End, MatchBulkStore
from payrec.storage.match_decisions import MatchDecisionStore

ATTEMPTS_MAX: Final = 3
"""How often everything is decided anew when a transaction changed before it was held."""


class BulkMatchService:
    """Decides about many matches of the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.matches")

    async def accept(self, caller: Caller, given: MatchesAccept) -> BulkResults:
        """Accept proposals in the order of the request: of those that compete, the first takes the amounts.

        Raises
        ------
        ConflictError
            Transactions change all the time.
        """
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await self._accept(caller, given)
            except _ChangedMeanwhileError:
                if attempt == ATTEMPTS_MAX:
                    raise ConflictError("transactions of these matches are changing") from None
        raise AssertionError("the last attempt returns or raises")

    async def reject(self, caller: Caller, given: MatchesReject) -> BulkResults:
        """Reject proposals, which is remembered."""
        results = Results(caller)
        async with self._work.tenant(caller) as unit:
            await hold_decisions(unit.connection, alone=False)
            store = MatchDecisionStore(unit.connection)
            wanted = _ids(given.ids, results)
            statuses = await store.lock(list(dict.fromkeys(wanted.values())))
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
                unit.record(taken_back(match_id, "rejected", before="proposed", reason=given.reason))
            told = results.told()
            unit.answer(200, told)
        self._logger.info("matches.rejected", count=len(chosen))
        return told

    async def _accept(self, caller: Caller, given: MatchesAccept) -> BulkResults:
        results = Results(caller)
        async with self._work.tenant(caller) as unit:
            # Alone, so that what is read stays true: for no longer than a run's commit takes.
            await hold_decisions(unit.connection, alone=True)
            wanted = _ids(given.ids, results)
            ids = list(dict.fromkeys(wanted.values()))
            store = MatchBulkStore(unit.connection)
            choice = _Choice(await store.matches(ids), await store.ends(ids))
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
                await _write(unit, choice, given.reason)
            told = results.told()
            unit.answer(200, told)
        self._logger.info("matches.accepted", count=len(choice.chosen))
        return told


class _ChangedMeanwhileError(Exception):
    """A transaction is not what it was when it was read: everything is given up."""


class _StaleError(Exception):
    """A proposal was made for a transaction as it is not any more."""


class _Choice:
    """Which of the proposals are accepted: in the order of the request, as long as there is enough left."""

    def __init__(self, matches: dict[UUID, Candidate], ends: dict[UUID, list[End]]) -> None:
        self._matches = matches
        self._ends = ends
        self._left: dict[Key, int] = {}
        self._taken_by: dict[Key, UUID] = {}
        self.chosen: dict[UUID, list[End]] = {}
        """The accepted ones, with what they take."""

    def choose(self, match_id: UUID) -> None:
        """Choose a proposal, or raise why it cannot be accepted. Again is the same."""
        found = self._matches.get(match_id)
        if found is None:
            raise NotFoundError
        if match_id in self.chosen or found.status == "accepted":
            return
        check_proposed(found.status, found.superseded_by)
        ends = self._ends[match_id]
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
        self.chosen[match_id] = ends

    def changed(self, match_id: UUID) -> dict[Key, int]:
        """Return the transactions that are not what a proposal was made for, and the revision that it was made for."""
        ends = self._ends[match_id]
        return {(Side(end.side), end.id): end.revision for end in ends if end.revision != end.revision_now}

    def amount_minor(self, match_id: UUID) -> int:
        """Return the amount of a match."""
        return self._matches[match_id].amount_minor

    @property
    def taken_by(self) -> dict[UUID, UUID]:
        """Which match has taken of a transaction; of several the last one."""
        return {name: match_id for (_, name), match_id in self._taken_by.items()}


async def _write(unit: Unit, choice: _Choice, reason: str | None) -> None:
    """Write what is chosen, in the order in which everybody locks."""
    ends = [end for ends in choice.chosen.values() for end in ends]
    takes = [
        Take(side=Side(e.side), transaction_id=e.id, amount_minor=e.whole_minor, taken_minor=e.minor) for e in ends
    ]
    await allocate(unit, takes, alone=True)
    # Their open rows are held now, so nobody changes what they say.
    if await MatchBulkStore(unit.connection).changed(ends):
        raise _ChangedMeanwhileError
    store = MatchDecisionStore(unit.connection)
    rivals = await store.lock_rivals(**ids_of(takes), beside=list(choice.chosen))
    if choice.chosen.keys() - rivals.keys():
        raise _ChangedMeanwhileError
    days = {
        match_id: max((end.booking_on for end in ends if end.booking_on is not None), default=None)
        for match_id, ends in choice.chosen.items()
    }
    await store.accept(days, decision_of(unit, reason), alone=True)
    for match_id in choice.chosen:
        unit.record(accepted(match_id, choice.amount_minor(match_id), reason=reason))
        del rivals[match_id]
    await supersede(unit, rivals, choice.taken_by)


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
    if status != "proposed":
        # What holds amounts gives them back, one by one.
        raise ConflictError(f"the match is {status.replace('_', ' ')}: reject it by itself")
