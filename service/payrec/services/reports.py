"""Reports: what is matched, what is late, what is open and why, now or at an instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from payrec.constants.reports import TIME_TO_MATCH_DAYS
from payrec.domain.caller import Caller
from payrec.domain.matching.rules import Reason
from payrec.domain.scope import end_of, today
from payrec.models.reports import (
    AgeingBuckets,
    AgeingLine,
    AgeingQuery,
    AgeingReport,
    ExceptionLine,
    ExceptionsReport,
    GroupedReportQuery,
    OpenBalance,
    OpenBalancesQuery,
    OpenBalancesReport,
    ReportQuery,
    SummaryReport,
)
from payrec.services.paging import Listing, Pager
from payrec.services.report_summaries import figure, summary
from payrec.services.work import Work
from payrec.storage.adding_up import prepare_adding_up
from payrec.storage.history import HistoryStore
from payrec.storage.reports import SORTS, ReportStore

AGEING: Final = "/reports/ageing"
OPEN_BALANCES: Final = "/reports/open-balances"

_BUCKETS: Final = ("not_due", "days1_to30", "days31_to60", "days61_to90", "over90_days", "no_due_date")
"""By the number that the store gives them; the last one is -1."""

_LISTS: Final = {1: "/expected-transactions", 2: "/incoming-transactions"}
_SIDES: Final = {1: "expected", 2: "incoming"}

_FIRST_UNTIL: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Nothing was stored before: a cut-off of long ago is taken for one of then."""

_Group = tuple[str | None, str, str]
_Query = ReportQuery | GroupedReportQuery


class ReportService:
    """Reports on the caller's tenant environment."""

    def __init__(self, *, work: Work, pager: Pager) -> None:
        self._work = work
        self._pager = pager

    async def summary(self, caller: Caller, query: ReportQuery) -> SummaryReport:
        """Return how far reconciliation is.

        Raises
        ------
        AsOfOutOfRangeError
        """
        async with self._store(caller, query) as store:
            expected, incoming = await store.expected(query), await store.incoming(query)
            until = query.as_of or self._work.clock.now()
            if query.cut_off is not None:
                until = min(until, end_of(caller.tenant, query.cut_off))
            since = max(until, _FIRST_UNTIL) - timedelta(days=TIME_TO_MATCH_DAYS)
            matches, waits = await store.matches(query), await store.waits(query, since=since)
        return summary(expected, incoming, matches, waits)

    async def ageing(self, caller: Caller, query: AgeingQuery) -> AgeingReport:
        """Return what is open by when it was due.

        Raises
        ------
        AsOfOutOfRangeError, InvalidCursorError
        """
        listing, day = self._pager.listing(AGEING, query, SORTS, caller.scope), self._day(caller, query)
        async with self._store(caller, query) as store:
            rows = await store.ageing(query, listing.request, today=day)
        groups, more = _grouped(rows, listing)
        lines = [_ageing_line(group, found) for group, found in groups.items()]
        page = listing.page(AgeingLine, [_place(group) for group in groups], more=more, data=lines)
        return AgeingReport.model_construct(**dict(page), on=day)

    async def open_balances(self, caller: Caller, query: OpenBalancesQuery) -> OpenBalancesReport:
        """Return what is open by account or counterparty.

        Raises
        ------
        AsOfOutOfRangeError, InvalidCursorError
        """
        listing, day = self._pager.listing(OPEN_BALANCES, query, SORTS, caller.scope), self._day(caller, query)
        async with self._store(caller, query) as store:
            rows = await store.open_balances(query, listing.request)
        groups, more = _grouped(rows, listing)
        lines = [_balance(group, found) for group, found in groups.items()]
        page = listing.page(OpenBalance, [_place(group) for group in groups], more=more, data=lines)
        return OpenBalancesReport.model_construct(**dict(page), on=day)

    async def exceptions(self, caller: Caller, query: ReportQuery) -> ExceptionsReport:
        """Return why transactions are open.

        Raises
        ------
        AsOfOutOfRangeError
        """
        day = self._day(caller, query)
        async with self._store(caller, query) as store:
            rows = await store.exceptions(query, today=day)
        reasons: dict[tuple[int, str, str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            reasons[row["side"], _reason(row), row["currency"], row["direction"]].append(row)
        lines = [_exception(*key, found, query) for key, found in sorted(reasons.items())]
        return ExceptionsReport(on=day, lines=lines)

    def _day(self, caller: Caller, query: _Query) -> date:
        return query.cut_off or today(caller.tenant, query.as_of or self._work.clock.now())

    @asynccontextmanager
    async def _store(self, caller: Caller, query: _Query) -> AsyncIterator[ReportStore]:
        """Open the store; all that one report reads is of one moment."""
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            await HistoryStore(connection).check(query.as_of)
            store = ReportStore(
                connection,
                as_of=query.as_of,
                cut_off=query.cut_off,
                cut_off_until=None if query.cut_off is None else end_of(caller.tenant, query.cut_off),
            )
            await prepare_adding_up(connection)
            yield store


def _grouped(rows: Iterable[dict[str, Any]], listing: Listing) -> tuple[dict[_Group, list[dict[str, Any]]], bool]:
    """Return the rows of each group of the page, and whether more groups follow."""
    groups: dict[_Group, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["name"], row["currency"], row["direction"]].append(row)
    more = len(groups) > listing.request.limit
    if more:
        groups.popitem()
    return groups, more


def _place(group: _Group) -> dict[str, str | None]:
    """Return what a cursor says of a group."""
    name, currency, direction = group
    return {"id": f"{currency}/{direction}", "name": name}


def _ageing_line(group: _Group, rows: Iterable[Mapping[str, Any]]) -> AgeingLine:
    name, currency, direction = group
    counted = {row["bucket"]: (int(row["count"]), int(row["open_minor"])) for row in rows}
    figures = [figure(currency, *counted.get(place, (0, 0))) for place in (0, 1, 2, 3, 4, -1)]
    overdue = [counted.get(place, (0, 0)) for place in (1, 2, 3, 4)]
    return AgeingLine(
        name=name,
        currency=currency,
        direction=direction,
        open=figure(currency, sum(f.count for f in figures), sum(f.amount_minor for f in figures)),
        overdue=figure(currency, sum(count for count, _ in overdue), sum(minor for _, minor in overdue)),
        buckets=AgeingBuckets(**dict(zip(_BUCKETS, figures, strict=True))),
    )


def _balance(group: _Group, rows: Iterable[Mapping[str, Any]]) -> OpenBalance:
    name, currency, direction = group
    counted = {row["side"]: (int(row["count"]), int(row["open_minor"])) for row in rows}
    expected, incoming = (figure(currency, *counted.get(side, (0, 0))) for side in (1, 2))
    return OpenBalance(name=name, currency=currency, direction=direction, expected=expected, incoming=incoming)


def _reason(row: Mapping[str, Any]) -> str:
    """Return the code that the rows' lists show; empty where there is none."""
    if row["duplicate"]:
        return Reason.DUPLICATE.code
    return Reason(row["reason"]).code if row["reason"] is not None else ""


def _exception(
    side: int, reason: str, currency: str, direction: str, rows: Iterable[Mapping[str, Any]], query: ReportQuery
) -> ExceptionLine:
    rows = list(rows)
    # The report's own filters and its instant, so that the list has the very transactions that were counted.
    given = query.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"currency"})
    has_list = reason and query.cut_off is None
    parameters = {"reasonCode": reason, "currency": currency, "direction": direction, **given}
    return ExceptionLine(
        side=_SIDES[side],
        reason_code=reason or None,
        currency=currency,
        direction=direction,
        open=figure(currency, sum(row["count"] for row in rows), int(sum(row["open_minor"] for row in rows))),
        oldest_days=max((row["oldest_days"] for row in rows if row["oldest_days"] is not None), default=None),
        list_url=f"{_LISTS[side]}?{urlencode(parameters)}" if has_list else None,
    )
