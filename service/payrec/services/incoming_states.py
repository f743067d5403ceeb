"""What people decide about lines without a match: that one is ignored, or what it is, and that this was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

import structlog

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.incoming_states import INCOMING_STATES
from payrec.errors import ConflictError, NotFoundError
from payrec.models.incoming_transactions import (
    IncomingTransactionClassify,
    IncomingTransactionIgnore,
    IncomingTransactionPublic,
    IncomingTransactionRestore,
)
from payrec.services.auto_runs import match_soon
from payrec.services.effective_days import effective_day
from payrec.services.incoming_transactions import public_of
from payrec.services.match_rivals import supersede_rivals
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.duplicates import DuplicateStore
from payrec.storage.history import keep_stated
from payrec.storage.incoming_states import Decision, Held, IncomingStateStore
from payrec.storage.incoming_transactions import IncomingTransactionStore
from payrec.storage.open_rows import reopen

_ZERO_AMOUNT: Final = "zero_amount"
"""Why a line of nothing is ignored; nobody has decided that."""


class IncomingStateService:
    """Ignores, classifies and restores incoming transactions of the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.incoming_transactions")

    async def ignore(
        self, caller: Caller, transaction_id: str, given: IncomingTransactionIgnore, if_match: str | None
    ) -> IncomingTransactionPublic:
        """Ignore a line, booked or not, until somebody restores it.

        Raises
        ------
        NotFoundError, VersionMismatchError
        PeriodLockedError, ValidationFailedError
            It cannot count from the given day.
        ConflictError
            Something of it is matched or linked, or it is not open.
        """
        async with self._work.tenant(caller) as unit:
            row, _ = await _held(unit, transaction_id, if_match)
            INCOMING_STATES.check(row["status"], "ignore")
            day = await _given_day(unit, row, given)
            await _close(unit, row, Decision(id=row["id"], reason=given.reason, effective_on=day), "ignored")
            _tell(unit, row, "ignored", given.reason, {"status": "ignored"})
            return await self._answered(unit, row["id"])

    async def classify(
        self, caller: Caller, transaction_id: str, given: IncomingTransactionClassify, if_match: str | None
    ) -> IncomingTransactionPublic:
        """Say what a booked line is that nobody expected. Nothing of it is open until somebody restores it.

        Raises
        ------
        NotFoundError, VersionMismatchError
        PeriodLockedError, ValidationFailedError
            It cannot count from the given day.
        ConflictError
            Something of it is matched or linked, or it is not open, or not booked yet.
        """
        async with self._work.tenant(caller) as unit:
            row, _ = await _held(unit, transaction_id, if_match)
            INCOMING_STATES.check(row["status"], "classify")
            decision = Decision(
                id=row["id"],
                reason=given.reason,
                category=given.category,
                posting_code=given.posting_code,
                effective_on=await _given_day(unit, row, given),
            )
            await _close(unit, row, decision, "classified")
            _tell(unit, row, "classified", given.reason, _classified(decision))
            return await self._answered(unit, row["id"])

    async def restore(
        self, caller: Caller, transaction_id: str, given: IncomingTransactionRestore, if_match: str | None
    ) -> IncomingTransactionPublic:
        """Take back what was decided about a line, or, where it is open, that it is a duplicate.

        Where the day from which that counts is locked, this counts from the first open day.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ConflictError
            Nothing was decided about it, or it is a line of nothing.
        """
        async with self._work.tenant(caller) as unit:
            row, held = await _held(unit, transaction_id, if_match)
            INCOMING_STATES.check(row["status"], "restore")
            if row["reason_code"] == _ZERO_AMOUNT:
                raise ConflictError("the transaction has no amount")
            if row["status"] in {"ignored", "classified"}:
                after = "pending" if held.pending else "unmatched"
                counted_on = row["effective_on"] or row["booking_date"]
                day = await effective_day(unit, counted_on, [row["account"]])
                await _decide(unit, row, Decision(id=row["id"], effective_on=day), after)
                await reopen(unit.connection, incoming=[row["id"]], change_id=unit.change_id)
            elif held.duplicate:
                after = row["status"]
                await keep_stated(unit.connection, 2, [row["id"]], change_id=unit.change_id)
                await DuplicateStore(unit.connection).keep(row["id"], at=unit.now)
            else:
                raise ConflictError("the transaction is open, and no duplicate")
            _tell(unit, row, "restored", given.reason, {"status": after})
            public = await self._answered(unit, row["id"])
            await match_soon(unit, self._work.ids.new())
            return public

    async def _answered(self, unit: Unit, transaction_id: UUID) -> IncomingTransactionPublic:
        public = public_of(await IncomingTransactionStore(unit.connection).get(transaction_id) or {})
        unit.answer(200, public, {"ETag": public.headers["ETag"]})
        self._logger.info("incoming_transaction.decided", transaction_id=str(transaction_id), status=public.status)
        return public


async def _held(unit: Unit, transaction_id: str, if_match: str | None) -> tuple[dict[str, Any], Held]:
    """Hold a line and return it."""
    wanted = identifier(transaction_id)
    held = await IncomingStateStore(unit.connection).hold(wanted)
    row = await IncomingTransactionStore(unit.connection).get(wanted)
    if held is None or row is None:
        raise NotFoundError
    check_version(if_match, row["version"])
    return row, held


async def _given_day(
    unit: Unit, row: dict[str, Any], given: IncomingTransactionIgnore | IncomingTransactionClassify
) -> date | None:
    """Return the day that somebody asks for, if it can be; None for that of the line."""
    if given.effective_on is None:
        return None
    return await effective_day(unit, row["booking_date"], [row["account"]], given.effective_on)


async def classify_lines(unit: Unit, decisions: Sequence[Decision]) -> set[UUID]:
    """Classify booked lines of which nothing is matched, by a rule; return which they were.

    Called when decisions are held; proposals that join the lines are superseded, so matches are locked.
    """
    store = IncomingStateStore(unit.connection)
    done = await store.decide(decisions, before="unmatched", status="classified", change_id=unit.change_id, at=unit.now)
    if done:
        ids = sorted(done)
        await store.close(ids, change_id=unit.change_id)
        await supersede_rivals(unit, incoming=ids)
    for decision in decisions:
        if decision.id in done:
            unit.record(
                Record(
                    action="incoming_transaction.classified",
                    resource_id=decision.id,
                    reason=decision.reason,
                    before={"status": "unmatched"},
                    after=_classified(decision),
                )
            )
    return done


async def _close(unit: Unit, row: dict[str, Any], decision: Decision, status: str) -> None:
    await _decide(unit, row, decision, status)
    await IncomingStateStore(unit.connection).close([row["id"]], change_id=unit.change_id)
    await supersede_rivals(unit, incoming=[row["id"]])


async def _decide(unit: Unit, row: dict[str, Any], decision: Decision, status: str) -> None:
    store = IncomingStateStore(unit.connection)
    if not await store.decide([decision], before=row["status"], status=status, change_id=unit.change_id, at=unit.now):
        raise ConflictError("somebody else has just decided about the transaction")


def _classified(decision: Decision) -> dict[str, Any]:
    after = {"status": "classified", "category": decision.category, "postingCode": decision.posting_code}
    return {name: value for name, value in after.items() if value is not None}


def _tell(unit: Unit, row: dict[str, Any], verb: str, reason: str | None, after: dict[str, Any]) -> None:
    """Record what was decided, and what was there before."""
    before = {
        "status": row["status"],
        "reason": row["ignored_reason"],
        "category": row["category"],
        "postingCode": row["posting_code"],
        "duplicate": True if row["reason_code"] == "duplicate" else None,
    }
    unit.record(
        Record(
            action=f"incoming_transaction.{verb}",
            resource_id=row["id"],
            reason=reason,
            before={name: value for name, value in before.items() if value is not None},
            after=after,
        )
    )
