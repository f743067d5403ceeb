"""The console's pages of imports: files that came, what became of each, and of which days there are statements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from payrec.console.rendering import download, page
from payrec.constants.accounts import TIMELINE_DAYS
from payrec.domain.business_days import shifted
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.statement_timelines import Timeline
from payrec.formats.csv.profile import COLUMN_ROLES
from payrec.handlers.context import Context, ResourceId, query_of
from payrec.handlers.downloads import FILE_MEDIA_TYPE, digest_headers
from payrec.models.accounts import AccountPublic, AccountQuery
from payrec.models.common import Date, ListQuery
from payrec.models.data_sources import DataSourceQuery
from payrec.models.imports import ImportPublic, ImportQuery, RecordProblemQuery
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.services.csv_text import CSV_MEDIA_TYPE
from payrec.services.imports import PROBLEMS_COUNTED_MAX

IMPORTS_SHOWN: Final = 25
"""Imports on a page."""

ACCOUNTS_SHOWN: Final = 20
"""Accounts whose timelines are on a page."""

PROFILES_SHOWN_MAX: Final = 100
"""Data sources that an upload may be said to be of, the newest ones."""

DAY_WIDTH: Final = 8
"""Units of a timeline's drawing that a day is wide."""

_EXPONENTS: Final = json.dumps({code: digits for code, digits in MINOR_UNITS.items() if digits != 2})
"""Digits of the minor units of all currencies that have not two, for the scripts of the preview."""

BalanceCheck = Literal["ok", "mismatch", "not_available"]


class TimelineQuery(ListQuery):
    """Which timelines."""

    sort: Literal["-createdAt"] = "-createdAt"
    through: Date | None = None
    """The last day; the present one where it is left out."""
    account: UUID | None = None
    """One account alone, with all of its statements in a table."""


ImportList = Annotated[ImportQuery, Depends(query_of(ImportQuery))]
TimelineList = Annotated[TimelineQuery, Depends(query_of(TimelineQuery))]
ProblemList = Annotated[RecordProblemQuery, Depends(query_of(RecordProblemQuery))]
LineList = Annotated[ListQuery, Depends(query_of(ListQuery))]

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRow:
    """An import in the list, with what its statements come to."""

    resource: ImportPublic
    finding_count: int
    balance_check: BalanceCheck
    gap_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A timeline as paths of an SVG, one for each kind of days; empty where there are none."""

    width: int
    covered: str
    overlaps: str
    gaps: str
    missing: str
    months: Sequence[tuple[int, date]]
    """Where each month begins that does so in these days, in units."""


@router.get("/imports")
async def list_(context: Context, query: ImportList) -> Response:
    """Show the files that came, newest first, and take another one."""
    service, sources = context.factory.create_import_service(), context.factory.sources.create_data_source_service()
    shown = query.model_copy(update={"limit": IMPORTS_SHOWN})
    found = await service.page(context.caller, shown)
    counts = await service.problem_counts(context.caller, [resource.id for resource in found.data])
    profiles = await sources.page(context.caller, DataSourceQuery(limit=PROFILES_SHOWN_MAX))
    rows = [import_row(resource, counts[resource.id]) for resource in found.data]
    values: dict[str, Any] = {
        "bytes_max": context.factory.context.config.upload_max_bytes,
        "roles": COLUMN_ROLES,
        "profiles": profiles.data,
        "counted_max": PROBLEMS_COUNTED_MAX,
        "exponents": _EXPONENTS,
    }
    return page(context, "imports.html", rows=rows, query=query, next_cursor=found.next_cursor, **values)


@router.get("/imports/timeline")
async def timeline(context: Context, query: TimelineList) -> Response:
    """Show of which days accounts have statements, and what is missing."""
    accounts = context.factory.create_account_service()
    next_cursor = None
    if query.account is None:
        listed = await accounts.page(context.caller, AccountQuery(limit=ACCOUNTS_SHOWN, cursor=query.cursor))
        shown, next_cursor = listed.data, listed.next_cursor
    else:
        shown = [await accounts.get(context.caller, str(query.account))]
    service = context.factory.create_statement_timeline_service()
    found = await service.until(context.caller, [account.id for account in shown], query.through)
    until = found[0].until if found else date.min
    steps: dict[str, Any] = {"earlier": shifted(until, -TIMELINE_DAYS), "later": shifted(until, TIMELINE_DAYS)}
    return page(context, "timeline.html", rows=drawn(shown, found), query=query, next_cursor=next_cursor, **steps)


@router.get("/imports/{import_id}")
async def get(context: Context, import_id: ResourceId, query: ProblemList) -> Response:
    """Show what became of one file: its counts, its statements and what is to be known of it."""
    service = context.factory.create_import_service()
    found = await service.get(context.caller, import_id)
    problems = await service.errors(context.caller, import_id, query)
    job = await context.factory.create_job_service().get(context.caller, str(found.job_id))
    return page(context, "import.html", row=import_row(found, len(problems.data)), job=job, problems=problems)


@router.get("/imports/{import_id}/findings.csv")
async def findings(context: Context, import_id: ResourceId) -> Response:
    """Return all findings of a file as CSV."""
    found = await context.factory.create_import_service().errors_csv(context.caller, import_id)
    return download(found, name=f"{import_id}-findings.csv", media_type=CSV_MEDIA_TYPE)


@router.get("/imports/{import_id}/file")
async def file(context: Context, import_id: ResourceId) -> Response:
    """Return a file as it came."""
    found, chunks = await context.factory.create_import_service().content(context.caller, import_id)
    headers = {"Content-Length": str(found.bytes), **digest_headers(found.sha256)}
    return download(chunks, name=found.name, media_type=FILE_MEDIA_TYPE, headers=headers)


@router.get("/imports/{import_id}/lines")
async def lines(context: Context, import_id: ResourceId, query: LineList) -> Response:
    """Show the lines that an import has brought."""
    found = await context.factory.create_import_service().get(context.caller, import_id)
    given = {"importId": found.id, "limit": query.limit, "cursor": query.cursor}
    wanted = IncomingTransactionQuery.model_validate(given)
    listed = await context.factory.create_incoming_transaction_service().page(context.caller, wanted)
    return page(context, "import_lines.html", resource=found, lines=listed)


def import_row(resource: ImportPublic, finding_count: int = 0) -> ImportRow:
    """Return an import as the list shows it: one balance that does not add up is what matters of all."""
    checks = {balance.balance_check for balance in resource.balances}
    check: BalanceCheck = "mismatch" if "mismatch" in checks else "ok" if "ok" in checks else "not_available"
    gap_count = sum(balance.continuity == "gap" for balance in resource.balances)
    return ImportRow(resource=resource, finding_count=finding_count, balance_check=check, gap_count=gap_count)


def drawn(
    accounts: Iterable[AccountPublic], timelines: Iterable[Timeline]
) -> list[tuple[AccountPublic, Timeline, Drawing]]:
    """Return accounts with their timelines and how these are drawn."""
    by_id = {account.id: account for account in accounts}
    return [(by_id[found.account_id], found, drawing(found)) for found in timelines]


def drawing(found: Timeline) -> Drawing:
    """Return the paths of a timeline: a bar for each statement, so that one is told from the next."""
    overlapping = [s.continuity == "overlap" for s in found.statements]
    spans = [(s.begins_on, s.ends_on) for s in found.statements]
    return Drawing(
        width=found.day_count * DAY_WIDTH,
        covered=_path(found, (span for span, is_overlap in zip(spans, overlapping, strict=True) if not is_overlap)),
        overlaps=_path(found, (span for span, is_overlap in zip(spans, overlapping, strict=True) if is_overlap)),
        # Less high than a statement, so that the two are told from each other without colours.
        gaps=_path(found, ((gap.begins_on, gap.ends_on) for gap in found.gaps), top=5, height=6),
        missing=_path(found, ((period.begins_on, period.ends_on) for period in found.missing)),
        months=[(number * DAY_WIDTH, day) for number, day in enumerate(_days(found)) if day.day == 1],
    )


def _path(found: Timeline, spans: Iterable[tuple[date, date]], *, top: int = 0, height: int = 16) -> str:
    pieces = []
    for begins_on, ends_on in spans:
        first, last = max(begins_on, found.since), min(ends_on, found.until)
        if first <= last:
            width = ((last - first).days + 1) * DAY_WIDTH - 1
            pieces.append(f"M{(first - found.since).days * DAY_WIDTH} {top}h{width}v{height}h-{width}z")
    return "".join(pieces)


def _days(found: Timeline) -> Iterable[date]:
    return (found.since + timedelta(days=number) for number in range(found.day_count))
