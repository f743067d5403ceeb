"""The OpenAPI document says what the route table says, and what every answer of this interface has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis

from payrec.gate.routes import ROUTES, Access, Body, Reach, Route
from payrec.openapi_examples import EXAMPLES
from payrec.problems import catalogue, kinds_by_code
from support.service import Service, Tenant
from support.wire import add_key, add_user, ask, code

pytestmark = pytest.mark.anyio

DESCRIBED = [route for route in ROUTES if route.in_schema]
BEARER, KEY, NOTHING = {"bearer": []}, {"apiKey": []}, {}
SECURITY = {
    Access.PUBLIC: [],
    Access.STANDARD: [BEARER, KEY],
    Access.JWT_ONLY: [BEARER],
    Access.PUBLIC_IN_DEVELOPMENT: [BEARER, KEY, NOTHING],
}


CATALOGUE = Path(__file__).parents[3] / "service" / "errors.md"
AUTHENTICATED = [route for route in DESCRIBED if route.access is not Access.PUBLIC]
FILES = {
    "/imports/{import_id}/errors": {"application/json", "text/csv"},
    "/imports/{import_id}/content": {"application/octet-stream"},
    "/expected-transactions/snapshots/{snapshot_id}/differences": {"application/json", "text/csv"},
    "/exports/{export_id}/content": {"application/octet-stream"},
}
"""What is answered where it is not JSON alone."""


@pytest.fixture(scope="module")
async def document(service: Service) -> dict[str, Any]:
    """Return the document as it is served."""
    answer = await service.http.get(f"{service.base_url}/api/openapi.json")
    assert answer.status_code == 200
    return dict(answer.json())


@pytest.fixture(scope="module")
async def people(service: Service, acme: Tenant) -> dict[str, Any]:
    """Return a user who may do nothing, and a key."""
    _, nobody = await add_user(service, acme)
    return {"nobody": nobody, "key": await add_key(acme)}


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
    parts = {f"#/components/{kind}/{name}" for kind, named in document["components"].items() for name in named}
    assert set(_references(document)) <= parts


async def test_it_describes_the_routes_of_the_interface_and_no_others(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in DESCRIBED}


async def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [_operation(document, route)["operationId"] for route in DESCRIBED]
    assert len(set(names)) == len(names)
    assert all(_operation(document, route)["summary"] for route in DESCRIBED)


async def test_every_list_has_its_status_and_the_range_of_its_creation(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    lists = 0
    for path, operations in document["paths"].items():
        answer = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        page = answer.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        given = {parameter["name"] for parameter in operations.get("get", {}).get("parameters", [])}
        if "cursor" not in given or path.startswith("/reports"):
            continue
        [item] = re.findall(r"#/components/schemas/(\w+)", str(schemas[page]["properties"]["data"]))
        wanted = {"createdFrom", "createdTo"} | ({"status"} & schemas[item]["properties"].keys())
        assert wanted <= given, (path, wanted - given)
        lists += 1
    assert lists > 20


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
            assert set(response["content"]) == FILES.get(route.path, {"application/json"})
            assert all(content["schema"] for content in response["content"].values())
        else:
            [(media, content)] = response["content"].items()
            assert media == "application/problem+json"
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    if "{" in route.path:
        assert "404" in responses
    for status, codes in route.problems.items():
        listed = responses[str(status)]["description"].split(", ")
        assert set(codes) <= set(listed)
        assert len(listed) == len(set(listed))


@pytest.mark.parametrize("route", DESCRIBED, ids=_name)
async def test_limits_and_the_time_to_wait_are_described_where_they_are_told(
    document: dict[str, Any], route: Route
) -> None:
    responses = _operation(document, route)["responses"]
    assert ("429" in responses) == (route.access is not Access.PUBLIC or route.path == "/auth/token")
    for status, response in responses.items():
        headers = response.get("headers", {})
        assert headers.get("Retry-After", {}).get("required", False) == (status in {"429", "503"})
        limits = {"RateLimit", "RateLimit-Policy"}
        assert headers.keys() & limits == (limits if route in AUTHENTICATED and status != "401" else set())
        assert ("WWW-Authenticate" in headers) == (status == "401")


@pytest.mark.parametrize("route", DESCRIBED, ids=_name)
async def test_an_operation_says_what_the_environment_means_to_it(document: dict[str, Any], route: Route) -> None:
    assert (route.reach is Reach.NONE) == (route.access is Access.PUBLIC)
    assert (route.reach is Reach.TENANT) == route.path.startswith("/tenants")
    if route.reach is not Reach.NONE:
        described = _parameters(_operation(document, route), "header")["X-Environment"]["description"]
        assert ("nothing of another one" in described) == (route.reach is Reach.ENVIRONMENT)


@pytest.mark.parametrize("route", [r for r in AUTHENTICATED if r.access is not Access.PUBLIC_IN_DEVELOPMENT], ids=_name)
async def test_what_the_gate_refuses_is_what_the_table_says(
    acme: Tenant, globex: Tenant, people: dict[str, Any], route: Route
) -> None:
    path = "/".join(acme.id if part.startswith("{") else part for part in route.path.split("/"))
    nobody, key = people["nobody"], {"Authorization": f"Bearer {people['key']['apiKey']}"}
    sent: dict[str, dict[str, str]] = {
        "missing_credentials": {},
        "invalid_credentials": acme.headers(Authorization="Bearer x"),
        "missing_tenant_header": {"Authorization": f"Bearer {acme.token}"},
        "invalid_environment_header": acme.headers("nowhere"),
        "tenant_mismatch": {**acme.headers(), "X-Tenant-Id": globex.id},
        "environment_mismatch": {**acme.headers("test"), **key},
        "insufficient_permission": nobody.headers(),
    }
    if route.access is Access.JWT_ONLY:
        sent["jwt_required"] = {**acme.headers(), **key}
    for wanted, headers in sent.items():
        answer = await ask(acme, route.method, path, headers)
        assert code(answer) == wanted
        assert wanted in route.problems[answer.status_code]
    assert ("jwt_required" in route.problems[403]) == ("jwt_required" in sent)


@pytest.mark.parametrize("route", [r for r in DESCRIBED if r.body is not Body.NONE], ids=_name)
async def test_a_body_is_described_in_every_media_type_that_the_gate_lets_through(
    document: dict[str, Any], route: Route
) -> None:
    body = _operation(document, route)["requestBody"]
    assert set(body["content"]) == set(route.media_types)


@pytest.mark.parametrize(("method", "path"), EXAMPLES)
async def test_an_example_is_what_its_schema_takes(document: dict[str, Any], method: str, path: str) -> None:
    content = document["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]
    schema = {**content["schema"], "components": document["components"]}
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    validator.validate(content["example"])
    unknown = {**content["example"], "nobodyKnowsThis": 1}
    assert not validator.is_valid(unknown)


async def test_the_documentation_is_served_without_credentials(service: Service) -> None:
    page = await service.http.get(f"{service.base_url}/api/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert 'href="openapi.json"' in page.text
    for name in re.findall(r'(?:href|src)="(docs/[^"]+)"', page.text):
        file = await service.http.get(f"{service.base_url}/api/{name}")
        assert (file.status_code, file.headers["x-content-type-options"]) == (200, "nosniff")
    assert (await service.http.get(f"{service.base_url}/api/docs/start.py")).status_code == 404


async def test_every_code_of_the_document_has_a_page_that_says_what_to_do(
    service: Service, document: dict[str, Any]
) -> None:
    responses = [r for item in document["paths"].values() for o in item.values() for r in o["responses"].items()]
    told = {code for status, r in responses if status >= "400" for code in r["description"].split(", ")}
    # What is refused before a route is known, or told of jobs, is in no operation.
    assert told <= kinds_by_code().keys()
    for name, (kind, *_) in kinds_by_code().items():
        page = await service.http.get(f"{service.base_url}/problems/{name.replace('_', '-')}")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert name in page.text
        assert kind.title in page.text
        assert "remedy" in vars(kind), name
        assert kind.remedy in page.text


def test_the_catalogue_of_errors_is_current() -> None:
    assert CATALOGUE.read_text(encoding="utf-8") == catalogue()


async def test_the_document_is_rendered_once_however_often_anybody_asks(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{service.base_url}/api/openapi.json"
    first = await service.http.get(address)
    monkeypatch.setattr("json.JSONEncoder.encode", _never)
    monkeypatch.setattr("json.JSONEncoder.iterencode", _never)
    again = await service.http.get(address)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["content-type"] == "application/json"


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError
