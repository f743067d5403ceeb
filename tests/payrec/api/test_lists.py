"""Lists: every row once, in the order that was asked for, by cursors that are good for this very list alone."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from payrec.constants import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX
from payrec.models.api_keys import ApiKeyQuery
from payrec.models.common import ListQuery
from payrec.models.expected_transactions import ExpectedTransactionQuery
from payrec.models.imports import ImportQuery
from payrec.models.incoming_transactions import IncomingTransactionQuery
from payrec.models.jobs import JobQuery
from payrec.models.snapshots import SnapshotQuery
from payrec.models.tenants import TenantQuery
from payrec.models.webhooks import WebhookQuery
from support.service import Service, Tenant
from support.wire import add_key, code, fields, in_control

pytestmark = pytest.mark.anyio

EXPECTED, INCOMING = "/expected-transactions", "/incoming-transactions"
SNAPSHOTS = "/expected-transactions/snapshots"
LISTS: dict[str, type[ListQuery]] = {
    EXPECTED: ExpectedTransactionQuery,
    INCOMING: IncomingTransactionQuery,
    SNAPSHOTS: SnapshotQuery,
    "/imports": ImportQuery,
    "/jobs": JobQuery,
    "/auth/api-keys": ApiKeyQuery,
    "/tenants": TenantQuery,
    "/webhooks": WebhookQuery,
}
ROWS = 13
SORT_MEMBERS = {
    "createdAt": "createdAt",
    "dueDate": "dueDate",
    "bookingDate": "bookingDate",
    "amountMinor": "amountMinor",
}


def sorts(path: str) -> list[str]:
    return list(LISTS[path].model_fields["sort"].annotation.__args__)  # type: ignore[union-attr]


@pytest.fixture(scope="module")
async def filled(service: Service) -> Tenant:
    """A tenant with rows whose dates and amounts tie; the second environment has the same."""
    tenant = await service.tenant("filled", environments=["production", "test"])
    for environment in ("production", "test"):
        for n in range(ROWS):
            money = {"direction": "credit", "amountMinor": 100 + n % 3, "currency": "EUR"}
            due = {} if n % 4 == 0 else {"dueDate": f"2025-03-0{1 + n % 3}"}
            await tenant.post(EXPECTED, {**money, **due}, environment)
            await tenant.post(INCOMING, {**money, "bookingDate": f"2025-03-0{1 + n % 2}"}, environment)
            await tenant.post("/auth/api-keys", {"read": True}, environment)
            hook = {"url": "https://127.0.0.1:65535/", "events": ["audit.sealed"]}
            assert (await tenant.post("/webhooks", hook, environment)).status_code == 201
            line = (
                b'{"direction":"debit","amount":"0.01","currency":"EUR","bookingDate":"2024-01-01","externalId":"%d"}'
            )
            headers = {"Content-Type": "application/x-ndjson"}
            await tenant.post(f"{INCOMING}/upload", None, environment, headers=headers, content=line % n)
            said = {"takenAt": datetime.now(UTC).isoformat(), "controlTotals": "[]"}
            await tenant.post(SNAPSHOTS, None, environment, files={"file": ("none.json", b"[]")}, data=said)
    return tenant


@pytest.fixture(scope="module")
async def platform(service: Service, filled: Tenant) -> Tenant:
    """Who manages tenants and therefore lists all of them."""
    from support.wire import add_user  # noqa: PLC0415 - only here

    for n in range(5):
        made = await service.http.post(
            f"{service.base_url}/tenants", json={"name": f"More {n}", "environments": ["test"]}
        )
        assert made.status_code == 201
    return (await add_user(service, filled, "platform-admin", "viewer"))[1]


async def walk(tenant: Tenant, path: str, limit: int, **parameters: Any) -> list[dict[str, Any]]:
    """Follow the Link headers to the end."""
    url, found = f"{path}?{urlencode({'limit': limit, **parameters})}", []
    for _ in range(200):
        answer = await tenant.get(url)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["data"]) <= limit
        assert page["hasMore"] == (page["nextCursor"] is not None) == ("link" in answer.headers)
        found += page["data"]
        if not page["hasMore"]:
            return found
        assert len(page["data"]) == limit
        assert answer.links["next"]["url"].startswith(f"{path}?")
        url = answer.links["next"]["url"]
        assert page["nextCursor"] in url
    raise AssertionError("the list does not end")


@pytest.mark.parametrize(("path", "sort"), [(path, sort) for path in LISTS for sort in sorts(path)])
async def test_paging_over_ties_visits_every_row_once(filled: Tenant, platform: Tenant, path: str, sort: str) -> None:
    who = platform if path == "/tenants" else filled
    whole = await walk(who, path, 200, sort=sort)
    ids = [row["id"] for row in whole]
    assert len(ids) == len(set(ids)) >= 6
    for limit in (1, 2, 5):
        assert [row["id"] for row in await walk(who, path, limit, sort=sort)] == ids
    name = sort.removeprefix("-")
    # A row without the date is after all that have one.
    values = [row[SORT_MEMBERS[name]] if row[SORT_MEMBERS[name]] is not None else "9999-12-31" for row in whole]
    assert values == sorted(values, reverse=sort.startswith("-"))


@pytest.mark.parametrize("path", [EXPECTED, INCOMING])
async def test_a_sort_and_its_opposite_are_mirrored(filled: Tenant, path: str) -> None:
    for sort in (s for s in sorts(path) if not s.startswith("-")):
        up, down = await walk(filled, path, 200, sort=sort), await walk(filled, path, 200, sort=f"-{sort}")
        assert [r["id"] for r in up] == [r["id"] for r in reversed(down)]


@pytest.mark.parametrize("path", LISTS)
async def test_the_newest_comes_first_unless_told_otherwise(filled: Tenant, path: str) -> None:
    plain = (await filled.get(path)).json()["data"]
    assert plain == (await filled.get(path, params={"sort": "-createdAt"})).json()["data"]
    assert len(plain) <= PAGE_SIZE_DEFAULT


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", [0, -1, PAGE_SIZE_MAX + 1, "x", "", "1.5", "1e1"])
async def test_a_limit_out_of_its_bounds_is_422(filled: Tenant, path: str, limit: Any) -> None:
    answer = await filled.get(path, params={"limit": limit})
    assert {pointer for pointer, _ in fields(answer)} == {"limit"}
    assert (await filled.get(path, params={"limit": PAGE_SIZE_MAX})).status_code == 200


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("sort", ["", "id", "created_at", "-amount", "createdAt,amountMinor", "createdAt desc"])
async def test_only_the_orders_of_the_list_are_taken(filled: Tenant, path: str, sort: str) -> None:
    assert {pointer for pointer, _ in fields(await filled.get(path, params={"sort": sort}))} == {"sort"}


async def cursor_of(tenant: Tenant, path: str, environment: str = "production", **parameters: Any) -> str:
    page = (await tenant.get(path, environment, params={"limit": 1, **parameters})).json()
    return str(page["nextCursor"])


async def refused(tenant: Tenant, path: str, cursor: str, environment: str = "production", **parameters: Any) -> None:
    answer = await tenant.get(path, environment, params={"cursor": cursor, **parameters})
    assert (answer.status_code, code(answer)) == (400, "invalid_cursor")


async def test_a_cursor_is_good_for_its_own_list_alone(filled: Tenant, acme: Tenant) -> None:
    cursor = await cursor_of(filled, EXPECTED)
    assert (await filled.get(EXPECTED, params={"cursor": cursor})).status_code == 200
    for path in set(LISTS) - {EXPECTED}:
        await refused(filled, path, cursor)
    await refused(filled, EXPECTED, cursor, "test")
    await refused(acme, EXPECTED, cursor)
    await refused(filled, EXPECTED, cursor, sort="createdAt")
    await refused(filled, EXPECTED, cursor, direction="credit")
    await refused(filled, EXPECTED, cursor, createdFrom="2020-01-01T00:00:00Z")


async def test_a_cursor_of_a_filtered_list_is_good_with_its_filter_alone(filled: Tenant) -> None:
    given = {"direction": "credit", "sort": "amountMinor"}
    cursor = await cursor_of(filled, EXPECTED, **given)
    assert (await filled.get(EXPECTED, params={"cursor": cursor, **given, "limit": 7})).status_code == 200
    await refused(filled, EXPECTED, cursor)
    await refused(filled, EXPECTED, cursor, **{**given, "direction": "debit"})
    await refused(filled, EXPECTED, cursor, **given, currency="EUR")


async def test_a_cursor_is_the_tenants_and_not_the_users(filled: Tenant) -> None:
    key = await add_key(filled)
    place = {"X-Tenant-Id": filled.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    cursor = await cursor_of(filled, EXPECTED)
    answer = await filled.http.get(filled.base_url + EXPECTED, headers=place, params={"cursor": cursor})
    assert answer.status_code == 200


async def test_a_cursor_that_was_touched_is_refused(filled: Tenant) -> None:
    cursor = await cursor_of(filled, EXPECTED, sort="amountMinor")
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    for place in range(len(raw)):
        touched = bytes(raw[:place]) + bytes([raw[place] ^ 1]) + bytes(raw[place + 1 :])
        await refused(filled, EXPECTED, base64.urlsafe_b64encode(touched).decode().rstrip("="), sort="amountMinor")
    for other in ("", "x", cursor[:-4], "é", cursor + "AAAA", "[]", "A" * 2048, "%00", "\x00"):
        await refused(filled, EXPECTED, other, sort="amountMinor")


async def test_rows_that_arrive_while_paging_do_not_repeat_others(filled: Tenant) -> None:
    first = (await filled.get(EXPECTED, params={"limit": 4, "sort": "-amountMinor"})).json()
    body = {"direction": "credit", "amountMinor": 10_000, "currency": "EUR"}
    await filled.post(EXPECTED, body)
    rest = (await filled.get(EXPECTED, params={"cursor": first["nextCursor"], "sort": "-amountMinor"})).json()
    ids = [row["id"] for row in first["data"] + rest["data"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", LISTS)
async def test_created_from_and_to_bound_the_list(filled: Tenant, path: str) -> None:
    whole = await walk(filled, path, 200, sort="createdAt")
    middle = whole[len(whole) // 2]["createdAt"]
    late = await walk(filled, path, 200, sort="createdAt", createdFrom=middle)
    early = await walk(filled, path, 200, sort="createdAt", createdTo=middle)
    assert [r["id"] for r in late] == [r["id"] for r in whole if r["createdAt"] >= middle]
    assert [r["id"] for r in early] == [r["id"] for r in whole if r["createdAt"] <= middle]
    for wrong in (
        "2025-01-01",
        "yesterday",
        "2025-01-01T00:00:00",
        "2025-13-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
    ):
        assert {p for p, _ in fields(await filled.get(path, params={"createdFrom": wrong}))} == {"createdFrom"}


async def test_the_same_instant_in_another_offset_is_the_same_list(filled: Tenant) -> None:
    cursor = await cursor_of(filled, EXPECTED, createdFrom="2020-01-01T00:00:00Z")
    same = {"cursor": cursor, "createdFrom": "2020-01-01T02:00:00+02:00"}
    assert (await filled.get(EXPECTED, params=same)).status_code == 200


@pytest.mark.parametrize("path", LISTS)
async def test_an_empty_list_is_a_page_without_more(filled: Tenant, path: str) -> None:
    answer = await filled.get(path, params={"createdFrom": "2999-01-01T00:00:00Z"})
    assert answer.json() == {"data": [], "hasMore": False, "nextCursor": None}


@pytest.mark.parametrize("path", ["/imports", "/jobs", "/auth/api-keys", "/tenants"])
async def test_the_status_narrows_the_list(service: Service, filled: Tenant, path: str) -> None:
    if path == "/auth/api-keys":
        key = await add_key(filled)
        await in_control(service, "UPDATE api_key SET expires_at = '2020-01-01' WHERE id = %s", key["id"])
    whole = await walk(filled, path, 200)
    for status in LISTS[path].model_fields["status"].annotation.__args__[0].__args__:  # type: ignore[union-attr]
        found = await walk(filled, path, 200, status=status)
        assert [r["id"] for r in found] == [r["id"] for r in whole if r["status"] == status]
    assert {p for p, _ in fields(await filled.get(path, params={"status": "x"}))} == {"status"}


async def test_every_resource_of_a_list_can_be_got_by_its_id(filled: Tenant) -> None:
    for path in LISTS:
        for row in (await filled.get(path, params={"limit": 2})).json()["data"]:
            got = await filled.get(f"{path}/{row['id']}")
            assert (got.status_code, got.json()) == (200, row)
            if "version" in row:
                assert got.headers["etag"] == f'"{row["version"]}"'
