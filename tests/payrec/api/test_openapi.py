"""The OpenAPI document says what the route table says, and what every answer of this interface has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis

from payrec.gate.routes import ROUTES, Access, Body, Route
from support.service import Service

pytestmark = pytest.mark.anyio

DESCRIBED = [route for route in ROUTES if route.in_schema]
BEARER, KEY, NOTHING = {"bearer": []}, {"apiKey": []}, {}
SECURITY = {
    Access.PUBLIC: [],
    Access.STANDARD: [BEARER, KEY],
    Access.JWT_ONLY: [BEARER],
    Access.PUBLIC_IN_DEVELOPMENT: [BEARER, KEY, NOTHING],
}


@pytest.fixture(scope="module")
async def document(service: Service) -> dict[str, Any]:
    """Return the document as it is served."""
    answer = await service.http.get(f"{service.base_url}/api/openapi.json")
    assert answer.status_code == 200
    return dict(answer.json())


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


def _operation(document: dict[str, Any], route: Route) -> dict[str, Any]:
    return dict(document["paths"][route.path][route.method.lower()])


def _parameters(operation: dict[str, Any], place: str) -> dict[str, dict[str, Any]]:
    return {p["name"]: p for p in operation.get("parameters", []) if p["in"] == place}


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


async def test_the_document_is_valid(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    schemathesis.openapi.from_dict(document).validate()
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(_references(document)) <= schemas


async def test_it_describes_the_routes_of_the_interface_and_no_others(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in DESCRIBED}


async def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [_operation(document, route)["operationId"] for route in DESCRIBED]
    assert len(set(names)) == len(names)
    assert all(_operation(document, route)["summary"] for route in DESCRIBED)


async def test_it_offers_both_schemes(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    assert (schemes["bearer"]["type"], schemes["bearer"]["scheme"]) == ("http", "bearer")
    assert (schemes["apiKey"]["type"], schemes["apiKey"]["in"], schemes["apiKey"]["name"]) == (
        "apiKey",
        "header",
        "X-Api-Key",
    )


@pytest.mark.parametrize("route", DESCRIBED, ids=_name)
async def test_an_operation_says_who_may_use_it(document: dict[str, Any], route: Route) -> None:
    operation = _operation(document, route)
    assert operation["security"] == SECURITY[route.access]
    headers = _parameters(operation, "header")
    for name in ("X-Tenant-Id", "X-Environment"):
        assert (name in headers) == (route.access is not Access.PUBLIC)
        if name in headers:
            assert headers[name]["required"] == (route.access is not Access.PUBLIC_IN_DEVELOPMENT)
    assert ("Idempotency-Key" in headers) == route.idempotent
    for permission in route.permissions:
        assert permission.value in operation["description"]


@pytest.mark.parametrize("route", DESCRIBED, ids=_name)
async def test_every_error_is_a_problem_and_every_success_has_a_schema(document: dict[str, Any], route: Route) -> None:
    responses = _operation(document, route)["responses"]
    for status, response in responses.items():
        if status == "204":
            assert "content" not in response
        elif status < "400":
            [(media, content)] = response["content"].items()
            assert media == "application/json"
            assert content["schema"]
        else:
            [(media, content)] = response["content"].items()
            assert media == "application/problem+json"
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    if route.access in {Access.STANDARD, Access.JWT_ONLY}:
        assert {"401", "403"} <= responses.keys()
    if "{" in route.path:
        assert "404" in responses
    if route.body is not Body.NONE:
        assert {"413", "415", "422"} <= responses.keys()


@pytest.mark.parametrize("route", [r for r in DESCRIBED if r.body is not Body.NONE], ids=_name)
async def test_a_body_is_described_in_every_media_type_that_the_gate_lets_through(
    document: dict[str, Any], route: Route
) -> None:
    body = _operation(document, route)["requestBody"]
    assert set(body["content"]) == set(route.media_types)


async def test_the_documentation_is_served_without_credentials(service: Service) -> None:
    page = await service.http.get(f"{service.base_url}/api/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "/api/openapi.json" in page.text


async def test_every_problem_type_that_is_answered_has_a_page(service: Service) -> None:
    problem = (await service.http.get(f"{service.base_url}/nowhere")).json()
    page = await service.http.get(f"{service.base_url}{problem['type']}")
    assert page.status_code == 200
    assert problem["code"] in page.text
    assert problem["title"] in page.text
