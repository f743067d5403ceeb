"""``/console/{environment}/incoming/{id}`` and ``/expected/{id}``: one transaction, what it is in, and its history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, get_args
from uuid import UUID

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from payrec.console.rendering import page
from payrec.domain.review_order import QueueStatus
from payrec.domain.scope import end_of, today
from payrec.handlers.context import Context, RequestContext, ResourceId, query_of
from payrec.models.audit_log import AuditLogQuery
from payrec.models.common import Date
from payrec.models.forms import FormQuery
from payrec.models.matches import MatchPublic, MatchQuery

MATCHES_SHOWN: Final = 20
"""Matches on the page of a transaction, the newest."""

LEGS_SHOWN: Final = 10
"""Of each of them, what it joins the transaction with."""

RECORDS_SHOWN: Final = 50
"""Audit records on it, the newest."""


class _Joined(NamedTuple):
    """The other transaction of a leg, and what the leg takes of the one that is shown."""

    kind: str
    id: UUID
    share_minor: int
    share_currency: str


class DetailQuery(FormQuery):
    """The day at whose end the transaction is shown; as it is now, unless one is given."""

    on: Date | None = None


Shown = Annotated[DetailQuery, Depends(query_of(DetailQuery))]

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@router.get("/incoming/{transaction_id}")
async def incoming(context: Context, transaction_id: ResourceId, query: Shown) -> Response:
    """Show one line: what the bank said, what became of it, and who did what to it."""
    service = context.factory.create_incoming_transaction_service()
    found = await service.get(context.caller, transaction_id, as_of=_instant(context, query))
    values = await _around(context, query, MatchQuery(incomingTransactionId=found.id, limit=MATCHES_SHOWN))
    return page(context, "incoming.html", row=found, **values)


@router.get("/expected/{transaction_id}")
async def expected(context: Context, transaction_id: ResourceId, query: Shown) -> Response:
    """Show one expected item: what was stated, what became of it, and who did what to it."""
    service = context.factory.create_expected_transaction_service()
    found = await service.get(context.caller, transaction_id, as_of=_instant(context, query))
    values = await _around(context, query, MatchQuery(expectedTransactionId=found.id, limit=MATCHES_SHOWN))
    return page(context, "expected.html", row=found, **values)


async def _around(context: RequestContext, query: DetailQuery, of_row: MatchQuery) -> dict[str, Any]:
    """Return what stands beside a transaction on its page."""
    row_id = of_row.incoming_transaction_id or of_row.expected_transaction_id
    log = AuditLogQuery(resourceId=row_id, limit=RECORDS_SHOWN)
    wanted = of_row.model_copy(update={"as_of": _instant(context, query)})
    records = await context.factory.create_audit_log_service().page(context.caller, log)
    matches = await context.factory.create_match_service().page(context.caller, wanted)
    joined = {match.id: _joined(match, row_id) for match in matches.data}
    shown = [one for found in joined.values() for one in found[:LEGS_SHOWN]]
    rows = await context.factory.create_search_service().named(
        context.caller,
        lines={one.id for one in shown if one.kind == "incoming"},
        items={one.id for one in shown if one.kind == "expected"},
    )
    waits = (match for match in matches.data if match.status in get_args(QueueStatus))
    actors = [record.actor for record in records.data] + [match.decided_by for match in matches.data]
    return {
        "query": query,
        "matches": matches,
        "joined": joined,
        "legs_shown": LEGS_SHOWN,
        "rows": {**rows.lines, **rows.items},
        "waiting": next(waits, None) if query.on is None else None,
        "names": await context.factory.create_actor_name_service().names(context.caller, actors),
        "records": [(record, _told(record.before), _told(record.after)) for record in records.data],
        "has_more_records": records.has_more,
    }


def _joined(match: MatchPublic, row_id: UUID | None) -> list[_Joined]:
    """Return what a match joins a transaction with, leg by leg."""
    found = []
    for leg in match.legs:
        ends = [
            ("expected", leg.expected_transaction_id),
            ("expected", leg.contra_expected_transaction_id),
            ("incoming", leg.incoming_transaction_id),
            ("incoming", leg.contra_incoming_transaction_id),
        ]
        if row_id not in {end for _, end in ends}:
            continue
        is_settled = row_id in {leg.expected_transaction_id, leg.contra_incoming_transaction_id}
        share = (leg.settled_minor, leg.settled_currency) if is_settled else (leg.amount_minor, match.currency)
        found += [_Joined(kind, end, *share) for kind, end in ends if end is not None and end != row_id]
    return found


def _told(members: Mapping[str, Any] | None) -> str | None:
    """Return what an audit record keeps, one member a line."""
    if not members:
        return None
    return "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in members.items())


def _instant(context: RequestContext, query: DetailQuery) -> datetime | None:
    """Return the end of the day; None for the present one, which has not ended, as for one that is still to come."""
    scope = context.caller.tenant
    if query.on is None or query.on >= today(scope, context.factory.context.clock.now()):
        return None
    return end_of(scope, query.on)
