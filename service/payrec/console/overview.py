"""``/console/{environment}/overview``: how much is open and since when, how matching goes, and what comes in."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from payrec.console.charts import ageing_chart, reasons_chart, weekly_chart
from payrec.console.imports import import_row
from payrec.console.rendering import page, page_url, redirect
from payrec.handlers.context import Context, RequestContext
from payrec.models.imports import ImportQuery
from payrec.models.jobs import JobQuery
from payrec.models.reports import AgeingQuery, ReportQuery

WEEKS_SHOWN: Final = 12
"""Weeks of the match rate, the present one among them."""

LINES_SHOWN: Final = 12
"""Currencies and directions of which the ageing is drawn."""

IMPORTS_SHOWN: Final = 8
"""The last imports that are listed."""

JOBS_SHOWN: Final = 8
"""The last jobs that are listed where none is under way."""

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@router.get("")
async def environment(context: Context) -> Response:
    """Go to the overview, which is what an environment's address without a page is for."""
    return redirect(page_url(context.caller.tenant.environment, "overview"))


@router.get("/overview")
async def overview(context: Context, whole: str = "") -> Response:
    """Show what is under way at once; what is added up over everything comes afterwards, unless it is asked for."""
    figures = await _figures(context) if whole else None
    return page(context, "overview.html", figures=figures, **await _activity(context))


@router.get("/overview/figures")
async def figures(context: Context) -> Response:
    """Show what is added up, as a part of the page."""
    return page(context, "overview_figures.html", figures=await _figures(context))


@router.get("/overview/activity")
async def activity(context: Context) -> Response:
    """Show what is under way, as a part of the page."""
    return page(context, "overview_activity.html", **await _activity(context))


async def _figures(context: RequestContext) -> dict[str, Any]:
    reports = context.factory.create_report_service()
    ageing = await reports.ageing(context.caller, AgeingQuery(limit=LINES_SHOWN))
    exceptions = await reports.exceptions(context.caller, ReportQuery())
    weeks = await context.factory.create_match_rate_service().weekly(context.caller, weeks=WEEKS_SHOWN)
    return {
        "ageing": [(line, ageing_chart(line)) for line in ageing.data],
        "has_more_lines": ageing.has_more,
        "weeks": weeks,
        "weekly_chart": weekly_chart(weeks),
        "exceptions": exceptions.lines,
        "reasons_chart": reasons_chart(exceptions.lines),
        "on": ageing.on,
    }


async def _activity(context: RequestContext) -> dict[str, Any]:
    jobs, imports = context.factory.create_job_service(), context.factory.create_import_service()
    under_way = [
        job
        for status in ("running", "queued")
        for job in (await jobs.page(context.caller, JobQuery(status=status, limit=JOBS_SHOWN))).data
    ]
    last = (await jobs.page(context.caller, JobQuery(limit=JOBS_SHOWN))).data if not under_way else []
    listed = await imports.page(context.caller, ImportQuery(limit=IMPORTS_SHOWN))
    return {"under_way": under_way, "last_jobs": last, "imports": [import_row(resource) for resource in listed.data]}
