"""A tenant that belongs to a resource: what that names is changed there, the rest here; its keys are like any other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from payrec.commands.administration import ADMINISTRATOR
from payrec.domain.tenant_resources import ResourceOwner, WantedTenant
from payrec.errors import ConflictError
from payrec.services.tenant_resources import TenantResourceService
from support.service import Service, Tenant
from support.wire import add_user, ask, code, fields, in_control

pytestmark = pytest.mark.anyio

WANTED = WantedTenant(name="Named", settings={"locale": "de", "matching": {"autoRun": True}})


@pytest.fixture(scope="module")
async def platform(service: Service) -> Tenant:
    """Who manages tenants."""
    home = await service.tenant("platform", environments=["production"])
    return (await add_user(service, home, "platform-admin"))[1]


@pytest.fixture(scope="module")
async def registry(service: Service) -> TenantResourceService:
    return service.factory.create_tenant_resource_service()


@pytest.fixture(scope="module")
async def kept(service: Service, registry: TenantResourceService) -> Tenant:
    """Return a tenant with an administrator that a resource has taken over."""
    tenant = await service.tenant("kept", environments=["production"])
    await in_control(
        service, "UPDATE tenant SET resource_namespace = 'n', resource_name = 'kept' WHERE id = %s", UUID(tenant.id)
    )
    await registry.claim(ResourceOwner(uid="u-kept", namespace="n", name="kept"), "kept", WANTED)
    return tenant


@pytest.mark.parametrize(
    ("patch", "pointers"),
    [
        ({"locale": "fr"}, {"/locale"}),
        ({"locale": "de"}, {"/locale"}),
        ({"locale": None, "timezone": "Europe/Berlin"}, {"/locale"}),
        ({"matching": {"autoRun": False, "autoAccept": True}}, {"/matching/autoRun"}),
        ({"matching": None}, {"/matching"}),
    ],
)
async def test_settings_that_the_resource_names_are_not_changed_here(
    kept: Tenant, patch: dict[str, Any], pointers: set[str]
) -> None:
    path = f"/tenants/{kept.id}/settings"
    before = (await kept.get(path)).json()
    refused = await kept.request("PATCH", path, json=patch)
    assert (refused.status_code, code(refused)) == (409, "invalid_state")
    assert fields(refused) == {(pointer, "owned_by_resource") for pointer in pointers}
    assert (await kept.get(path)).json() == before


async def test_the_other_settings_are(kept: Tenant, registry: TenantResourceService) -> None:
    path = f"/tenants/{kept.id}/settings"
    changed = await kept.request("PATCH", path, json={"timezone": "Europe/Berlin", "matching": {"autoAccept": True}})
    assert (changed.status_code, changed.json()["matching"]["autoRun"]) == (200, True)
    await registry.apply(UUID(kept.id), WANTED)
    assert (await kept.get(path)).json()["timezone"] == "Europe/Berlin"


async def test_a_stale_version_comes_before_the_state(kept: Tenant) -> None:
    path = f"/tenants/{kept.id}/settings"
    assert code(await kept.request("PATCH", path, json={"locale": "fr"}, headers={"If-Match": '"0"'})) == (
        "version_mismatch"
    )


async def test_name_and_status_are_the_resource_s(platform: Tenant, kept: Tenant) -> None:
    path = f"/tenants/{kept.id}"
    refused = await platform.request("PATCH", path, json={"name": "x", "status": "suspended"})
    assert (refused.status_code, code(refused)) == (409, "invalid_state")
    assert {pointer for pointer, _ in fields(refused)} == {"/name", "/status"}
    assert (await platform.get(path)).json()["name"] == "Named"


async def test_another_tenant_is_nobody_s(platform: Tenant, acme: Tenant) -> None:
    assert (await acme.request("PATCH", f"/tenants/{acme.id}/settings", json={"locale": "fr"})).status_code == 200
    assert (await platform.request("PATCH", f"/tenants/{acme.id}", json={"name": "Acme"})).status_code == 200


async def test_what_is_named_no_more_is_anybody_s_with_its_value(
    kept: Tenant, platform: Tenant, registry: TenantResourceService
) -> None:
    path = f"/tenants/{kept.id}/settings"
    try:
        await registry.apply(UUID(kept.id), WantedTenant(settings={"matching": {"autoRun": True}}))
        assert (await kept.get(path)).json()["locale"] == "de"
        assert (await kept.request("PATCH", path, json={"locale": "fr"})).status_code == 200
        assert (await platform.request("PATCH", f"/tenants/{kept.id}", json={"name": "Free"})).status_code == 200
        assert code(await kept.request("PATCH", path, json={"matching": {"autoRun": False}})) == "invalid_state"
    finally:
        await registry.apply(UUID(kept.id), WANTED)


async def test_the_command_line_does_not_delete_it(service: Service, kept: Tenant) -> None:
    with pytest.raises(ConflictError, match="n/kept"):
        await service.factory.create_tenant_service().delete(ADMINISTRATOR, "kept")
    assert (await kept.get("/jobs")).status_code == 200


async def test_a_key_in_rotation_is_active(kept: Tenant, acme: Tenant, registry: TenantResourceService) -> None:
    tenant_id = UUID(kept.id)
    keys = [
        await registry.mint(tenant_id, name="ledger", environment="production", read=True, write=False)
        for _ in range(3)
    ]
    until = datetime.now(UTC) + timedelta(hours=1)
    for key in keys[:2]:
        await registry.promote(tenant_id, key.key_id, retire_until=until)
    listed = (await kept.get("/auth/api-keys", params={"status": "active"})).json()["data"]
    assert [(k["name"], k["status"]) for k in listed] == [("ledger", "active")] * 3
    for key in keys:
        headers = {"X-Tenant-Id": kept.id, "X-Environment": "production", "X-Api-Key": key.text}
        assert (await ask(kept, "GET", "/jobs", headers)).status_code == 200
        assert code(await ask(kept, "GET", "/jobs", headers | {"X-Tenant-Id": acme.id})) == "tenant_mismatch"
    deleted = await kept.request("DELETE", f"/auth/api-keys/{keys[1].key_id}")
    assert deleted.status_code == 204
    assert await registry.identify(tenant_id, keys[1].text) is None
    log = (await kept.get("/audit-log", params={"resourceId": str(keys[1].key_id), "sort": "createdAt"})).json()["data"]
    assert [(r["actor"], r["type"]) for r in log[:2]] == [
        ("operator", "api_key.created"),
        ("operator", "api_key.promoted"),
    ]
    assert log[0]["after"]["resource"] == "n/kept"


async def test_a_request_repeated_with_the_key_that_took_the_other_s_place_is_done_once(
    kept: Tenant, registry: TenantResourceService
) -> None:
    tenant_id, body = UUID(kept.id), {"direction": "credit", "currency": "EUR", "amount": "1.00"}
    answers = []
    for name in ("books", "books", "shop"):
        key = await registry.mint(tenant_id, name=name, environment="production", read=True, write=True)
        await registry.promote(tenant_id, key.key_id, retire_until=datetime.now(UTC) + timedelta(hours=1))
        headers = {"X-Tenant-Id": kept.id, "X-Environment": "production", "X-Api-Key": key.text}
        asked = headers | {"Idempotency-Key": "invoice-1"}
        answers.append(await ask(kept, "POST", "/expected-transactions", asked, json=body))
    first, again, other = answers
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (first.json(), "true")
    assert other.json()["id"] != first.json()["id"]
