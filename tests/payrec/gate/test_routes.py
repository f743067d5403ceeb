"""The route of a request, by its path: whatever the parameters are, and nothing else."""

from __future__ import annotations

from itertools import product
from uuid import uuid4

import pytest

from payrec.constants import BULK_BODY_BYTES_MAX, JSON_BODY_BYTES_MAX, UPLOAD_BYTES_MAX
from payrec.gate.routes import FORM_BODY_BYTES_MAX, ROUTES, Access, Body, Reach, Route, RouteTable

PATHS = sorted({route.path for route in ROUTES})


def filled(path: str, value: str) -> str:
    """Return a path with a value for each parameter."""
    return "/".join(value if part.startswith("{") else part for part in path.split("/"))


@pytest.mark.parametrize("path", PATHS)
def test_a_path_has_the_methods_of_its_routes_and_no_others(path: str) -> None:
    expected = {route.method: route for route in ROUTES if route.path == path}
    assert len(expected) == sum(route.path == path for route in ROUTES)
    table = RouteTable()
    for value in (str(uuid4()), "x", "{}", " "):
        assert table.methods(filled(path, value)) == expected
    for other in (f"{path}/", f"/{path}", path[1:], path.upper(), f"{path}/x/y/z/u/v/w"):
        assert table.methods(filled(other, "x")) == {}
    if "{" in path:
        assert table.methods(filled(path, "")) == {}


def test_a_path_without_parameters_wins_over_one_with_them_wherever_they_stand() -> None:
    paths = ["/a/{id}", "/a/b", "/{id}/c/{name}", "/a"]
    routes = tuple(Route(method=method, path=path) for path, method in product(paths, ("GET", "POST")))
    for order in (routes, routes[::-1]):
        table = RouteTable(order)
        for asked, path in (("/a/b", "/a/b"), ("/a/c", "/a/{id}"), ("/x/c/y", "/{id}/c/{name}"), ("/a", "/a")):
            assert table.methods(asked) == {route.method: route for route in routes if route.path == path}
        assert [table.methods(asked) for asked in ("/b", "/a/", "//c/d", "/x/d/y", "/x/c/", "")] == [{}] * 6


FORMS = {"POST /idp/token", "POST /console/sign-in", "POST /console/sign-out", "POST /console/authorise"}
LOGIN = "POST /auth/token"
UPLOADS = {
    "POST /expected-transactions/upload",
    "POST /expected-transactions/snapshots",
    "POST /incoming-transactions/upload",
    "POST /incoming-transactions/upload/preview",
    "POST /matches/import",
    "POST /fx-rates/upload",
}
BULK = {
    "POST /expected-transactions/bulk",
    "POST /incoming-transactions/bulk",
    "POST /matches",
    "POST /matches/accept",
    "POST /matches/reject",
    "PUT /fx-rates",
    "POST /remittance-advices",
}
WITHOUT_EFFECT = "POST /incoming-transactions/upload/preview"
IN_EVERY_ENVIRONMENT = {"/tenants", "/tenants/{tenant_id}", "/tenants/{tenant_id}/settings"}


def said(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", ROUTES, ids=said)
def test_a_route_reads_what_its_kind_reads_and_no_more_of_it(route: Route) -> None:
    """The table is made by a few rules; what comes of them is said here without them."""
    json = ("application/json",)
    expected: tuple[Body, int, tuple[str, ...]]
    if said(route) in UPLOADS:
        files = ("application/x-ndjson", "application/octet-stream", "multipart/form-data")
        expected = (Body.UPLOAD, UPLOAD_BYTES_MAX, (*json, *files))
    elif said(route) in FORMS:
        expected = (Body.FORM, FORM_BODY_BYTES_MAX, ("application/x-www-form-urlencoded",))
    elif said(route) == LOGIN:
        expected = (Body.FORM_OR_JSON, FORM_BODY_BYTES_MAX, (*json, "application/x-www-form-urlencoded"))
    elif route.method in {"GET", "DELETE"}:
        expected = (Body.NONE, JSON_BODY_BYTES_MAX, ())
    else:
        assert route.method in {"POST", "PATCH", "PUT"}
        patches = ("application/merge-patch+json",) if route.method == "PATCH" else ()
        expected = (Body.JSON, BULK_BODY_BYTES_MAX if said(route) in BULK else JSON_BODY_BYTES_MAX, (*json, *patches))
    assert (route.body, route.body_bytes_max, route.media_types) == expected


@pytest.mark.parametrize("route", ROUTES, ids=said)
def test_a_route_is_open_limited_and_repeatable_as_its_kind_is(route: Route) -> None:
    is_public = route.access is Access.PUBLIC
    assert is_public == (not route.permissions)
    assert route.is_limited == (not is_public or said(route) == LOGIN)
    forms = {*FORMS, LOGIN}
    assert route.idempotent == (route.method in {"POST", "PATCH"} and said(route) not in {*forms, WITHOUT_EFFECT})
    elsewhere = Reach.TENANT if route.path in IN_EVERY_ENVIRONMENT else Reach.ENVIRONMENT
    assert route.reach is (Reach.NONE if is_public else elsewhere)
    first, _, second = route.path[1:].partition("/")
    outside = first in {"idp", "problems", "console"} or (first == "api" and second != "health")
    assert route.in_schema == (not outside)
    assert (route.access is Access.SESSION) == (first == "console" and second.startswith("{environment}"))


def test_the_routes_that_are_named_here_are_all_there() -> None:
    named = {*FORMS, LOGIN, *UPLOADS, *BULK, WITHOUT_EFFECT}
    assert named <= {said(route) for route in ROUTES}
    assert set(PATHS) >= IN_EVERY_ENVIRONMENT
