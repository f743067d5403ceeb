"""The audit log over the wire: who did what, in one list, of one's own environment, tenant, users and keys alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from payrec.domain.retention import Removed
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant
from support.wire import add_key, ask, code, rows

pytestmark = pytest.mark.anyio

PATH = "/audit-log"
RATE = {"date": "2026-03-10", "base": "EUR", "quote": "USD", "rate": "1.0856"}


async def put_rate(tenant: Tenant, rate: str, environment: str = "production") -> None:
    answer = await tenant.request("PUT", "/fx-rates", environment=environment, json={"items": [{**RATE, "rate": rate}]})
    assert answer.status_code == 200, answer.text


async def log(tenant: Tenant, environment: str = "production", **filters: Any) -> list[dict[str, Any]]:
    """Return the whole log, oldest first, read in pages of three."""
    found: list[dict[str, Any]] = []
    params = {"limit": 3, "sort": "createdAt", **filters}
    while True:
        answer = await tenant.request("GET", PATH, environment=environment, params=params)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["data"]
        assert page["hasMore"] == (page["nextCursor"] is not None)
        if not page["hasMore"]:
            return found
        params["cursor"] = page["nextCursor"]


async def test_one_list_tells_of_the_environment_and_of_the_tenant(service: Service) -> None:
    tenant = await service.tenant("audited")
    await put_rate(tenant, "1.0856")
    await put_rate(tenant, "1.09")
    key = await add_key(tenant)
    patched = await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json={"locale": "de"})
    assert patched.status_code == 200, patched.text

    records = await log(tenant)
    told = [(r["type"], r["resourceId"]) for r in records]
    assert told[0] == ("tenant.created", tenant.id)
    assert [name for name, _ in told[1:]] == [
        "user.created",
        "fx_rate.created",
        "fx_rate.updated",
        "api_key.created",
        "tenant.settings_updated",
    ]
    assert told[-2] == ("api_key.created", key["id"])
    updated = records[3]
    assert (updated["before"]["rate"], updated["after"]["rate"]) == ("1.0856", "1.09")
    assert updated["actor"].startswith("user:")
    assert updated["requestId"]
    assert len({r["id"] for r in records}) == len(records)
    assert [r["id"] for r in reversed(records)] == [
        r["id"] for r in (await tenant.get(PATH, params={"limit": 200})).json()["data"]
    ]


async def test_every_page_size_and_order_gives_the_same_list(service: Service) -> None:
    tenant = await service.tenant("paged")
    for number in range(1, 8):
        await put_rate(tenant, f"1.{number}")
        if number % 3 == 0:
            await add_key(tenant)
    whole = [r["id"] for r in await log(tenant, limit=200)]
    assert len(whole) == 2 + 7 + 2
    for limit in (1, 2, 3, 5):
        assert [r["id"] for r in await log(tenant, limit=limit)] == whole
        assert [r["id"] for r in await log(tenant, limit=limit, sort="-createdAt")] == whole[::-1]


async def test_filters_narrow_it(service: Service) -> None:
    tenant = await service.tenant("filtered")
    await put_rate(tenant, "1.0856")
    await put_rate(tenant, "1.09")
    records = await log(tenant)
    rate = records[-1]
    assert [r["type"] for r in await log(tenant, type="fx_rate.updated")] == ["fx_rate.updated"]
    assert [r["type"] for r in await log(tenant, type="tenant.created")] == ["tenant.created"]
    of_rate = await log(tenant, resourceId=rate["resourceId"])
    assert [r["type"] for r in of_rate] == ["fx_rate.created", "fx_rate.updated"]
    assert await log(tenant, actor=rate["actor"]) == [r for r in records if r["actor"] == rate["actor"]]
    at = rate["at"]
    assert await log(tenant, **{"from": at}) == [rate]
    assert rate in await log(tenant, to=at, createdFrom=at)
    assert await log(tenant, to=records[-2]["at"]) == records[:-1]
    tomorrow = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    assert await log(tenant, **{"from": tomorrow}) == []
    assert await log(tenant, to="1970-01-01T00:00:00Z") == []
    assert await log(tenant, to="9999-12-31T23:59:59Z") == records


async def test_nobody_reads_what_is_not_about_them(service: Service) -> None:
    tenant, other = await service.tenant("reader"), await service.tenant("stranger")
    await put_rate(tenant, "1.0856", environment="test")
    await put_rate(other, "1.0856")
    in_test = await tenant.request("POST", "/auth/api-keys", environment="test", json={"read": True})
    assert in_test.status_code == 201, in_test.text

    assert [r["type"] for r in await log(tenant)] == ["tenant.created", "user.created"]
    assert [r["type"] for r in await log(tenant, environment="test")][2:] == ["fx_rate.created", "api_key.created"]
    theirs = {r["id"] for r in await log(other)}
    assert theirs.isdisjoint(r["id"] for r in await log(tenant))
    assert await log(tenant, resourceId=other.id) == []
    cursor = (await other.get(PATH, params={"limit": 1})).json()["nextCursor"]
    answer = await tenant.get(PATH, params={"limit": 1, "cursor": cursor})
    assert (answer.status_code, code(answer)) == (400, "invalid_cursor")


async def test_a_key_that_reads_may_read_it_and_one_that_writes_may_not(service: Service) -> None:
    tenant = await service.tenant("keyed")
    for flags, status in (({"write": False}, 200), ({"read": False}, 403)):
        key = await add_key(tenant, **flags)
        headers = {"X-Tenant-Id": tenant.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
        assert (await ask(tenant, "GET", PATH, headers)).status_code == status


async def test_a_wrong_filter_is_refused(service: Service) -> None:
    tenant = await service.tenant("refused")
    wrong = (
        {"type": "a.b.c"},
        {"type": "A"},
        {"resourceId": "x"},
        {"actor": "a b"},
        {"from": "yesterday"},
        {"sort": "type"},
        {"action": "tenant.created"},
    )
    for params in wrong:
        answer = await tenant.get(PATH, params=params)
        assert (answer.status_code, code(answer)) == (422, "validation_failed"), params


async def test_records_go_when_their_time_is_over_and_the_log_says_so(service: Service) -> None:
    tenant, other = await service.tenant("forgetful"), await service.tenant("mindful")
    for owner in (tenant, other):
        await put_rate(owner, "1.0856")
    old = "UPDATE audit_record SET change_id = '01000000-0000-7000-8000-000000000000' RETURNING 1 AS done"
    aged = "INSERT INTO change (id, at) VALUES ('01000000-0000-7000-8000-000000000000', '2004-11-03') RETURNING id"
    await rows(service, tenant, aged)
    await rows(service, tenant, old)
    await rows(
        service, tenant, "UPDATE audit_unsealed SET change_id = '01000000-0000-7000-8000-000000000000' RETURNING 1"
    )
    await service.factory.upkeep.create_audit_sealer().seal(await scope_of_tenant(service.factory, tenant), "test")
    dropped = await service.factory.upkeep.create_retention_service().drop_expired()
    whole_day = datetime(2004, 11, 3, tzinfo=UTC)
    assert dropped.of("audit_records") == Removed(count=1, oldest=whole_day, newest=whole_day)
    types = [r["type"] for r in await log(tenant)]
    assert types == ["tenant.created", "user.created", "audit_log.dropped"]
    (told,) = await log(tenant, type="audit_log.dropped")
    assert told["after"]["count"] == 1
    assert told["after"]["oldest"] == told["after"]["newest"] == whole_day.isoformat()
    assert [r["type"] for r in await log(other)][2:] == ["fx_rate.created"]
    assert (await service.factory.upkeep.create_retention_service().drop_expired()).of("audit_records") == Removed()
