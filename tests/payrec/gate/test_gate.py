"""What comes of a request at the gate: what the application is given, what is answered, what is told of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from payrec.constants import BULK_BODY_BYTES_MAX, HEADER_BYTES_MAX, JSON_BODY_BYTES_MAX, UPLOAD_BYTES_MAX
from payrec.errors import PayrecError
from support.entrance import Entrance
from support.service import Tenant

pytestmark = pytest.mark.anyio

Headers = Sequence[tuple[str, str]]

PATH = "/expected-transactions"
UPLOAD = "/incoming-transactions/upload"
JSON = ("Content-Type", "application/json")
EVERY_ANSWER = {"x-request-id": "r-1", "api-version": "1", "cache-control": "no-store"}


def admin(tenant: Tenant, environment: str = "production") -> Headers:
    return tuple(tenant.headers(environment).items())


async def test_what_is_no_request_goes_straight_through(entrance: Entrance) -> None:
    scope: Scope = {"type": "lifespan"}
    asked, sent = await entrance.pass_on(scope, {"type": "lifespan.startup"})
    assert asked is scope
    assert scope == {"type": "lifespan"}
    assert sent == [{"type": "lifespan.startup"}]


async def test_the_application_is_told_who_asks_and_gets_the_body(
    entrance: Entrance, acme: Tenant, globex: Tenant
) -> None:
    body = b'{"amount": "1.00"}'
    for tenant in (acme, globex):
        for environment in ("production", "test"):
            answer = await entrance.ask("POST", PATH, [*admin(tenant, environment), JSON], body)
            assert (answer.status, answer.body, answer.app.body) == (200, b"answered", body)
            assert answer.app.afterwards == {"type": "http.disconnect"}
            assert answer.headers == {**EVERY_ANSWER, "x-content-type-options": "nosniff"}
            state, caller = answer.app.state, answer.caller
            assert set(state) == {"request_id", "factory", "json", "caller"}
            assert (state["request_id"], state["factory"], state["json"]) == ("r-1", entrance.factory, json.loads(body))
            assert (caller.request_id, caller.idempotency) == ("r-1", None)
            assert (str(caller.tenant.tenant_id), caller.tenant.environment) == (tenant.id, environment)
            assert str(caller.principal.tenant_id) == tenant.id


async def test_a_request_is_timed_counted_and_logged_with_who_asked(entrance: Entrance, acme: Tenant) -> None:
    answer = await entrance.ask("POST", PATH, [*admin(acme), JSON], b"{}")
    told = {
        "event": "request",
        "log_level": "info",
        "method": "POST",
        "route": PATH,
        "status": 200,
        "ms": 125.31,
        "request_id": "r-1",
        "tenant": "acme",
        "environment": "production",
        "principal": answer.caller.principal.actor,
    }
    assert answer.lines == [told]
    assert entrance.counted("payrec_http_requests_total", method="POST", route=PATH, status="200") == 1
    assert entrance.counted("payrec_http_request_duration_seconds_sum", method="POST", route=PATH) == pytest.approx(
        0.1253125
    )
    assert entrance.counted("payrec_authentications_total", principal="user", outcome="ok") == 1


async def test_of_a_request_to_nowhere_nothing_is_told_that_was_told_of_another(
    entrance: Entrance, acme: Tenant
) -> None:
    await entrance.ask("GET", PATH, admin(acme))
    answer = await entrance.ask("DELETE", "/nowhere/at/all")
    assert answer.refusal() == (404, "not_found", "there is nothing at this path")
    [line] = answer.lines
    assert (line.pop("ms"), line.pop("log_level")) == (125.31, "info")
    assert line == {"event": "request", "method": "DELETE", "route": "unknown", "status": 404, "request_id": "r-1"}
    assert entrance.counted("payrec_http_requests_total", method="DELETE", route="unknown", status="404") == 1


async def test_head_is_asked_of_the_application_as_get_and_counted_as_head(entrance: Entrance, acme: Tenant) -> None:
    app = (await entrance.ask("GET", PATH, admin(acme))).app
    answer = await entrance.ask("HEAD", PATH, admin(acme), query=b"limit=1")
    assert answer.app.scope is not None
    assert app.scope is not None
    told = {k: v for k, v in answer.app.scope.items() if k != "state"}
    assert told == {k: v for k, v in app.scope.items() if k != "state"} | {"query_string": b"limit=1"}
    assert told["method"] == "GET"
    assert answer.lines[0]["method"] == "HEAD"
    assert entrance.counted("payrec_http_requests_total", method="HEAD", route=PATH, status="200") == 1


async def test_a_crash_before_the_answer_is_answered_and_logged_with_its_cause(
    entrance: Entrance, acme: Tenant
) -> None:
    cause = RuntimeError("of the test")
    answer = await entrance.ask("GET", PATH, admin(acme), failing=("before", cause))
    problem = json.loads(answer.body)
    assert (answer.status, problem["code"], problem["detail"]) == (
        500,
        "internal_error",
        "the request could not be completed",
    )
    assert answer.headers.items() >= EVERY_ANSWER.items()
    crashed, ended = answer.lines
    assert (crashed["event"], crashed["log_level"], crashed["exc_info"]) == ("request.crashed", "error", cause)
    assert (ended["event"], ended["status"]) == ("request", 500)


async def test_who_is_not_answered_before_the_process_ends_is_told_to_try_again(
    entrance: Entrance, acme: Tenant
) -> None:
    """The server cancels what it has waited for in vain; nothing has crashed."""
    answer = await entrance.ask("POST", PATH, [*admin(acme), JSON], b"{}", failing=("before", asyncio.CancelledError()))
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert json.loads(answer.body)["code"] == "service_unavailable"
    assert [(line["event"], line["status"]) for line in answer.lines] == [("request", 503)]
    with pytest.raises(asyncio.CancelledError):
        await entrance.ask("GET", PATH, admin(acme), failing=("within", asyncio.CancelledError()))


async def test_a_crash_within_the_answer_goes_on_to_the_server_and_one_behind_it_does_not(
    entrance: Entrance, acme: Tenant
) -> None:
    """The server cuts off an answer that has begun, so that nobody takes it for whole."""
    cause = RuntimeError("of the test")
    with pytest.raises(RuntimeError, match="of the test"):
        await entrance.ask("GET", PATH, admin(acme), failing=("within", cause))
    answer = await entrance.ask("GET", PATH, admin(acme), failing=("behind", cause))
    assert (answer.status, answer.body, len(answer.lines)) == (200, b"answered", 1)
    assert entrance.counted("payrec_http_requests_total", method="GET", route=PATH, status="200") == 2


async def test_who_makes_the_answer_to_a_refusal_is_told_why_and_of_which_request(entrance: Entrance) -> None:
    """A browser is shown a page instead of a problem."""
    told: list[tuple[PayrecError, Scope]] = []

    def refused(error: PayrecError, scope: Scope) -> Response:
        told.append((error, scope))
        return Response(b"a page", status_code=error.status)

    answer = await entrance.ask("GET", "/nowhere", refused=refused)
    assert (answer.status, answer.body) == (404, b"a page")
    vars(entrance.factory).update(authenticator=None)
    answer = await entrance.ask("GET", PATH, refused=refused)
    assert (answer.status, answer.body) == (500, b"a page")
    assert [(error.code, scope["path"], scope["state"]["request_id"]) for error, scope in told] == [
        ("not_found", "/nowhere", "r-1"),
        ("internal_error", PATH, "r-1"),
    ]


async def test_of_a_client_that_has_gone_only_the_log_tells(entrance: Entrance, acme: Tenant) -> None:
    answer = await entrance.ask("GET", PATH, admin(acme), failing=("before", ClientDisconnect()))
    assert (answer.status, answer.headers) == (0, {})
    assert [(line["event"], line["status"]) for line in answer.lines] == [("request", 499)]


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("POST", PATH, JSON_BODY_BYTES_MAX),
        ("HEAD", PATH, JSON_BODY_BYTES_MAX),
        ("POST", "/matches", BULK_BODY_BYTES_MAX),
        ("GET", "/matches", JSON_BODY_BYTES_MAX),
        ("PUT", "/matches", BULK_BODY_BYTES_MAX),
        ("POST", UPLOAD, 5000),
        ("PUT", UPLOAD, 5000),
        ("POST", "/nowhere", 5000),
    ],
)
async def test_a_declared_length_is_bounded_by_what_the_path_takes(
    entrance: Entrance, method: str, path: str, limit: int
) -> None:
    entrance = entrance.with_settings(upload_max_bytes=5000)
    fits = await entrance.ask(method, path, [("Content-Length", str(limit))])
    assert fits.status in {401, 404, 405}
    over = await entrance.ask(method, path, [("Content-Length", str(limit + 1))])
    assert over.refusal() == (413, "payload_too_large", f"the body may have at most {limit} bytes")
    assert over.lines[0]["route"] == "unknown"


async def test_a_setting_does_not_widen_what_an_upload_may_be(entrance: Entrance) -> None:
    entrance = entrance.with_settings(upload_max_bytes=2 * UPLOAD_BYTES_MAX)
    over = await entrance.ask("POST", UPLOAD, [("Content-Length", str(UPLOAD_BYTES_MAX + 1))])
    assert over.refusal()[2] == f"the body may have at most {UPLOAD_BYTES_MAX} bytes"


async def test_the_header_block_is_bounded_with_what_separates_its_lines(entrance: Entrance) -> None:
    taken = len("x-request-id: r-1\r\n") + len("x-pad: \r\n")
    for length, expected in ((HEADER_BYTES_MAX - taken, 404), (HEADER_BYTES_MAX - taken + 1, 431)):
        answer = await entrance.ask("GET", "/nowhere", [("X-Pad", "x" * length)])
        assert answer.status == expected
    assert answer.refusal()[1:] == ("header_too_large", f"the headers may have at most {HEADER_BYTES_MAX} bytes")


async def test_a_wrong_method_is_told_the_right_ones(entrance: Entrance) -> None:
    for path, allowed in ((PATH, "GET, HEAD, POST"), (UPLOAD, "POST"), ("/fx-rates", "GET, HEAD, PUT")):
        answer = await entrance.ask("DELETE", path)
        assert answer.refusal()[:2] == (405, "method_not_allowed")
        assert answer.headers["allow"] == allowed
    assert (await entrance.ask("HEAD", UPLOAD)).refusal()[0] == 405
