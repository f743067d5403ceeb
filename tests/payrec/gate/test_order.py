"""Checks run in the order of the interface: with several defects in one request, the first of the table is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

from support.service import Service, Tenant
from support.wire import add_key, add_user, code, in_control, problem, signed

pytestmark = pytest.mark.anyio

GOOD = b'{"direction": "credit", "amountMinor": 100, "currency": "EUR"}'
MARKER = "MARKER7f3a"


@dataclass(frozen=True, kw_only=True)
class World:
    """What the defects of a request refer to."""

    service: Service
    tenant: Tenant
    other: Tenant
    suspended: Tenant
    admin_id: str
    disabled_id: str
    revoked_key: str
    expired_key: str
    read_key: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request before it is sent."""

    method: str = "POST"
    path: str = "/expected-transactions"
    headers: dict[str, str] = field(default_factory=dict)
    claims: dict[str, Any] | None = field(default_factory=dict)
    body: bytes = GOOD

    def header(self, **headers: str) -> Asked:
        given = {k.replace("_", "-"): v for k, v in headers.items()}
        return replace(self, headers=self.headers | given)

    def without(self, *names: str) -> Asked:
        return replace(self, headers={k: v for k, v in self.headers.items() if k not in names})

    def claim(self, **claims: Any) -> Asked:
        return replace(self.without("authorization", "x-api-key"), claims={**(self.claims or {}), **claims})

    def key(self, key: str) -> Asked:
        return replace(self.without("authorization"), claims=None).header(x_api_key=key)


@pytest.fixture(scope="module")
async def acme(service: Service) -> Tenant:
    """A tenant with all four environments."""
    return await service.tenant("acme")


@pytest.fixture(scope="module")
async def world(service: Service, acme: Tenant, globex: Tenant) -> World:
    suspended = await service.tenant("suspended")
    await in_control(service, "UPDATE tenant SET status = 'suspended' WHERE id = %s", suspended.id)
    name, disabled = await add_user(service, suspended, "admin")
    await in_control(service, "UPDATE app_user SET status = 'disabled' WHERE username = %s", name)
    revoked, expired = await add_key(acme), await add_key(acme)
    await in_control(service, "UPDATE api_key SET revoked_at = now() WHERE id = %s", revoked["id"])
    # An expired key that was revoked as well is told to be expired.
    await in_control(
        service, "UPDATE api_key SET expires_at = '2020-01-01', revoked_at = now() WHERE id = %s", expired["id"]
    )
    for environment, status in (("development", "suspended"), ("staging", "provisioning")):
        statement = "UPDATE tenant_environment SET status = %s WHERE tenant_id = %s AND environment = %s"
        await in_control(service, statement, status, acme.id, environment)
    used = await acme.post("/expected-transactions", headers={"Idempotency-Key": "used", **JSON}, content=GOOD)
    assert used.status_code == 201
    me = (await acme.post("/auth/token", {"username": "admin@acme", "password": "pässwörd-acme"})).json()
    return World(
        service=service,
        tenant=acme,
        other=globex,
        suspended=suspended,
        admin_id=_subject(me["access_token"]),
        disabled_id=_subject(disabled.token),
        revoked_key=revoked["apiKey"],
        expired_key=expired["apiKey"],
        read_key=(await add_key(acme, write=False))["apiKey"],
    )


JSON = {"Content-Type": "application/json"}

Defect = Callable[[World, Asked], Asked]
DEFECTS: list[tuple[str, Defect]] = [
    ("payload_too_large", lambda _, r: replace(r, path="/jobs", body=b" " * (1024 * 1024) + r.body)),
    ("header_too_large", lambda _, r: r.header(x_pad="x" * 17_000)),
    ("not_found", lambda _, r: replace(r, path=f"/{MARKER}")),
    ("method_not_allowed", lambda _, r: replace(r, method="PUT", path="/expected-transactions")),
    ("missing_credentials", lambda _, r: replace(r.without("authorization", "x-api-key"), claims=None)),
    ("invalid_credentials", lambda _, r: replace(r.without("x-api-key").header(authorization=f"Bearer {MARKER}.b.c"))),
    ("expired_credentials", lambda _, r: r.claim(exp=1)),
    ("expired_credentials", lambda w, r: r.key(w.expired_key)),
    ("revoked_credentials", lambda w, r: r.key(w.revoked_key)),
    ("unknown_user", lambda _, r: r.claim(user_id=str(uuid4()))),
    ("unknown_user", lambda w, r: r.claim(tenant_id=w.other.id)),
    ("user_disabled", lambda w, r: _as(w.suspended, w.disabled_id, r)),
    ("tenant_suspended", lambda w, r: _as(w.suspended, _subject(w.suspended.token), r)),
    ("missing_tenant_header", lambda _, r: r.without("x-tenant-id")),
    ("invalid_tenant_header", lambda _, r: r.header(x_tenant_id=MARKER)),
    ("missing_environment_header", lambda _, r: r.without("x-environment")),
    ("invalid_environment_header", lambda _, r: r.header(x_environment=MARKER)),
    ("tenant_mismatch", lambda w, r: r.header(x_tenant_id=w.other.id)),
    ("environment_mismatch", lambda _, r: r.header(x_environment="test").claim(environment=["production"])),
    ("environment_suspended", lambda _, r: r.header(x_environment="development").claim()),
    ("tenant_provisioning", lambda _, r: r.header(x_environment="staging").claim()),
    ("jwt_required", lambda w, r: replace(r, path="/auth/api-keys").key(w.read_key)),
    ("insufficient_permission", lambda w, r: r.key(w.read_key)),
    ("insufficient_permission", lambda _, r: r.claim(roles=["viewer"])),
    (
        "malformed_body",
        lambda _, r: replace(r, body=b'{"reference": "' + MARKER.encode()).header(content_type="application/json"),
    ),
    ("unsupported_media_type", lambda _, r: r.header(content_type="text/plain")),
    ("invalid_idempotency_key", lambda _, r: r.header(idempotency_key=f"two words {MARKER}")),
    ("idempotency_key_reused", lambda _, r: replace(r, body=b" " + r.body).header(idempotency_key="used")),
    ("validation_failed", lambda _, r: replace(r, body=b'{"direction": "' + MARKER.encode() + b'"}')),
]
"""The rows of the table in its order; each one as something that is wrong with a request."""


@pytest.mark.parametrize("place", range(len(DEFECTS)), ids=[f"{n:02}-{name}" for n, (name, _) in enumerate(DEFECTS)])
async def test_the_first_defect_of_the_table_wins_over_all_that_follow(world: World, place: int) -> None:
    asked = Asked(
        headers={"x-tenant-id": world.tenant.id, "x-environment": "production", "content-type": "application/json"}
    )
    # From the last to the first, so that an earlier defect has its way where two need the same part of the request.
    for _, defect in reversed(DEFECTS[place:]):
        asked = defect(world, asked)
    answer = await _send(world, asked)
    found = problem(answer)
    assert found["code"] == DEFECTS[place][0]
    assert MARKER not in answer.text
    assert MARKER not in str(answer.headers)


@pytest.mark.parametrize("place", range(len(DEFECTS)), ids=[f"{n:02}-{name}" for n, (name, _) in enumerate(DEFECTS)])
async def test_each_defect_alone_is_told_as_what_it_is(world: World, place: int) -> None:
    asked = Asked(
        headers={"x-tenant-id": world.tenant.id, "x-environment": "production", "content-type": "application/json"}
    )
    name, defect = DEFECTS[place]
    assert code(await _send(world, defect(world, asked))) == name


async def test_the_headers_that_a_refusal_needs_are_there(world: World) -> None:
    base = Asked(headers={"x-tenant-id": world.tenant.id, "x-environment": "staging"})
    unavailable = await _send(world, base)
    assert (code(unavailable), int(unavailable.headers["retry-after"]) > 0) == ("tenant_provisioning", True)
    for claims in (None, {"exp": 1}, {"user_id": str(uuid4())}):
        refused = await _send(world, replace(base, claims=claims))
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == 'Bearer realm="payrec"'
    wrong = await _send(world, replace(base, method="PUT"))
    assert wrong.headers["allow"] == "GET, HEAD, POST"


async def test_a_cursor_is_refused_before_the_parameters_of_the_list(acme: Tenant) -> None:
    for parameters in ({"limit": 0}, {"limit": 5, "status": "nope"}, {"unknown": 1}, {"amountMin": "1"}, {}):
        answer = await acme.get("/expected-transactions", params={"cursor": "bm90LW91cnM", **parameters})
        assert (answer.status_code, code(answer)) == (400, "invalid_cursor"), parameters
    long = await acme.get("/expected-transactions", params={"cursor": "A" * 3000})
    assert code(long) == "invalid_cursor"


async def test_a_cursor_of_ours_leaves_the_parameters_to_be_told(acme: Tenant) -> None:
    for _ in range(2):
        await acme.post("/expected-transactions", {"direction": "debit", "amountMinor": 1, "currency": "EUR"})
    cursor = (await acme.get("/expected-transactions", params={"limit": 1})).json()["nextCursor"]
    answer = await acme.get("/expected-transactions", params={"cursor": cursor, "limit": 0})
    assert code(answer) == "validation_failed"


async def test_a_payload_is_judged_before_the_id_and_the_id_before_the_version(acme: Tenant, globex: Tenant) -> None:
    async def patch(tenant_id: str, body: dict[str, Any]) -> str:
        options = {"json": body, "headers": {"If-Match": '"999"'}}
        return code(await acme.request("PATCH", f"/tenants/{tenant_id}/settings", **options))

    assert await patch(globex.id, {"nope": 1}) == "validation_failed"
    assert await patch(globex.id, {"locale": "de"}) == "not_found"
    assert await patch("not-an-id", {"locale": "de"}) == "not_found"
    assert await patch(acme.id, {"nope": 1}) == "validation_failed"
    assert await patch(acme.id, {"locale": "de"}) == "version_mismatch"


async def _send(world: World, asked: Asked) -> Any:
    headers = dict(asked.headers)
    if asked.claims is not None and "authorization" not in headers:
        claims = {"sub": world.admin_id, "user_id": world.admin_id, "tenant_id": world.tenant.id, **asked.claims}
        token = await signed(world.service, claims.pop("tenant_id"), claims.pop("user_id"), **claims)
        headers["authorization"] = f"Bearer {token}"
    return await world.service.http.request(
        asked.method, world.service.base_url + asked.path, headers=headers, content=asked.body
    )


def _as(tenant: Tenant, user_id: str, asked: Asked) -> Asked:
    return asked.claim(tenant_id=tenant.id, user_id=user_id, sub=user_id)


def _subject(token: str) -> str:
    import base64  # noqa: PLC0415 - only here
    import json  # noqa: PLC0415 - same

    payload = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(payload + "=="))["user_id"])
