"""Periods that are locked when they are complete, and opened again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import structlog

from payrec.constants.accounts import LOCK_SUMS_SECONDS
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.period_locks import PERIOD_STATES
from payrec.domain.scope import today
from payrec.errors import (
    FieldError,
    NotFoundError,
    PeriodIncompleteError,
    PeriodLockedError,
    ValidationFailedError,
)
from payrec.models.common import Page, Public
from payrec.models.period_locks import (
    OpenLine,
    PeriodLockCreate,
    PeriodLockPublic,
    PeriodLockQuery,
    PeriodLockReopen,
    PeriodReadiness,
    StatementGap,
    WaitingMatch,
)
from payrec.services.paging import Pager
from payrec.services.validation import check_version, identifier
from payrec.services.work import Unit, Work
from payrec.storage.adding_up import prepare_adding_up
from payrec.storage.listing import BY_CREATION
from payrec.storage.period_locks import PeriodLockStore, hold_periods
from payrec.storage.reconciliations import ReconciliationStore

COLLECTION: Final = "/period-locks"

_INCOMPLETE: Final[dict[str, tuple[str, str, type[Public]]]] = {
    "open_lines": ("openLines", "open_line_count", OpenLine),
    "gaps": ("statementGaps", "statement_gap_count", StatementGap),
    "waiting": ("pendingApprovals", "pending_approval_count", WaitingMatch),
}
"""What may be incomplete: as it is told, as its count is stored, and what is told of each."""


_COUNTED: Final = {
    "open_lines": ("line is open", "lines are open"),
    "gaps": ("gap is between statements", "gaps are between statements"),
    "waiting": ("match waits for approval", "matches wait for approval"),
}
"""What may be incomplete, as a person is told, of one and of several."""


def _missing(counts: dict[str, int], through: date) -> str:
    """Return in a few words what keeps a period from being locked."""
    told = [
        f"{counts[kind]} {several if counts[kind] > 1 else one}"
        for kind, (one, several) in _COUNTED.items()
        if counts[kind]
    ]
    return f"until {through}, {', '.join(told)}"


class PeriodLockService:
    """Locks periods of the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager
        self._logger = structlog.get_logger("payrec.period_locks")

    async def create(self, caller: Caller, given: PeriodLockCreate) -> PeriodLockPublic:
        """Lock all days until one, unless something of them is open.

        Raises
        ------
        ValidationFailedError
            The day is yet to come, or there is no such account.
        PeriodLockedError
            It is locked already.
        PeriodIncompleteError
            Lines are open, statements are missing, or matches wait for a second person; not with ``override``.
        """
        lock_id = self._work.ids.new()
        if given.through > today(caller.tenant, self._work.clock.now()):
            raise _invalid("/through", "in_the_future", "is a day to come")
        async with self._work.tenant(caller) as unit:
            store = PeriodLockStore(unit.connection)
            if given.account is not None and not await store.is_account(given.account):
                raise _invalid("/account", "unknown_account", "there is no such account")
            # From here on nobody stores a line or decides: what is found is what the lock finds.
            await hold_periods(unit.connection, alone=True)
            if (existing := await store.covering(given.through, given.account)) is not None:
                raise PeriodLockedError("the period is locked already", existingId=str(existing))
            found = await store.incomplete(given.through, given.account)
            if not given.override and any(count for count, _ in found.values()):
                raise PeriodIncompleteError(
                    _missing({kind: count for kind, (count, _) in found.items()}, given.through),
                    incomplete={
                        name: {
                            "count": found[kind][0],
                            "first": [
                                model.model_validate(r).model_dump(mode="json", by_alias=True) for r in found[kind][1]
                            ],
                        }
                        for kind, (name, _, model) in _INCOMPLETE.items()
                    },
                )
            sums = await self._sums(unit, await store.bound(given.account), given.through)
            row = await store.add(
                {
                    "id": lock_id,
                    "change_id": unit.change_id,
                    "created_at": unit.now,
                    "updated_at": unit.now,
                    "through_on": given.through,
                    "account": given.account,
                    "reason": given.reason,
                    "override": given.override,
                    "locked_by": caller.principal.actor,
                    "sums": sums,
                    **{column: found[kind][0] for kind, (_, column, _) in _INCOMPLETE.items()},
                }
            )
            public = public_of(row)
            _record(unit, public, given.reason, before=None)
            unit.answer(201, public, public.headers)
        self._logger.info("period.locked", lock_id=str(lock_id), override=given.override)
        return public

    async def _sums(
        self, unit: Unit, accounts: Sequence[dict[str, Any]], through: date
    ) -> dict[str, dict[str, tuple[int, int]]]:
        """Add up the statements of accounts as far as that takes no time; nobody changes anything meanwhile."""
        until = self._work.clock.monotonic() + LOCK_SUMS_SECONDS
        await prepare_adding_up(unit.connection)
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for account in accounts:
            if self._work.clock.monotonic() > until:
                break
            statement = ReconciliationStore(unit.connection, account=account, cut_off=through, as_of=None)
            found[str(account["id"])] = await statement.parts()
        return found

    async def readiness(self, caller: Caller, through: date) -> PeriodReadiness:
        """Return what would keep all days until one from being locked at present."""
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            found = await PeriodLockStore(connection).incomplete(through, None)
        names = {"open_lines": "open_lines", "gaps": "statement_gaps", "waiting": "pending_approvals"}
        counts = {column: found[kind][0] for kind, (_, column, _) in _INCOMPLETE.items()}
        return PeriodReadiness.model_validate({**counts, **{names[kind]: rows for kind, (_, rows) in found.items()}})

    async def is_locked(self, caller: Caller, through: date) -> bool:
        """Tell whether all days until one are locked, of all accounts."""
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            return await PeriodLockStore(connection).covering(through, None) is not None

    async def get(self, caller: Caller, lock_id: str) -> PeriodLockPublic:
        """Return one.

        Raises
        ------
        NotFoundError
        """
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            row = await PeriodLockStore(connection).get(identifier(lock_id))
        if row is None:
            raise NotFoundError
        return public_of(row)

    async def page(self, caller: Caller, query: PeriodLockQuery) -> Page[PeriodLockPublic]:
        """Return a page.

        Raises
        ------
        InvalidCursorError
        """
        listing = self._pager.listing(COLLECTION, query, BY_CREATION, caller.scope)
        async with self._work.database.tenant(caller.tenant, readonly=True) as connection:
            rows, more = await PeriodLockStore(connection).page(listing.request, query)
        return listing.page(PeriodLockPublic, rows, data=[public_of(row) for row in rows], more=more)

    async def reopen(
        self, caller: Caller, lock_id: str, given: PeriodLockReopen, if_match: str | None
    ) -> PeriodLockPublic:
        """Let decisions count again in the days of a lock, as far as no other one binds them.

        Raises
        ------
        NotFoundError, VersionMismatchError
        ConflictError
            It is open again already.
        """
        wanted = identifier(lock_id)
        async with self._work.tenant(caller) as unit:
            store = PeriodLockStore(unit.connection)
            row = await store.get(wanted, lock=True)
            if row is None:
                raise NotFoundError
            check_version(if_match, row["version"])
            before = public_of(row)
            PERIOD_STATES.check(before.status, "reopen")
            row = await store.reopen(wanted, actor=caller.principal.actor, reason=given.reason, at=unit.now)
            public = public_of(row)
            _record(unit, public, given.reason, before={"status": before.status})
            unit.answer(200, public, {"ETag": public.headers["ETag"]})
        self._logger.info("period.reopened", lock_id=str(wanted))
        return public


def public_of(row: dict[str, Any]) -> PeriodLockPublic:
    """Return the resource of a stored row."""
    incomplete = {
        "open_lines": row["open_line_count"],
        "statement_gaps": row["statement_gap_count"],
        "pending_approvals": row["pending_approval_count"],
    }
    status = "locked" if row["reopened_at"] is None else "reopened"
    return PeriodLockPublic.model_validate(
        {**row, "status": status, "through": row["through_on"], "incomplete": incomplete}
    )


def _record(unit: Unit, public: PeriodLockPublic, reason: str, *, before: dict[str, Any] | None) -> None:
    after: dict[str, Any] = {"status": public.status, "through": public.through.isoformat()}
    if public.account is not None:
        after["account"] = public.account
    if before is None:
        after |= {"override": public.override, "incomplete": public.incomplete.model_dump(by_alias=True)}
    action = f"period.{public.status}"
    unit.record(Record(action=action, resource_id=public.id, reason=reason, before=before, after=after))


def _invalid(pointer: str, code: str, detail: str) -> ValidationFailedError:
    return ValidationFailedError.of(FieldError(pointer=pointer, code=code, detail=detail))
