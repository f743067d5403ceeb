"""The console's pages of a month-end: the statement of each account at a cut-off, what keeps it open, and its locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from payrec.console.rendering import download, page
from payrec.domain.scope import today
from payrec.handlers.context import Context, RequestContext, ResourceId, query_of
from payrec.models.accounts import AccountQuery
from payrec.models.common import Date, ListQuery
from payrec.models.period_locks import PeriodLockQuery
from payrec.models.reconciliations import ReconciliationLineQuery, ReconciliationPart, ReconciliationQuery
from payrec.services.csv_text import CSV_MEDIA_TYPE

ACCOUNTS_SHOWN: Final = 50
"""Accounts whose statements are on a page; each is asked for by itself."""

LOCKS_SHOWN: Final = 50
"""Locks on the page, the latest ones."""

MONTHS_OFFERED: Final = 6
"""Ends of months that a cut-off may be chosen of at once."""

PARTS: Final[tuple[ReconciliationPart, ...]] = (
    "allocated",
    "returned",
    "classified",
    "ignored",
    "inTransit",
    "open",
)
"""What explains a balance, in the order of the statement."""


class MonthEndQuery(ListQuery):
    """Which day."""

    sort: Literal["-createdAt"] = "-createdAt"
    cut_off: Date | None = None
    """The last day that counts; the end of the month before where it is left out."""


class CutOffQuery(BaseModel):
    """The same of a part of the page."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    cut_off: Date


class PartQuery(CutOffQuery):
    """The lines of which part, all of them."""

    part: ReconciliationPart


MonthEnd = Annotated[MonthEndQuery, Depends(query_of(MonthEndQuery))]
CutOff = Annotated[CutOffQuery, Depends(query_of(CutOffQuery))]
Part = Annotated[PartQuery, Depends(query_of(PartQuery))]
PartLines = Annotated[ReconciliationLineQuery, Depends(query_of(ReconciliationLineQuery))]

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@router.get("/month-end")
async def month_end(context: Context, query: MonthEnd) -> Response:
    """Show every account's statement at a cut-off, what keeps the days open, and the locks."""
    ends = month_ends(_today(context))
    wanted = AccountQuery(limit=ACCOUNTS_SHOWN, cursor=query.cursor)
    accounts = await context.factory.create_account_service().page(context.caller, wanted)
    service = context.factory.create_period_lock_service()
    locks = await service.page(context.caller, PeriodLockQuery(limit=LOCKS_SHOWN))
    cut_off = query.cut_off or ends[0]
    is_locked = await service.is_locked(context.caller, cut_off)
    days: dict[str, Any] = {"cut_off": cut_off, "is_locked": is_locked, "month_ends": ends, "today": _today(context)}
    return page(context, "month_end.html", accounts=accounts, locks=locks, query=query, **days)


@router.get("/month-end/readiness")
async def readiness(context: Context, query: CutOff) -> Response:
    """Show what keeps all days until one from being locked; a part of the page."""
    found = await context.factory.create_period_lock_service().readiness(context.caller, query.cut_off)
    return page(context, "month_end_readiness.html", readiness=found, cut_off=query.cut_off)


@router.get("/month-end/{account_id}/statement")
async def statement(context: Context, account_id: ResourceId, query: CutOff) -> Response:
    """Show the statement of one account; a part of the page, so that a slow one keeps no other from being shown."""
    wanted = ReconciliationQuery.model_validate({"cutOff": query.cut_off})
    found = await context.factory.create_reconciliation_service().statement(context.caller, account_id, wanted)
    service = context.factory.create_statement_timeline_service()
    [timeline] = await service.until(context.caller, [found.account_id], query.cut_off)
    return page(context, "month_end_statement.html", statement=found, timeline=timeline, parts=PARTS)


@router.get("/month-end/{account_id}/statement.csv")
async def statement_csv(context: Context, account_id: ResourceId, query: CutOff) -> Response:
    """Return the statement of one account as CSV."""
    service = context.factory.create_reconciliation_service()
    wanted = ReconciliationQuery.model_validate({"cutOff": query.cut_off})
    found, lines = await service.statement_csv(context.caller, account_id, wanted)
    return download(lines, name=f"{found.identifier}-{query.cut_off}.csv", media_type=CSV_MEDIA_TYPE)


@router.get("/month-end/{account_id}/lines.csv")
async def lines_csv(context: Context, account_id: ResourceId, query: Part) -> Response:
    """Return all lines of one part of an account's statement as CSV."""
    service = context.factory.create_reconciliation_service()
    wanted = ReconciliationLineQuery.model_validate({"cutOff": query.cut_off, "part": query.part})
    account, lines = await service.lines_csv(context.caller, account_id, wanted)
    return download(lines, name=f"{account}-{query.cut_off}-{query.part}.csv", media_type=CSV_MEDIA_TYPE)


@router.get("/month-end/{account_id}")
async def lines(context: Context, account_id: ResourceId, query: PartLines) -> Response:
    """Show the lines of one part of an account's statement."""
    service = context.factory.create_reconciliation_service()
    account = await context.factory.create_account_service().get(context.caller, account_id)
    cut_off = query.cut_off or month_ends(_today(context))[0]
    wanted = query.model_copy(update={"cut_off": cut_off})
    found = await service.lines(context.caller, account_id, wanted)
    ids = [line.incoming_transaction_id for line in found.data]
    rows = (await context.factory.create_search_service().named(context.caller, lines=ids)).lines
    values: dict[str, Any] = {"query": wanted, "cut_off": cut_off, "lines": found, "parts": (*PARTS, "pending")}
    return page(context, "month_end_lines.html", account=account, rows=rows, **values)


def month_ends(day: date) -> Sequence[date]:
    """Return the last days of the months before a day's own, the latest first."""
    found = []
    for _ in range(MONTHS_OFFERED):
        day = day.replace(day=1) - timedelta(days=1)
        found.append(day)
    return found


def _today(context: RequestContext) -> date:
    return today(context.caller.tenant, context.factory.context.clock.now())
