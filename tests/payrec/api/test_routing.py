"""Which route takes a request: the same one with the routers' short cut as without it."""

from __future__ import annotations

import re

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Match

from payrec.handlers.routing import GatedRouter
from payrec.main import ROUTERS

ROUTES = [
    (route.path, method)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]
SEGMENTS = sorted({segment for path, _ in ROUTES for segment in path.split("/") if not segment.startswith("{")})
API = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
for _router in ROUTERS:
    API.include_router(_router)


def taken(path: str, method: str) -> list[tuple[int, Match]]:
    """Return which routers take a request, and how."""
    takers = []
    for place, route in enumerate(API.router.routes):
        scope = {"type": "http", "path": path, "method": method, "root_path": "", "headers": []}
        match, _ = route.matches(scope)
        if match is not Match.NONE:
            takers.append((place, match))
    return takers


def taken_slowly(path: str, method: str) -> list[tuple[int, Match]]:
    """Return the same when each route of each router is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GatedRouter, "matches", APIRouter.matches)
        return taken(path, method)


@pytest.mark.parametrize(("path", "method"), ROUTES, ids=" ".join)
def test_every_route_is_found(path: str, method: str) -> None:
    given_path = re.sub(r"\{[^}]*\}", "01a21980-5194-774f-8809-edd4fe7e17b4", path)
    found = taken(given_path, method)
    assert Match.FULL in {match for _, match in found}
    assert found == taken_slowly(given_path, method)


@given(
    st.lists(st.sampled_from(SEGMENTS) | st.text(max_size=5), max_size=4).map("/".join),
    st.sampled_from(["", "/", "//"]),
    st.sampled_from(["GET", "POST", "PATCH"]),
)
def test_whatever_is_asked_for_the_short_cut_changes_nothing(path: str, beginning: str, method: str) -> None:
    assert taken(beginning + path, method) == taken_slowly(beginning + path, method)
