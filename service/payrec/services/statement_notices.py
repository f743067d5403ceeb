"""Statements that do not come: their tenant environment is told, once for each account and period."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog

from payrec.constants.accounts import ACCOUNTS_WATCHED_AT_ONCE, MISSED_PERIODS_MAX
from payrec.domain.business_days import IsBusinessDay
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope, today
from payrec.domain.statement_periods import Period, due_periods
from payrec.models.accounts import StatementMissing
from payrec.services.business_calendars import business_calendar
from payrec.services.rounds import in_each_active
from payrec.services.work import Work
from payrec.storage.statement_notices import StatementNoticeStore
from payrec.storage.tenants import TenantStore

ACTION: Final = "account.statement_missing"
"""The event, and the audit record that goes with it."""

ACTOR: Final = "statement-notice"
"""Who writes it."""

_FIRST_ID: Final = UUID(int=0)
"""Before every account."""

_Missed = tuple[dict[str, Any], Period]
"""An account, and a period of which it has no statement."""


class StatementNoticeService:
    """Announces statements that should have come, by the tenant's business days and the database's clock.

    A missing statement is announced in the transaction that notes it, so neither a crash nor another process at the
    same time announces it twice, or forgets it.
    """

    def __init__(self, *, work: Work) -> None:
        self._work = work
        self._logger = structlog.get_logger("payrec.accounts")

    async def announce(self) -> int:
        """Announce every statement that is due and has not come; return how many those were.

        A suspended environment is passed over, and told when it is open again.
        """
        request_id = str(self._work.ids.new())
        return await in_each_active(
            self._work,
            lambda scope: self._announce(scope, request_id),
            logger=self._logger,
            failed="statements.not_announced",
        )

    async def _announce(self, scope: TenantScope, request_id: str) -> int:
        principal = Principal(kind="system", name=ACTOR, tenant_id=scope.tenant_id)
        caller = Caller(principal=principal, request_id=request_id, scope=scope)
        after: UUID | None = _FIRST_ID
        announced = 0
        while after is not None:
            missed, after = await self._missed(scope, after)
            if not missed:
                continue
            async with self._work.tenant(caller, scope) as unit:
                store = StatementNoticeStore(unit.connection)
                noted = await store.note(
                    [(account["id"], period.begins_on, account["statement_every"]) for account, period in missed],
                    at=unit.now,
                )
                for account, period in missed:
                    if (account["id"], period.begins_on) in noted:
                        data = _missing(account, period).model_dump(mode="json", by_alias=True)
                        unit.record(Record(action=ACTION, resource_id=account["id"], data=data))
            announced += len(noted)
        return announced

    async def _missed(self, scope: TenantScope, after: UUID) -> tuple[list[_Missed], UUID | None]:
        """Return what nobody was told of yet of some accounts, and the last of these; None where there are no more."""
        async with self._work.database.tenant(scope, readonly=True) as connection:
            store = StatementNoticeStore(connection)
            now = await store.now()
            accounts = await store.watched(after=after, today=today(scope, now), limit=ACCOUNTS_WATCHED_AT_ONCE)
            told = await store.told([account["id"] for account in accounts]) if accounts else set()
        if not accounts:
            return [], None
        is_business_day = await calendar_of(self._work, scope)
        found = [
            (account, period)
            for account in accounts
            for period in missed_periods(account, scope=scope, now=now, is_business_day=is_business_day)
            if (account["id"], period.begins_on) not in told
        ]
        return found, accounts[-1]["id"] if len(accounts) == ACCOUNTS_WATCHED_AT_ONCE else None


def missed_periods(
    account: Mapping[str, Any], *, scope: TenantScope, now: datetime, is_business_day: IsBusinessDay
) -> list[Period]:
    """Return the latest periods of which a watched account should have a statement and has none."""
    found = due_periods(
        account["statement_every"],
        hours=account["hours"],
        since=account["statements_from"],
        now=now,
        zone=ZoneInfo(scope.timezone),
        is_business_day=is_business_day,
        limit=MISSED_PERIODS_MAX,
    )
    # One that is of a later day has come as well: what lies between them is told as a gap.
    return [p for p in found if account["latest_on"] is None or account["latest_on"] < p.begins_on]


async def calendar_of(work: Work, scope: TenantScope) -> IsBusinessDay:
    """Return the business days of a tenant, as its settings name them."""
    async with work.database.control(readonly=True) as connection:
        settings = await TenantStore(connection).settings(scope.tenant_id)
    return business_calendar(settings.get("businessCalendar"))


def _missing(account: Mapping[str, Any], period: Period) -> StatementMissing:
    return StatementMissing(
        account_id=account["id"],
        identifier=account["identifier"],
        currency=account["currency"],
        statement_every=account["statement_every"],
        period_from=period.begins_on,
        period_to=period.ends_on,
        due_at=period.due_at,
        latest_statement_on=account["latest_on"],
    )
