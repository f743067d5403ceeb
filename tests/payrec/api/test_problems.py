"""Every refusal has one shape, names what it needs to, and says nothing back of what was sent."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, NoReturn
from uuid import UUID, uuid4

import pytest
from psycopg_pool import PoolTimeout

from payrec.domain.principal import Permission
from payrec.gate.routes import ROUTES, Access, Body
from payrec.models.expected_transactions import ExpectedTransactionCreate, ExpectedTransactionQuery
from payrec.models.incoming_transactions import IncomingTransactionCreate, IncomingTransactionQuery
from support.service import Service, Tenant
from support.wire import (
    add_key,
    ask,
    code,
    connected,
    fields,
    plain_tracebacks,
    problem,
    read_response,
    request_head,
    send_raw,
)

pytestmark = pytest.mark.anyio

MARKER = "mArKeR9c1e"
UNKNOWN = "0192f0c1-2d3e-7a4b-8c5d-6e7f8091a2b3"
PATHS = sorted({route.path for route in ROUTES if route.in_schema})
TYPED = [r for r in ROUTES if r.in_schema and r.media_types and r.permissions != {Permission.TENANTS_MANAGE}]
"""Routes that take a body of a declared media type, but for those that only the platform's people reach."""


def filled(path: str) -> str:
    """Return the path with an id for each parameter."""
    return "/".join(str(uuid4()) if part.startswith("{") else part for part in path.split("/"))


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/jobs/", "//jobs", "/jobs//", f"/jobs/{UNKNOWN}/x", "/Jobs", "/api", "/jobs%2F", "/%00"]
)
async def test_an_unknown_path_is_404_whoever_asks(service: Service, acme: Tenant, path: str) -> None:
    for headers in ({}, acme.headers()):
        answer = await service.http.get(service.base_url + path, headers=headers)
        assert (answer.status_code, code(answer)) == (404, "not_found")


@pytest.mark.parametrize("path", PATHS)
async def test_a_wrong_method_is_405_and_allow_names_the_right_ones(service: Service, path: str) -> None:
    known = {route.method for route in ROUTES if route.path == path}
    for method in sorted({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - known):
        answer = await service.http.request(method, service.base_url + filled(path))
        assert (answer.status_code, code(answer)) == (405, "method_not_allowed")
        assert set(answer.headers["allow"].split(", ")) == known | ({"HEAD"} if "GET" in known else set())


@pytest.mark.parametrize("route", TYPED, ids=lambda route: f"{route.method} {route.path}")
async def test_a_media_type_that_is_not_declared_is_415(acme: Tenant, route: Any) -> None:
    path = route.path.replace("{tenant_id}", acme.id)
    for media_type in ("text/plain", "application/xml", "application/jsonx", "x"):
        headers = {"Content-Type": media_type}
        answer = await acme.request(route.method, filled(path), headers=headers, content=b"{}")
        assert (answer.status_code, code(answer)) == (415, "unsupported_media_type")
    twice = [*acme.headers().items(), ("Content-Type", "text/plain"), ("Content-Type", route.media_types[0])]
    answer = await acme.http.request(route.method, acme.base_url + filled(path), headers=twice, content=b"{}")
    assert code(answer) == "unsupported_media_type"


async def test_a_declared_length_over_the_limit_comes_before_anything_else(service: Service) -> None:
    for method, path, size in (
        ("POST", "/incoming-transactions/upload", 300),
        ("POST", "/expected-transactions", 2),
        ("PUT", "/expected-transactions", 2),
        ("PUT", "/incoming-transactions/upload", 300),
        ("POST", "/nowhere", 300),
        ("GET", "/jobs", 2),
    ):
        headers = {"Content-Length": str(size * 1024 * 1024), "X-Pad": "x" * 17_000}
        answer = await send_raw(service, request_head(method, path, headers))
        assert (answer.status_code, code(answer)) == (413, "payload_too_large"), path
        assert answer.headers["connection"] == "close"


async def test_a_header_block_over_the_limit_is_431(service: Service, acme: Tenant) -> None:
    for headers in (
        {"X-Pad": "x" * 17_000},
        {f"X-{n}": "x" * 100 for n in range(160)},
        {"Cookie": "a=" + "b" * 17_000},
    ):
        for path in ("/api/health", "/jobs", "/nowhere"):
            answer = await service.http.get(service.base_url + path, headers=headers)
            assert (answer.status_code, code(answer)) == (431, "header_too_large")
    assert (await acme.get("/jobs", headers={"X-Pad": "x" * 12_000})).status_code == 200


async def test_a_head_without_end_is_cut_off_while_it_comes_in(service: Service) -> None:
    sent = 0
    async with connected(service) as (reader, writer):
        answered = asyncio.create_task(read_response(reader))
        writer.write(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nX-Pad: ")
        with contextlib.suppress(ConnectionError):
            while sent < 64 * 1024 * 1024 and not answered.done():
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536
        # What was still on its way when the server closed makes the client's system drop the answer.
        with contextlib.suppress(ConnectionError):
            answer = await answered
            assert (answer.status_code, code(answer)) == (431, "header_too_large")
    assert sent < 16 * 1024 * 1024


async def test_what_is_no_http_is_a_problem_too(service: Service) -> None:
    answer = await send_raw(service, b"\x16\x03\x01 hello\r\n\r\n")
    assert (answer.status_code, code(answer)) == (400, "malformed_body")


async def test_several_requests_on_one_connection_each_have_their_own_bound(service: Service) -> None:
    head = request_head("GET", "/api/health", {"X-Pad": "x" * 8_000})
    async with connected(service) as (reader, writer):
        for _ in range(40):
            writer.write(head)
            assert (await read_response(reader)).status_code == 200


async def test_an_unknown_parameter_is_422_wherever_it_is(acme: Tenant) -> None:
    for route in ROUTES:
        if not route.in_schema or route.access is Access.JWT_ONLY or route.path == "/tenants/{tenant_id}":
            continue
        path = filled(route.path.replace("{tenant_id}", acme.id)) + f"?limmit={MARKER}"
        body = {"name": "x"} if route.path == "/tenants" else {}
        options: dict[str, Any] = {"json": body} if route.body is Body.JSON else {}
        if route.body is Body.UPLOAD:
            options = {"content": b"x", "headers": {"Content-Type": "application/octet-stream"}}
        if route.body is Body.FORM_OR_JSON:
            options = {"json": {"username": "x", "password": "y"}}
        answer = await acme.request(route.method, path, **options)
        assert answer.status_code == 422, (route.method, route.path, answer.text)
        assert ("limmit", "extra_forbidden") in {(p.removeprefix("/"), c) for p, c in fields(answer)}
        assert MARKER not in answer.text


async def test_a_parameter_that_is_given_twice_is_422(acme: Tenant) -> None:
    for path in ("/expected-transactions", "/incoming-transactions", "/jobs", "/imports", "/matches", "/tenants"):
        answer = await acme.get(path, params=[("limit", "1"), ("limit", "2")])
        assert fields(answer) == {("limit", "given_twice")}
    raw = {"content": b"x", "headers": {"Content-Type": "application/octet-stream"}}
    twice = [("currency", "EUR"), ("currency", "USD")]
    answer = await acme.post("/incoming-transactions/upload", params=twice, **raw)
    assert (answer.status_code, fields(answer)) == (422, {("currency", "given_twice")})


async def test_no_field_of_a_body_is_passed_over(acme: Tenant) -> None:
    for route in ROUTES:
        if route.in_schema and route.method == "POST" and route.body is not Body.UPLOAD:
            answer = await acme.post(filled(route.path), json={"nobodyKnowsThis": 1})
            assert ("/nobodyKnowsThis", "extra_forbidden") in fields(answer), route


@pytest.mark.parametrize(
    "path", ["/jobs/{}/cancel", "/data-sources/{}/sync", "/webhooks/{}/rotate-secret", "/webhooks/{}/test"]
)
async def test_what_needs_no_body_takes_an_empty_one(acme: Tenant, path: str) -> None:
    assert code(await acme.post(path.format(UNKNOWN))) == "not_found"
    assert code(await acme.post(path.format(UNKNOWN), json={})) == "not_found"
    answer = await acme.post(path.format(UNKNOWN), json={"secret": "whsec_mine"})
    assert fields(answer) == {("/secret", "extra_forbidden")}


@pytest.mark.parametrize(
    ("method", "path", "body", "details"),
    [
        ("POST", "/expected-transactions", [], {"": "must be an object"}),
        ("POST", "/expected-transactions", {"amount": 1.5, "direction": "in", "iban": "x"}, {
            "/amount": "must be a string", "/currency": "is required", "/direction": "must be 'credit' or 'debit'",
            "/iban": "is not known here",
        }),
        ("POST", "/expected-transactions/bulk", {"items": []}, {"/items": "must have at least 1 item"}),
        ("POST", "/matches/match", {"wait": "10"}, {"/wait": "must be a whole number"}),
        ("PATCH", "/tenants/{}/settings", {"matching": []}, {"/matching": "must be an object"}),
        ("GET", "/expected-transactions?limit=x&overdue=x", None, {
            "limit": "must be a whole number", "overdue": "must be true or false",
        }),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_in_words_of_the_interface(
    acme: Tenant, method: str, path: str, body: Any, details: dict[str, str]
) -> None:
    answer = await acme.request(method, path.format(acme.id), json=body)
    assert {error["pointer"]: error["detail"] for error in problem(answer)["errors"]} == details


async def test_white_space_around_a_header_is_no_part_of_it(service: Service, acme: Tenant) -> None:
    key = await add_key(acme)
    by_key = {k: v for k, v in acme.headers().items() if k != "Authorization"} | {"X-Api-Key": key["apiKey"]}
    for headers in (acme.headers(), by_key):
        spaced = {name: f" \t{value}\t " for name, value in {**headers, "X-Request-Id": "r-1"}.items()}
        answer = await send_raw(service, request_head("GET", "/jobs", spaced))
        assert (answer.status_code, answer.headers["x-request-id"]) == (200, "r-1")


@pytest.mark.parametrize("given", ["a", "A-z_0.9", "x" * 64])
async def test_a_request_id_is_accepted_and_returned(acme: Tenant, given: str) -> None:
    for path in ("/jobs", f"/jobs/{uuid4()}", "/nowhere", "/api/health"):
        answer = await acme.get(path, headers={"X-Request-Id": given})
        assert answer.headers["x-request-id"] == given
        if answer.status_code >= 400:
            assert problem(answer)["requestId"] == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, f"{MARKER} y", f"{MARKER}/", "ä", "x\t1"])
async def test_a_request_id_is_made_where_none_fits(service: Service, given: str | None) -> None:
    lines = {} if given is None else {"X-Request-Id": given}
    answer = await send_raw(service, request_head("GET", "/nowhere", lines))
    made = problem(answer)["requestId"]
    assert UUID(made).version == 7
    assert MARKER not in answer.text


async def test_every_answer_names_the_version_of_the_interface(service: Service, acme: Tenant) -> None:
    for path in ("/api/health", "/api/docs", "/api/openapi.json", "/problems/not-found", "/jobs", "/nowhere"):
        for tenant_headers in ({}, acme.headers()):
            answer = await service.http.get(service.base_url + path, headers=tenant_headers)
            assert answer.headers.get_list("api-version") == ["1"]
            assert len(answer.headers.get_list("x-request-id")) == 1


async def test_no_answer_is_kept_by_a_cache_or_taken_for_something_else(service: Service, acme: Tenant) -> None:
    for path in ("/api/health", "/api/docs", "/api/openapi.json", "/problems/not-found", "/jobs", "/nowhere"):
        for tenant_headers in ({}, acme.headers()):
            answer = await service.http.get(service.base_url + path, headers=tenant_headers)
            assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
            assert answer.headers.get_list("cache-control") == ["no-store"]
    for body in (b"\x16\x03\x01 hello\r\n\r\n", request_head("GET", "/jobs", {"X-Pad": "x" * 17_000})):
        refused = await send_raw(service, body)
        assert refused.headers["x-content-type-options"] == "nosniff"
        assert refused.headers["cache-control"] == "no-store"


async def test_head_is_get_without_a_body(acme: Tenant) -> None:
    await acme.post("/expected-transactions", {"direction": "credit", "amountMinor": 1, "currency": "EUR"})
    for path in ("/expected-transactions", f"/tenants/{acme.id}", "/api/health"):
        got, head = await acme.get(path), await acme.request("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        for name in ("content-type", "content-length", "etag", "api-version"):
            assert head.headers.get(name) == got.headers.get(name)
    missing = await acme.request("HEAD", f"/jobs/{uuid4()}")
    assert (missing.status_code, missing.content) == (404, b"")


@pytest.mark.parametrize(
    ("path", "model"),
    [("/expected-transactions", ExpectedTransactionCreate), ("/incoming-transactions", IncomingTransactionCreate)],
)
async def test_no_field_is_echoed_when_it_is_wrong(acme: Tenant, path: str, model: Any) -> None:
    for field in model.model_fields.values():
        for wrong in ([MARKER], {"x": [MARKER]}, MARKER + "\0"):
            answer = await acme.post(path, {field.alias: wrong})
            assert code(answer) == "validation_failed"
            assert MARKER not in answer.text


@pytest.mark.parametrize(
    ("path", "model"),
    [("/expected-transactions", ExpectedTransactionQuery), ("/incoming-transactions", IncomingTransactionQuery)],
)
async def test_no_parameter_is_echoed_when_it_is_wrong(acme: Tenant, path: str, model: Any) -> None:
    for field in model.model_fields.values():
        answer = await acme.get(path, params={field.alias: MARKER + "\0"})
        assert answer.status_code in {400, 422}, field.alias
        assert MARKER.lower() not in answer.text.lower()
        # The text of some errors quotes the first character that is wrong.
        assert "`" not in answer.text


@pytest.mark.parametrize(
    "name",
    ["X-Api-Key", "Authorization", "X-Tenant-Id", "X-Environment", "Idempotency-Key", "If-Match", "Content-Type"],
)
async def test_no_header_is_echoed_when_it_is_wrong(acme: Tenant, name: str) -> None:
    for value in (f"{MARKER} {MARKER}", f"Bearer {MARKER}.x.y", f"pr_{MARKER}.x"):
        body = b'{"locale": "de"}'
        headers = {"Content-Type": "application/json", **acme.headers(), name: value}
        answer = await ask(acme, "PATCH", f"/tenants/{acme.id}/settings", headers, content=body)
        assert answer.status_code >= 400 or (name, value) == ("Idempotency-Key", f"pr_{MARKER}.x")
        assert MARKER not in answer.text + str(answer.headers)


async def test_no_credential_is_echoed(acme: Tenant) -> None:
    key = await add_key(acme, write=False)
    secret = key["apiKey"].partition(".")[2]
    headers = {**acme.headers("test"), "X-Api-Key": key["apiKey"]}
    for method, path in (("GET", "/jobs"), ("POST", "/jobs"), ("GET", "/auth/api-keys"), ("GET", "/nowhere")):
        answer = await ask(acme, method, path, headers, json={} if method == "POST" else None)
        assert answer.status_code >= 400
        assert secret not in answer.text + str(answer.headers)
    wrong = {"username": "admin@acme", "password": MARKER}
    for body in (wrong, {"username": MARKER, "password": MARKER}, {**wrong, "password": [MARKER]}):
        answer = await acme.post("/auth/token", body)
        assert answer.status_code in {401, 422}
        assert MARKER not in answer.text


async def test_a_wrong_password_and_a_wrong_name_are_told_the_same(acme: Tenant) -> None:
    told = []
    for body in ({"username": "admin@acme", "password": "x"}, {"username": "nobody", "password": "x"}):
        answer = await acme.post("/auth/token", body)
        found = problem(answer)
        found.pop("requestId")
        told.append((answer.status_code, found))
    assert told[0] == told[1]
    assert (told[0][0], told[0][1]["code"]) == (401, "invalid_credentials")


async def test_the_type_of_a_problem_can_be_followed(acme: Tenant) -> None:
    for answer in (await acme.get("/nowhere"), await acme.post("/jobs", {}), await acme.get("/jobs?cursor=x")):
        page = await acme.http.get(acme.base_url + problem(answer)["type"])
        assert page.status_code == 200
    assert code(await acme.http.get(f"{acme.base_url}/problems/{MARKER}")) == "not_found"


async def test_a_crash_is_a_problem_that_tells_nothing(
    service: Service, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(MARKER)

    for owner, name in ((service.factory, "create_job_service"), (service.factory.authenticator, "admit")):
        with plain_tracebacks(), monkeypatch.context() as patch:
            patch.setattr(owner, name, crash)
            answer = await acme.get("/jobs")
        assert (answer.status_code, code(answer)) == (500, "internal_error")
        assert MARKER not in answer.text
    assert (await acme.get("/jobs")).status_code == 200


async def test_without_a_database_connection_it_is_503(
    service: Service, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_: Any) -> NoReturn:
        raise PoolTimeout

    monkeypatch.setattr(service.factory.context.database._pool, "getconn", none)
    answer = await acme.get("/jobs")
    assert (answer.status_code, code(answer)) == (503, "service_unavailable")
    assert int(answer.headers["retry-after"]) > 0
