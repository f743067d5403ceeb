"""Tenants over HTTP: made in public in development alone, seen by their own, managed by the platform's people."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from payrec.domain.principal import ENVIRONMENTS
from payrec.domain.slugs import RESERVED
from payrec.embedded.postgres import EmbeddedPostgres
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.wire import add_key, add_user, ask, code, fields, in_control

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def platform(service: Service) -> Tenant:
    """Who manages tenants."""
    home = await service.tenant("platform", environments=["production"])
    return (await add_user(service, home, "platform-admin"))[1]


async def make(service: Service, **body: Any) -> Any:
    return await service.http.post(f"{service.base_url}/tenants", json=body)


async def test_a_tenant_is_made_with_all_environments_and_defaults(service: Service) -> None:
    made = await make(service, name="Müller & Söhne GmbH")
    body = made.json()
    assert (made.status_code, body["slug"], body["status"]) == (201, "muller-sohne-gmbh", "active")
    assert body["environments"] == [{"environment": e, "status": "active"} for e in ENVIRONMENTS]
    assert (body["settings"]["baseCurrency"], body["settings"]["timezone"]) == ("EUR", "UTC")
    assert "admin" not in body
    assert made.headers["location"] == f"/tenants/{body['id']}"


async def test_from_an_empty_database_to_a_working_tenant_with_http_alone(service: Service) -> None:
    admin = {"username": "first", "password": "correct horse", "email": "first@example.org"}
    made = (
        await make(
            service, name="First", environments=["test"], settings={"locale": "de", "timezone": None}, admin=admin
        )
    ).json()
    assert (made["admin"]["username"], made["settings"]["locale"]) == ("first", "de")
    assert "password" not in str(made)
    assert made["environments"] == [{"environment": "test", "status": "active"}]
    form = {"username": "first", "password": "correct horse"}
    token = await service.http.post(f"{service.base_url}/auth/token", data=form)
    assert token.headers["cache-control"] == "no-store"
    answer = token.json()
    assert set(answer) == {"accessToken", "tokenType", "expiresIn", "access_token", "token_type", "expires_in"}
    headers = {
        "X-Tenant-Id": made["id"],
        "X-Environment": "test",
        "Authorization": f"Bearer {answer['accessToken']}",
    }
    listed = await service.http.get(f"{service.base_url}/expected-transactions", headers=headers)
    assert listed.status_code == 200


@pytest.mark.parametrize(
    "slug", ["a", "A-b", "1a", "a--b", "-a", "a-", "a_b", "x" * 31, "", "pg", "pg-x", "ä", *sorted(RESERVED)]
)
async def test_a_slug_that_cannot_be_is_422(service: Service, slug: str) -> None:
    assert fields(await make(service, name="Name", slug=slug)) == {("/slug", "slug_malformed")}


@pytest.mark.parametrize("name", ["株式会社", "123", "!", "pg x", "Public"])
async def test_a_name_of_which_no_slug_can_be_made_asks_for_one(service: Service, name: str) -> None:
    assert fields(await make(service, name=name)) == {("/slug", "slug_required")}


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, {("/name", "missing")}),
        ({"name": ""}, {("/name", "string_too_short")}),
        ({"name": "X1", "environments": []}, {("/environments", "too_short")}),
        ({"name": "X1", "environments": ["prod"]}, {("/environments/0", "literal_error")}),
        ({"name": "X1", "settings": {"locales": "de"}}, {("/settings/locales", "extra_forbidden")}),
        ({"name": "X1", "settings": {"timezone": "Mars/Base"}}, {("/settings/timezone", "unknown_timezone")}),
        ({"name": "X1", "admin": {"username": "a b"}}, {("/admin/username", "string_pattern_mismatch")}),
        ({"name": "X1", "admin": {"username": "a", "password": "short"}}, {("/admin/password", "string_too_short")}),
        ({"name": "X1", "status": "active"}, {("/status", "extra_forbidden")}),
    ],
)
async def test_what_cannot_be_is_named(service: Service, body: dict[str, Any], wrong: set[tuple[str, str]]) -> None:
    assert fields(await make(service, **body)) == wrong


async def test_names_that_are_taken_are_conflicts_and_leave_nothing(service: Service) -> None:
    admin = {"username": "taken-name", "password": "correct horse"}
    assert (await make(service, name="Taken", admin=admin)).status_code == 201
    assert code(await make(service, name="Taken")) == "slug_taken"
    assert code(await make(service, name="Not Taken", admin=admin)) == "username_taken"
    assert (await make(service, name="Not Taken")).status_code == 201


async def test_of_equal_slugs_at_once_one_is_made(service: Service) -> None:
    answers = await asyncio.gather(*(make(service, name="At Once", environments=["test"]) for _ in range(8)))
    assert Counter(a.status_code for a in answers) == {201: 1, 409: 7}


async def test_a_tenant_sees_itself_alone(acme: Tenant, globex: Tenant) -> None:
    assert [t["id"] for t in (await acme.get("/tenants")).json()["data"]] == [acme.id]
    assert (await acme.get(f"/tenants/{acme.id}")).json()["slug"] == "acme"
    for path in (f"/tenants/{globex.id}", f"/tenants/{globex.id}/settings", f"/tenants/{uuid4()}", "/tenants/x"):
        assert code(await acme.get(path)) == "not_found"
    assert code(await acme.request("PATCH", f"/tenants/{acme.id}", json={"name": "x"})) == "insufficient_permission"


async def test_a_key_never_manages_tenants(acme: Tenant) -> None:
    key = await add_key(acme)
    headers = {"X-Tenant-Id": acme.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    answer = await ask(acme, "PATCH", f"/tenants/{acme.id}", headers, json={"name": "x"})
    assert code(answer) == "insufficient_permission"
    assert [t["id"] for t in (await ask(acme, "GET", "/tenants", headers)).json()["data"]] == [acme.id]


async def test_the_platforms_people_see_all_and_nothing_within(platform: Tenant, acme: Tenant, globex: Tenant) -> None:
    seen = {t["id"] for t in (await platform.get("/tenants", params={"limit": 200})).json()["data"]}
    assert {acme.id, globex.id, platform.id} <= seen
    assert (await platform.get(f"/tenants/{acme.id}")).status_code == 200
    assert (await platform.get(f"/tenants/{acme.id}/settings")).status_code == 200
    for path in ("/expected-transactions", "/jobs", "/auth/api-keys"):
        assert code(await platform.get(path)) == "insufficient_permission"
    patched = await platform.request("PATCH", f"/tenants/{acme.id}/settings", json={"locale": "de"})
    assert code(patched) == "insufficient_permission"


async def test_a_tenant_is_renamed_suspended_and_resumed(service: Service, platform: Tenant) -> None:
    tenant = await service.tenant("ups-and-downs", environments=["test"])
    path = f"/tenants/{tenant.id}"
    before = await platform.get(path)
    named = await platform.request("PATCH", path, json={"name": "Up"}, headers={"If-Match": before.headers["etag"]})
    assert (named.status_code, named.json()["name"], named.json()["status"]) == (200, "Up", "active")
    stale = await platform.request("PATCH", path, json={"name": "Down"}, headers={"If-Match": before.headers["etag"]})
    assert (stale.status_code, code(stale)) == (412, "version_mismatch")
    assert (await platform.request("PATCH", path, json={"status": "suspended"})).json()["status"] == "suspended"
    assert code(await tenant.get("/jobs", "test")) == "tenant_suspended"
    assert (await platform.request("PATCH", path, json={"status": "active"})).json()["name"] == "Up"
    assert (await tenant.get("/jobs", "test")).status_code == 200
    for wrong in ({"slug": "new"}, {"status": "deleting"}, {"name": ""}, {"name": None}, {"status": None}):
        assert code(await platform.request("PATCH", path, json=wrong)) == "validation_failed"
    assert code(await platform.request("PATCH", f"/tenants/{uuid4()}", json={"name": "x"})) == "not_found"


async def test_a_tenant_that_is_being_deleted_is_not_resumed(service: Service, platform: Tenant) -> None:
    tenant, other = [await service.tenant(slug, environments=["test"]) for slug in ("half-gone", "still-there")]
    await in_control(service, "UPDATE tenant SET status = 'deleting' WHERE id = %s", tenant.id)
    for status in ("active", "suspended"):
        refused = await platform.request("PATCH", f"/tenants/{tenant.id}", json={"status": status})
        assert (refused.status_code, code(refused)) == (409, "invalid_state")
    assert (await platform.get(f"/tenants/{tenant.id}")).json()["status"] == "deleting"
    assert code(await tenant.get("/jobs", "test")) == "tenant_suspended"
    assert (await other.get("/jobs", "test")).status_code == 200


@pytest.fixture
async def guarded(postgres: EmbeddedPostgres) -> AsyncIterator[tuple[Service, Tenant]]:
    """A service with a tenant, which then stops being a development service."""
    with cloned(postgres) as database:
        config = make_config(database)
        async with running(config, worker=False) as started:
            tenant = await started.tenant("home", environments=["production"])
            object.__setattr__(config, "deployment_environment", "staging")
            yield started, tenant


async def test_outside_development_only_the_platforms_people_make_tenants(guarded: tuple[Service, Tenant]) -> None:
    """The server's setting decides; a header that says development does not."""
    service, tenant = guarded
    body = {"name": "New", "environments": ["test"]}
    for headers in ({}, {"X-Environment": "development"}):
        answer = await service.http.post(f"{service.base_url}/tenants", json=body, headers=headers)
        assert code(answer) == "missing_credentials"
    assert code(await tenant.post("/tenants", body)) == "insufficient_permission"
    key = await add_key(tenant)
    headers = {"X-Tenant-Id": tenant.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    assert code(await ask(tenant, "POST", "/tenants", headers, json=body)) == "insufficient_permission"
    _, platform = await add_user(service, tenant, "platform-admin")
    assert (await platform.post("/tenants", body)).status_code == 201


async def test_a_tenant_that_is_not_provisioned_yet_is_not_open(service: Service) -> None:
    tenant = await service.tenant("half-made", environments=["test"])
    await in_control(service, "UPDATE tenant_environment SET revision = NULL WHERE tenant_id = %s", tenant.id)
    answer = await tenant.get("/jobs", "test")
    assert (answer.status_code, code(answer)) == (503, "tenant_provisioning")
