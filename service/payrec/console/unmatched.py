"""``/console/{environment}/unmatched``: what is open on both sides, and what comes nearest to one of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field, StringConstraints

from payrec.console.formatting import locale_of, symbols
from payrec.console.rendering import page
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.matching.rules import Reason
from payrec.domain.money import MoneyError, exponent, parse_decimal
from payrec.domain.scope import today
from payrec.domain.search import read_decimal
from payrec.handlers.context import Context, RequestContext, ResourceId, query_of, while_asked
from payrec.models.common import Cursor, Direction, OwnAccount, Page, SearchText, Text
from payrec.models.expected_transactions import ExpectedTransactionPublic, ExpectedTransactionQuery
from payrec.models.forms import FormQuery
from payrec.models.incoming_transactions import IncomingTransactionPublic, IncomingTransactionQuery
from payrec.models.match_candidates import ClosedItemPublic, MatchCandidatePublic
from payrec.services.review import ReviewItem, WaitingMatch
from payrec.services.validation import validated

ROWS_SHOWN: Final = 50
"""Rows of either side that come at once."""

DAYS_MAX: Final = 3_650
"""Largest age in days that can be asked for."""

REASONS: Final = tuple(reason.code for reason in Reason)
"""Why something can be open."""

_SORTS: Final = {
    "incoming": {"newest": "-bookingDate", "oldest": "bookingDate", "largest": "-amountMinor"},
    "expected": {"newest": "-dueDate", "oldest": "dueDate", "largest": "-amountMinor"},
}
_STATUSES: Final = {
    "incoming": {"untouched": "unmatched", "partly": "partially_matched"},
    "expected": {"untouched": "open", "partly": "partially_matched"},
}

Side = Literal["incoming", "expected"]
Listed = Page[IncomingTransactionPublic] | Page[ExpectedTransactionPublic]
Typed = Annotated[str, StringConstraints(max_length=40)]


class UnmatchedQuery(FormQuery):
    """Filters of the page."""

    side: Side | None = None
    state: Literal["untouched", "partly"] = "untouched"
    sort: Literal["newest", "oldest", "largest"] = "oldest"
    direction: Direction | None = None
    currency: Typed | None = None
    account: OwnAccount | None = None
    amount_min: Typed | None = None
    """As the tenant's locale writes amounts, as the next one."""
    amount_max: Typed | None = None
    days: Annotated[int, Field(ge=0, le=DAYS_MAX)] | None = None
    """Least days since the booking of a line, and since an item was due."""
    reason_code: Text | None = None
    q: SearchText | None = None
    cursor: Cursor | None = None
    match: Annotated[str, StringConstraints(max_length=36)] | None = None
    """One that was taken back: what is open of what it joined is listed and chosen, in the place of all else."""


Filters = Annotated[UnmatchedQuery, Depends(query_of(UnmatchedQuery))]

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The filters as the lists take them."""

    values: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    """Names of texts that tell what is wrong, by field; with any, nothing is listed."""


@router.get("/unmatched")
async def unmatched(context: Context, query: Filters) -> Response:
    """Show what is open on both sides, or more of one."""
    decimal = decimal_of(context)
    wanted = read_filters(query, decimal=decimal)
    sides: list[Side] = ["incoming", "expected"] if query.side is None else [query.side]
    former = None
    lists: dict[Side, Listed] = {}
    if query.match is not None:
        former = await context.factory.create_review_service().item(context.caller, query.match)
        lists = open_of(former)
    elif not wanted.faults:
        lists = {side: await listed(context, side, query, wanted) for side in sides}
    waiting = {side: await waiting_of(context, side, found) for side, found in lists.items()}
    shown = query.model_dump(by_alias=True, exclude={"cursor", "side", "match"}, exclude_none=True)
    values: dict[str, Any] = {"query": query, "shown": shown, "faults": wanted.faults, "reasons": REASONS}
    status = 422 if wanted.faults else 200
    values |= {"layout": layout_of(context), "lists": lists, "waiting": waiting, "former": former}
    values["rate_example"] = f"1{decimal}0856"
    return page(context, "unmatched.html", status, exponent=exponent, **values)


@router.get("/unmatched/{side}/{transaction_id}/candidates")
async def candidates(context: Context, side: Side, transaction_id: ResourceId) -> Response:
    """Show what comes nearest to one open transaction, and what each would need to be proposed."""
    service = context.factory.create_match_candidate_service()
    of_side = service.of_incoming if side == "incoming" else service.of_expected
    told = await while_asked(context, of_side(context.caller, transaction_id))
    found, closed = told.data, told.closed
    search = context.factory.create_search_service()
    rows: list[tuple[MatchCandidatePublic, ExpectedTransactionPublic | IncomingTransactionPublic]]
    paid: list[tuple[ClosedItemPublic, ExpectedTransactionPublic]] = []
    if side == "incoming":
        named = [each.expected_transaction_id for each in found]
        named += [each.expected_transaction_id for each in closed]
        items = (await search.named(context.caller, items=named)).items
        paid = [(each, items[each.expected_transaction_id]) for each in closed]
        rows = [(each, items[each.expected_transaction_id]) for each in found]
    else:
        lines = (await search.named(context.caller, lines=[each.incoming_transaction_id for each in found])).lines
        rows = [(each, lines[each.incoming_transaction_id]) for each in found]
    centre = await one(context, side, transaction_id)
    values: dict[str, Any] = {"layout": layout_of(context), "side": side, "centre": centre, "rows": rows, "paid": paid}
    return page(context, "candidates.html", exponent=exponent, **values)


def layout_of(context: RequestContext) -> str:
    """Return the template of what is around the content: nothing, for a script that puts it into its page."""
    return "layout.html" if context.request.scope["state"]["is_page"] else "fragment.html"


def decimal_of(context: RequestContext) -> str:
    """Return the decimal separator of the tenant's locale."""
    return symbols(locale_of(context.caller.tenant.locale))["decimal"]


def read_filters(query: UnmatchedQuery, *, decimal: str) -> Wanted:
    """Read what was typed; amounts need their currency."""
    values: dict[str, Any] = {"currency": query.currency.strip().upper() if query.currency is not None else None}
    faults = {}
    if values["currency"] not in {None, *MINOR_UNITS}:
        faults["currency"] = "unknown_currency"
    for name in ("amountMin", "amountMax"):
        typed = query.amount_min if name == "amountMin" else query.amount_max
        if typed is None:
            continue
        if values["currency"] is None:
            faults["currency"] = "currency_required"
        values[name] = _amount(typed, values["currency"], decimal)
        if values[name] is None:
            faults[name] = "amount_malformed"
    return Wanted(values=values, faults=faults)


def open_of(former: ReviewItem) -> dict[Side, Listed]:
    """Return what can be matched by hand of what a match has joined."""
    lines = [row for row in former.lines if row.open_amount_minor and row.status in _STATUSES["incoming"].values()]
    items = [row for row in former.items if row.open_amount_minor and row.status in _STATUSES["expected"].values()]
    return {
        "incoming": Page(data=lines, has_more=False, next_cursor=None),
        "expected": Page(data=items, has_more=False, next_cursor=None),
    }


async def listed(context: RequestContext, side: Side, query: UnmatchedQuery, wanted: Wanted) -> Listed:
    """Return a page of one side."""
    given = {
        **wanted.values,
        "status": _STATUSES[side][query.state],
        "sort": _SORTS[side][query.sort],
        "direction": query.direction,
        "reasonCode": query.reason_code,
        "q": query.q,
        "cursor": query.cursor,
        "limit": ROWS_SHOWN,
    }
    until = _until(context, query.days)
    if side == "incoming":
        given |= {"account": query.account, "bookingTo": until}
        lines = validated(IncomingTransactionQuery, _without_none(given))
        return await context.factory.create_incoming_transaction_service().page(context.caller, lines)
    items = validated(ExpectedTransactionQuery, _without_none({**given, "dueTo": until}))
    return await context.factory.create_expected_transaction_service().page(context.caller, items)


async def waiting_of(context: RequestContext, side: Side, found: Listed) -> dict[UUID, WaitingMatch]:
    """Return what of a list waits in the review: it has been looked at, though no reason is stored for it."""
    service = context.factory.create_review_service()
    return await service.waiting(context.caller, side, [row.id for row in found.data])


async def one(
    context: RequestContext, side: Side, transaction_id: str
) -> IncomingTransactionPublic | ExpectedTransactionPublic:
    """Return one transaction of either side."""
    if side == "incoming":
        return await context.factory.create_incoming_transaction_service().get(context.caller, transaction_id)
    return await context.factory.create_expected_transaction_service().get(context.caller, transaction_id)


def _amount(typed: str, currency: str | None, decimal: str) -> str | None:
    """Return an amount as the lists take it; None where it is none, or none of the currency."""
    found = read_decimal(typed, decimal=decimal, currency=currency)
    if found is None or currency not in MINOR_UNITS:
        return found
    try:
        parse_decimal(found, currency)
    except MoneyError:
        return None
    return found


def _until(context: RequestContext, days: int | None) -> date | None:
    if days is None:
        return None
    return today(context.caller.tenant, context.factory.context.clock.now()) - timedelta(days=days)


def _without_none(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
