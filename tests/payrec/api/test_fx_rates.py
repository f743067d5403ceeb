"""Exchange rates over the wire: stored as they come, each item by itself, listed, and no other tenant's."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from payrec.constants import BULK_ITEMS_MAX
from support.service import Service, Tenant
from support.wire import add_key, ask, code, rows

pytestmark = pytest.mark.anyio

PATH = "/fx-rates"
DOLLARS = {"date": "2026-03-10", "base": "EUR", "quote": "USD", "rate": "1.0856"}


async def put(tenant: Tenant, *items: Any, environment: str = "production") -> Any:
    return await tenant.request("PUT", PATH, environment=environment, json={"items": list(items)})


async def results(tenant: Tenant, *items: Any) -> list[dict[str, Any]]:
    answer = await put(tenant, *items)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


async def rates(tenant: Tenant, **filters: Any) -> list[tuple[str, str, str, str]]:
    page = (await tenant.get(PATH, params={"sort": "date", **filters})).json()
    return [(row["date"], row["base"], row["quote"], row["rate"]) for row in page["data"]]


async def test_a_rate_is_stored_changed_and_left_as_it_is(service: Service) -> None:
    tenant = await service.tenant("rates")
    created = await results(tenant, DOLLARS)
    assert [r["status"] for r in created] == [201]
    row = (await tenant.get(PATH)).json()["data"][0]
    assert (row["id"], row["version"], row["rate"]) == (created[0]["id"], 1, "1.0856")

    same = await results(tenant, {**DOLLARS, "rate": "1.08560"})
    assert same == [{"index": 0, "status": 200, "id": row["id"]}]
    assert (await tenant.get(PATH)).json()["data"] == [row]

    changed = await results(tenant, {**DOLLARS, "rate": "1.09"}, {**DOLLARS, "date": "2026-03-11"})
    assert [(r["status"], r["id"] == row["id"]) for r in changed] == [(200, True), (201, False)]
    after = (await tenant.get(PATH, params={"sort": "createdAt"})).json()["data"][0]
    assert (after["version"], after["rate"], after["createdAt"]) == (2, "1.09", row["createdAt"])
    audit = await rows(service, tenant, "SELECT action, before, after FROM audit_record ORDER BY change_id, ordinal")
    told = [(r["action"], (r["before"] or {}).get("rate"), r["after"]["rate"]) for r in audit]
    assert told == [
        ("fx_rate.created", None, "1.0856"),
        ("fx_rate.updated", "1.0856", "1.09"),
        ("fx_rate.created", None, "1.0856"),
    ]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rate": 1.0856}, ("/items/1/rate", "string_type")),
        ({"rate": "0"}, ("/items/1/rate", "rate_not_positive")),
        ({"rate": "0.000"}, ("/items/1/rate", "rate_not_positive")),
        ({"rate": "1e3"}, ("/items/1/rate", "rate_malformed")),
        ({"rate": "-1"}, ("/items/1/rate", "rate_malformed")),
        ({"rate": "01.5"}, ("/items/1/rate", "rate_malformed")),
        ({"rate": "1."}, ("/items/1/rate", "rate_malformed")),
        ({"rate": "\u0661.5"}, ("/items/1/rate", "rate_malformed")),
        ({"rate": "1.0000000000001"}, ("/items/1/rate", "rate_max_places")),
        ({"rate": "1234567890.123456"}, ("/items/1/rate", "rate_max_digits")),
        ({"rate": "9" * 60}, ("/items/1/rate", "string_too_long")),
        ({"quote": "EUR"}, ("/items/1", "currencies_equal")),
        ({"quote": "XXX"}, ("/items/1/quote", "unknown_currency")),
        ({"date": "2026-02-30"}, ("/items/1/date", "date_malformed")),
        ({"rates": "1"}, ("/items/1/rates", "extra_forbidden")),
    ],
)
async def test_what_is_wrong_with_an_item_is_said_and_the_others_are_stored(
    service: Service, wrong: dict[str, Any], told: tuple[str, str]
) -> None:
    tenant = await service.tenant(f"wrong{abs(hash(str(wrong))) % 10**9}")
    first, second = await results(tenant, DOLLARS, {**DOLLARS, "date": "2026-03-11", **wrong})
    assert first["status"] == 201
    assert (second["index"], second["status"], second["problem"]["code"]) == (1, 422, "validation_failed")
    assert [(e["pointer"], e["code"]) for e in second["problem"]["errors"]] == [told]
    assert await rates(tenant) == [("2026-03-10", "EUR", "USD", "1.0856")]


async def test_an_item_that_is_there_twice_is_wrong_both_times(service: Service) -> None:
    tenant = await service.tenant("twice")
    found = await results(tenant, DOLLARS, {**DOLLARS, "quote": "GBP", "rate": "0.85"}, {**DOLLARS, "rate": "1.2"})
    assert [r["status"] for r in found] == [422, 201, 422]
    assert {e["code"] for r in found if "problem" in r for e in r["problem"]["errors"]} == {"given_twice"}
    assert [row[2] for row in await rates(tenant)] == ["GBP"]


async def test_a_request_has_at_least_one_item_and_a_limit(service: Service, acme: Tenant) -> None:
    assert code(await put(acme)) == "validation_failed"
    days = [date(2000, 1, 1) + timedelta(days=n) for n in range(BULK_ITEMS_MAX)]
    many = [{**DOLLARS, "date": day.isoformat()} for day in days]
    assert code(await put(acme, *many, DOLLARS)) == "validation_failed"
    tenant = await service.tenant("full")
    assert {r["status"] for r in await results(tenant, *many)} == {201}


async def test_the_list_is_filtered_and_sorted_by_day(service: Service) -> None:
    tenant = await service.tenant("listed")
    days = ["2026-03-12", "2026-03-10", "2026-03-11"]
    await results(tenant, *({**DOLLARS, "date": day} for day in days), {**DOLLARS, "quote": "KWD", "rate": "0.335"})
    assert [row[0] for row in await rates(tenant, quote="USD")] == sorted(days)
    assert [row[0] for row in await rates(tenant, sort="-date", quote="USD")] == sorted(days, reverse=True)
    assert await rates(tenant, dateFrom="2026-03-10", dateTo="2026-03-10", base="EUR", quote="KWD") == [
        ("2026-03-10", "EUR", "KWD", "0.335")
    ]
    seen, cursor = [], None
    while True:
        parameters = {"sort": "-date", "limit": "1", "cursor": cursor}
        page = (await tenant.get(PATH, params={k: v for k, v in parameters.items() if v})).json()
        seen += [row["id"] for row in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 4


async def test_rates_are_those_of_one_tenant_environment(service: Service, globex: Tenant) -> None:
    tenant = await service.tenant("owner", environments=["production", "test"])
    before = await rates(globex)
    await results(tenant, DOLLARS)
    assert await rates(globex) == before
    assert (await tenant.get(PATH, "test")).json()["data"] == []
    assert (await results(globex, {**DOLLARS, "date": "2031-01-01"}))[0]["status"] == 201
    assert len(await rates(tenant)) == 1


async def test_a_key_stores_rates_only_with_write(acme: Tenant) -> None:
    key = await add_key(acme, read=True, write=False)
    headers = {"X-Tenant-Id": acme.id, "X-Environment": "production", "X-Api-Key": key["apiKey"]}
    assert code(await ask(acme, "PUT", PATH, headers, json={"items": [DOLLARS]})) == "insufficient_permission"
    assert (await ask(acme, "GET", PATH, headers)).status_code == 200
