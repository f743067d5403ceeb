"""Who comes through the gate, and with what: headers, documents, files, and requests that may be repeated."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from payrec.constants import JSON_BODY_BYTES_MAX
from payrec.domain.principal import ANONYMOUS, Permission, Principal
from payrec.domain.scope import TenantScope
from payrec.errors import TenantSuspendedError
from payrec.services.authentication import Admission, Credentials, Identified
from support.entrance import Entrance
from support.service import PEPPER, Tenant
from support.wire import add_key

pytestmark = pytest.mark.anyio

Headers = Sequence[tuple[str, str]]

PATH = "/expected-transactions"
UPLOAD = "/incoming-transactions/upload"
JSON = ("Content-Type", "application/json")
SOMEBODY = Identified(
    principal=Principal(
        kind="api_key", id=uuid4(), tenant_id=uuid4(), public_id="pub", environments=frozenset({"test"})
    ),
    environments=frozenset({"test"}),
    row={},
)
SOMEWHERE = TenantScope(
    tenant_id=uuid4(),
    environment_id=uuid4(),
    environment="test",
    slug="somewhere",
    schema_name="s",
    role_name="r",
)


def admin(tenant: Tenant, environment: str = "production") -> Headers:
    return tuple(tenant.headers(environment).items())


class Doorkeeper:
    """Admits whom a test lets in, and limits nobody; remembers what it was asked."""

    def __init__(self, identified: Identified, tenant: TenantScope, *, refusing: Exception | None = None) -> None:
        self._identified = identified
        self._tenant = tenant
        self._refusing = refusing
        self.asked: list[Any] = []

    async def identify(self, credentials: Credentials, *, request_id: str) -> Identified:
        self.asked.append((credentials, request_id))
        return self._identified

    def admit(self, identified: Identified, credentials: Credentials, admission: Admission) -> TenantScope:
        self.asked.append((identified, credentials, admission))
        if self._refusing is not None:
            raise self._refusing
        return self._tenant

    def stand_at(self, entrance: Entrance) -> None:
        """Take the place of what the service has for it."""
        vars(entrance.factory).update(authenticator=self, request_limits=Limits(self.asked))


class Limits:
    """Limits of requests that nobody reaches, and what a request has taken of them."""

    def __init__(self, asked: list[Any]) -> None:
        self._asked = asked

    def begin(self, principal: Principal) -> Limits:
        self._asked.append(principal)
        return self

    def admit(self, usage: Limits, tenant: TenantScope, *, upload: bool) -> None:
        assert usage is self
        self._asked.append((tenant, upload))

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"ratelimit", b"x")]


@pytest.mark.parametrize(
    ("method", "path", "permissions", "jwt_only", "upload"),
    [
        ("GET", PATH, {Permission.READ}, False, False),
        ("GET", "/tenants", {Permission.READ, Permission.TENANTS_MANAGE}, False, False),
        ("POST", "/matches/import", {Permission.MATCHES_ACCEPT}, False, True),
        ("DELETE", "/auth/api-keys/x", {Permission.API_KEYS_MANAGE}, True, False),
    ],
)
async def test_who_asks_is_judged_by_the_headers_and_what_the_route_asks_for(
    entrance: Entrance,
    method: str,
    path: str,
    permissions: set[Permission],
    jwt_only: bool,  # noqa: FBT001 - a parameter of pytest
    upload: bool,  # noqa: FBT001 - same
) -> None:
    keeper = Doorkeeper(SOMEBODY, SOMEWHERE)
    keeper.stand_at(entrance)
    headers = [("X-Api-Key", "k"), ("Authorization", "a"), ("X-Tenant-Id", "t"), ("X-Environment", "e"), JSON]
    answer = await entrance.ask(method, path, headers, b"{}")
    sent = Credentials(api_key="k", authorization="a", tenant_id="t", environment="e")
    asked = Admission(permissions=frozenset(permissions), jwt_only=jwt_only)
    principal = SOMEBODY.principal
    assert keeper.asked == [(sent, "r-1"), principal, (SOMEBODY, sent, asked), (SOMEWHERE, upload)]
    assert (answer.caller.principal, answer.caller.scope) == (principal, SOMEWHERE)
    assert answer.headers["ratelimit"] == "x"
    assert answer.lines[0].items() >= {"tenant": "somewhere", "environment": "test", "principal": "api_key:pub"}.items()
    assert entrance.counted("payrec_authentications_total", principal="api_key", outcome="ok") == 1


@pytest.mark.parametrize(
    ("refusing", "status", "outcome"),
    [(TenantSuspendedError(), 403, "tenant_suspended"), (RuntimeError("of the test"), 500, "failed")],
)
async def test_who_is_not_admitted_is_counted_and_told_what_is_left(
    entrance: Entrance, refusing: Exception, status: int, outcome: str
) -> None:
    Doorkeeper(SOMEBODY, SOMEWHERE, refusing=refusing).stand_at(entrance)
    answer = await entrance.ask("GET", PATH)
    assert (answer.refusal()[0], answer.headers["ratelimit"]) == (status, "x")
    assert entrance.counted("payrec_authentications_total", principal="unknown", outcome=outcome) == 1
    assert "tenant" not in answer.lines[-1]


class Sessions:
    """One session of the console, which is prolonged whenever it is used."""

    def __init__(self, tenant: Tenant) -> None:
        self._session = SimpleNamespace(access_token=tenant.token, tenant_id=tenant.id)

    def open(self, pieces: list[str], *, ended: str) -> Any:
        is_open = (pieces, ended) == (["sealed"], "")
        return SimpleNamespace(environments=("test",), user_id="ada") if is_open else None

    async def prolonged(self, _session: Any) -> Any:
        return self._session

    def seal(self, session: Any) -> list[str]:
        assert session is self._session
        return ["renewed"]


async def test_a_page_of_the_console_asks_as_its_session(entrance: Entrance, acme: Tenant, globex: Tenant) -> None:
    """And as nobody else, whatever it sends besides."""
    vars(entrance.factory).update(console_sessions=Sessions(acme))
    path = f"/console/test/rest{PATH}"
    sent = [*admin(globex), ("Cookie", "payrec_session=sealed"), ("X-Payrec-Console", "1")]
    answer = await entrance.ask("GET", path, [*sent, ("Sec-Fetch-Site", "same-origin")])
    assert (answer.status, answer.lines[0]["route"]) == (200, PATH)
    assert (str(answer.caller.tenant.tenant_id), answer.caller.tenant.environment) == (acme.id, "test")
    assert "payrec_session" in answer.headers["set-cookie"]
    for headers, refusal in (
        ([*sent, ("Sec-Fetch-Site", "cross-site")], "cross_site_request"),
        ([*admin(globex), ("X-Payrec-Console", "1")], "missing_credentials"),
        # A page that was made for somebody else, who had the session before.
        ([*sent, ("Sec-Fetch-Site", "same-origin"), ("X-Payrec-User", "bob")], "missing_credentials"),
    ):
        assert (await entrance.ask("GET", path, headers)).refusal()[1] == refusal


async def test_nobody_is_asked_for_credentials_where_none_are_needed(entrance: Entrance) -> None:
    production = entrance.with_settings(deployment_environment="production")
    for there, method, path in ((entrance, "POST", "/tenants"), (production, "GET", "/api/health")):
        answer = await there.ask(method, path, [("Authorization", "Bearer a.b.c")])
        assert (answer.status, answer.caller.principal, answer.caller.scope) == (200, ANONYMOUS, None)
    assert (await production.ask("POST", "/tenants")).refusal()[:2] == (401, "missing_credentials")
    assert [sample for metric in entrance.metrics.authentications.collect() for sample in metric.samples] == []


@pytest.mark.parametrize(
    ("path", "media_type", "is_read"),
    [
        (PATH, "application/json", True),
        (PATH, " Application/JSON ; charset=utf-8", True),
        ("/auth/token", "application/json", True),
        ("/auth/token", "application/x-www-form-urlencoded", False),
        ("/idp/token", "application/x-www-form-urlencoded", False),
        (UPLOAD, "application/json", False),
    ],
)
async def test_a_document_is_read_by_the_gate_and_nothing_else(
    entrance: Entrance,
    acme: Tenant,
    path: str,
    media_type: str,
    is_read: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    answer = await entrance.ask("POST", path, [*admin(acme), ("Content-Type", media_type)], b'{"a": 1}')
    assert (answer.status, answer.app.body) == (200, b'{"a": 1}')
    assert answer.app.state.get("json") == ({"a": 1} if is_read else None)
    if is_read:
        assert (await entrance.ask("POST", path, [*admin(acme), JSON], b"{")).refusal()[1] == "malformed_body"


async def test_a_body_without_a_type_is_refused_and_no_body_needs_none(entrance: Entrance, acme: Tenant) -> None:
    told = {
        ("POST", PATH): "application/json",
        ("PATCH", f"{PATH}/x"): "application/json, application/merge-patch+json",
        ("POST", UPLOAD): "application/json, application/x-ndjson, application/octet-stream, multipart/form-data",
    }
    for (method, path), types in told.items():
        for headers in ([], [("Content-Type", "text/plain")], [JSON, JSON]):
            answer = await entrance.ask(method, path, [*admin(acme), *headers], b"{}")
            assert answer.refusal() == (415, "unsupported_media_type", f"Content-Type must be one of {types}")
    without = await entrance.ask("POST", PATH, admin(acme))
    assert (without.status, without.app.body, "json" in without.app.state) == (200, b"", False)
    wrong = await entrance.ask("POST", PATH, [*admin(acme), ("Content-Type", "text/plain")])
    assert wrong.refusal()[0] == 415
    assert (await entrance.ask("POST", UPLOAD, admin(acme))).refusal()[0] == 415
    typed = await entrance.ask("GET", PATH, [*admin(acme), ("Content-Type", "text/plain")], b"x")
    assert (typed.status, typed.app.body) == (200, b"x")


async def test_a_body_is_cut_off_at_what_its_route_takes(entrance: Entrance, acme: Tenant) -> None:
    entrance = entrance.with_settings(upload_max_bytes=5000)
    for path, media_type, limit in (
        (PATH, "application/json", JSON_BODY_BYTES_MAX),
        (UPLOAD, "application/octet-stream", 5000),
    ):
        headers = [*admin(acme), ("Content-Type", media_type)]
        full = b"{}".ljust(limit)
        assert (await entrance.ask("POST", path, headers, full)).app.body == full
        over = await entrance.ask("POST", path, headers, full + b" ")
        assert json.loads(over.body)["detail"] == f"the body may have at most {limit} bytes"


async def test_a_request_that_may_be_repeated_is_known_by_who_where_and_what(
    entrance: Entrance, acme: Tenant, globex: Tenant
) -> None:
    """Both are stored for a day, and a service that was renewed meanwhile has to find them again."""
    body = b'{"a": 1}'
    for tenant, environment, query in (
        (acme, "production", b""),
        (acme, "test", b"x=1"),
        (globex, "production", b""),
    ):
        headers = [*admin(tenant, environment), JSON, ("Idempotency-Key", "~" * 255)]
        caller = (await entrance.ask("POST", PATH, headers, body, query=query)).caller
        assert caller.idempotency is not None
        named = (caller.principal.actor, str(caller.tenant.environment_id), "POST", PATH, "~" * 255)
        assert caller.idempotency.key == hashlib.sha256("\x00".join(named).encode()).digest()
        fingerprint = hmac.digest(PEPPER.encode(), query + b"\x00" + body, "sha256")
        assert caller.idempotency.fingerprints == (fingerprint,)
    assert (await entrance.ask("GET", PATH, [*admin(acme), ("Idempotency-Key", "x")])).caller.idempotency is None


async def test_a_file_is_not_read_for_the_sake_of_its_repetition(entrance: Entrance, acme: Tenant) -> None:
    """Whoever takes it adds what it has; the options in the address count at once."""
    headers = [*admin(acme), ("Content-Type", "application/octet-stream"), ("Idempotency-Key", "k")]
    for query in (None, b"format=csv"):
        answer = await entrance.ask("POST", UPLOAD, headers, b"a file", query=query)
        assert answer.app.body == b"a file"
        assert answer.caller.idempotency is not None
        fingerprint = hmac.digest(PEPPER.encode(), (query or b"") + b"\x00", "sha256")
        assert answer.caller.idempotency.fingerprints == (fingerprint,)


async def test_nobody_in_particular_is_known_by_the_address(entrance: Entrance) -> None:
    for client, who in ((("203.0.113.7", 1), "203.0.113.7"), (("2001:db8::1", 2), "2001:db8::1"), (None, "")):
        answer = await entrance.ask("POST", "/tenants", [JSON, ("Idempotency-Key", "k")], b"{}", client=client)
        assert answer.caller.idempotency is not None
        named = f"anonymous:{who}\x00\x00POST\x00/tenants\x00k"
        assert answer.caller.idempotency.key == hashlib.sha256(named.encode()).digest()


async def test_what_is_no_key_of_a_repetition_is_told_what_one_is(entrance: Entrance, acme: Tenant) -> None:
    for wrong in ("", "a b", "~" * 256, "ä", "x\x7f"):
        answer = await entrance.ask("POST", PATH, [*admin(acme), JSON, ("Idempotency-Key", wrong)], b"{}")
        assert answer.refusal() == (
            400,
            "invalid_idempotency_key",
            "an Idempotency-Key has 1 to 255 visible ASCII characters",
        )


async def test_a_header_that_decides_anything_counts_once(entrance: Entrance, acme: Tenant) -> None:
    """Of two, even of the same, neither counts; of others the last one does."""
    key = await add_key(acme)
    by_key = [(k, v) for k, v in admin(acme) if k != "Authorization"] + [("X-Api-Key", key["apiKey"]), JSON]
    assert (await entrance.ask("POST", PATH, by_key, b"{}")).status == 200
    for name, code in {
        "X-Api-Key": "invalid_credentials",
        "X-Tenant-Id": "invalid_tenant_header",
        "X-Environment": "invalid_environment_header",
        "Content-Type": "unsupported_media_type",
    }.items():
        twice = [*by_key, (name, dict(by_key)[name])]
        assert (await entrance.ask("POST", PATH, twice, b"{}")).refusal()[1] == code
    by_token = [*admin(acme), JSON]
    again = [*by_token, ("Authorization", acme.headers()["Authorization"])]
    assert (await entrance.ask("POST", PATH, again, b"{}")).refusal()[1] == "invalid_credentials"
    keys = [("Idempotency-Key", "k")] * 2
    for both in ([*by_token, *keys], [*keys, *by_token]):
        assert (await entrance.ask("POST", PATH, both, b"{}")).refusal()[1] == "invalid_idempotency_key"
    named = await entrance.ask("POST", PATH, [*by_token, ("X-Request-Id", "r-2")], b"{}")
    assert named.headers["x-request-id"] == "r-2"


@pytest.mark.parametrize("given", [None, "", "x" * 65, "a b", "é"])
async def test_a_request_whose_name_is_none_gets_one(entrance: Entrance, given: str | None) -> None:
    answer = await entrance.ask("GET", "/nowhere", request_id=given)
    answer.refusal()
    assert UUID(answer.headers["x-request-id"]).version == 7
    assert answer.lines[0]["request_id"] == answer.headers["x-request-id"]
