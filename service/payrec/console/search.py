"""``/console/{environment}/search``: everything, by amount, text, reference and id."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from payrec.console.rendering import page, page_url, redirect
from payrec.console.unmatched import decimal_of
from payrec.constants.search import SEARCH_ROWS_MAX, SEARCH_SECONDS_MAX
from payrec.domain.search import Sought, sought
from payrec.handlers.context import Context, RequestContext, query_of
from payrec.models.search import SearchQuery, SearchResults

_LIMITS: Final = {"rows_max": SEARCH_ROWS_MAX, "seconds_max": SEARCH_SECONDS_MAX}

SearchFor = Annotated[SearchQuery, Depends(query_of(SearchQuery))]

router = APIRouter(prefix="/console/{environment}", include_in_schema=False)


@router.get("/search")
async def search(context: Context, query: SearchFor) -> Response:
    """Show what is found, or the page of what has the id that was typed."""
    wanted = sought(query.q or "", decimal=decimal_of(context))
    place = await _place(context, wanted)
    if place is not None:
        return redirect(place)
    found = SearchResults()
    if wanted.text:
        found = await context.factory.create_search_service().search(context.caller, query, wanted)
    return page(context, "search.html", query=query, wanted=wanted, found=found, **_LIMITS)


async def _place(context: RequestContext, wanted: Sought) -> str | None:
    if wanted.id is None:
        return None
    kind = await context.factory.create_search_service().place(context.caller, wanted.id)
    return None if kind is None else page_url(context.caller.tenant.environment, f"{kind}/{wanted.id}")
