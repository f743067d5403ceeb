"""Of which days accounts have statements, what lies between these, and which have not come."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from payrec.constants.accounts import TIMELINE_DAYS, TIMELINE_STATEMENTS_MAX
from payrec.domain.business_days import is_weekday
from payrec.domain.caller import Caller
from payrec.domain.scope import today
from payrec.domain.statement_periods import Period
from payrec.domain.statement_timelines import Timeline, TimelineStatement, gaps_of
from payrec.services.statement_notices import calendar_of, missed_periods
from payrec.services.work import Work
from payrec.storage.statement_notices import StatementNoticeStore
from payrec.storage.statements import StatementStore


class StatementTimelineService:
    """Tells of the statements of accounts of the caller's tenant environment."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def until(self, caller: Caller, account_ids: Sequence[UUID], until: date | None) -> list[Timeline]:
        """Return a timeline of each account that there is, in the order of the ids.

        It is of the ``TIMELINE_DAYS`` that end with a day, the tenant's present one unless given. Missing statements
        are those that are due by the database's clock, of periods that begin until that day.
        """
        rows: dict[UUID, list[dict[str, Any]]] = {}
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            notices = StatementNoticeStore(connection)
            now = await notices.now()
            present = today(caller.tenant, now)
            last = until or present
            since = first_day(last)
            watched = {row["id"]: row for row in await notices.among(account_ids, today=present)}
            for account_id in watched:
                rows[account_id] = await StatementStore(connection).timeline(
                    account_id, since, last, limit=TIMELINE_STATEMENTS_MAX + 1
                )
        is_watched = any(account["statement_every"] is not None for account in watched.values())
        is_business_day = await calendar_of(self._work, caller.tenant) if is_watched else is_weekday
        found = []
        for account in (watched[account_id] for account_id in account_ids if account_id in watched):
            missing: Sequence[Period] = ()
            if account["statement_every"] is not None:
                missing = missed_periods(account, scope=caller.tenant, now=now, is_business_day=is_business_day)
            found.append(_timeline(account, rows[account["id"]], missing, since, last))
        return found


def first_day(until: date) -> date:
    """Return the first day of the timeline that ends with a day."""
    # What is asked for the calendar's first days ends with them.
    return until - min(timedelta(days=TIMELINE_DAYS - 1), until - date.min)


def _timeline(
    account: dict[str, Any], rows: Sequence[dict[str, Any]], missing: Sequence[Period], since: date, until: date
) -> Timeline:
    statements = [
        TimelineStatement(**{name: value for name, value in row.items() if name != "account_id"})
        for row in rows[:TIMELINE_STATEMENTS_MAX]
    ]
    return Timeline(
        account_id=account["id"],
        since=since,
        until=until,
        statements=statements,
        gaps=[gap for gap in gaps_of(statements) if gap.begins_on <= until],
        missing=[period for period in missing if since <= period.ends_on and period.begins_on <= until],
        latest_on=account["latest_on"],
        is_cut=len(rows) > TIMELINE_STATEMENTS_MAX,
    )
