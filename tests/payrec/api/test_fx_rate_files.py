"""Files of exchange rates over the wire: all of a file or none of it, again without effect, and no other tenant's."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from payrec.domain.fx_rates import FxRate
from payrec.storage.fx_rates import FxRateStore
from support.ecb_files import daily_table, table, xml, zipped
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant
from support.wire import rows

pytestmark = pytest.mark.anyio

PATH = "/fx-rates/upload"
RATES = {
    "2026-03-10": {"USD": "1.0856", "JPY": "171.94", "QQQ": "5"},
    "2026-03-09": {"USD": "1.0850", "GBP": "0.84638"},
}


async def upload(tenant: Tenant, data: bytes, headers: dict[str, str] | None = None, **options: str) -> Any:
    headers = {"content-type": "application/octet-stream", **(headers or {})}
    return await tenant.request("POST", PATH, content=data, headers=headers, params=options)


async def stored(tenant: Tenant) -> dict[tuple[str, str, str], str]:
    page = (await tenant.get("/fx-rates", params={"sort": "date", "limit": 200})).json()
    return {(row["date"], row["base"], row["quote"]): row["rate"] for row in page["data"]}


async def test_a_file_is_stored_whole_and_again_changes_nothing(service: Service) -> None:
    tenant, other = await service.tenant("filed"), await service.tenant("unfiled")
    answer = await upload(tenant, zipped(table(RATES)))
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert len(told.pop("sha256")) == 64
    assert told == {
        "format": "ecb_csv",
        "firstDate": "2026-03-09",
        "lastDate": "2026-03-10",
        "rates": 4,
        "created": 4,
        "updated": 0,
        "unchanged": 0,
        "currenciesLeftOut": ["QQQ"],
    }
    before = await stored(tenant)
    assert before == {
        ("2026-03-09", "EUR", "GBP"): "0.84638",
        ("2026-03-09", "EUR", "USD"): "1.085",
        ("2026-03-10", "EUR", "JPY"): "171.94",
        ("2026-03-10", "EUR", "USD"): "1.0856",
    }
    again = (await upload(tenant, xml(RATES))).json()
    assert (again["format"], again["created"], again["updated"], again["unchanged"]) == ("ecb_xml", 0, 0, 4)
    assert await stored(tenant) == before
    assert (await stored(other), await stored_elsewhere(tenant)) == ({}, 0)
    audit = await rows(service, tenant, "SELECT action, after FROM audit_record ORDER BY change_id, ordinal")
    assert [(row["action"], row["after"]["created"]) for row in audit] == [("fx_rates.uploaded", 4)]


async def stored_elsewhere(tenant: Tenant) -> int:
    return len((await tenant.get("/fx-rates", environment="test")).json()["data"])


async def test_a_correction_replaces_the_rate_of_its_day_and_is_recorded_by_itself(service: Service) -> None:
    tenant = await service.tenant("corrected")
    await upload(tenant, table(RATES))
    told = (await upload(tenant, daily_table("2026-03-10", {"USD": "1.0900", "JPY": "171.94"}))).json()
    assert (told["created"], told["updated"], told["unchanged"]) == (0, 1, 1)
    assert (await stored(tenant))["2026-03-10", "EUR", "USD"] == "1.09"
    audit = await rows(service, tenant, "SELECT before, after FROM audit_record WHERE action = 'fx_rate.updated'")
    assert [(row["before"]["rate"], row["after"]["rate"]) for row in audit] == [("1.0856", "1.09")]


async def test_only_the_days_that_are_asked_for_are_stored(service: Service) -> None:
    tenant = await service.tenant("days")
    assert (await upload(tenant, table(RATES), dateFrom="2026-03-10")).json()["rates"] == 2
    assert {day for day, _, _ in await stored(tenant)} == {"2026-03-10"}
    for options, pointer in (({"dateFrom": "2026-03-11"}, "/dateFrom"), ({"dateTo": "2026-03-08"}, "/dateTo")):
        refused = await upload(tenant, table(RATES), **options)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
    form = await tenant.request(
        "POST", PATH, files={"file": ("eurofxref.csv", table(RATES))}, data={"dateTo": "2026-03-09"}
    )
    assert (form.status_code, form.json()["created"]) == (200, 2)
    assert (await upload(tenant, table(RATES), date="2026-03-10")).status_code == 422


async def test_a_file_with_one_wrong_rate_stores_nothing(service: Service) -> None:
    tenant = await service.tenant("torn")
    for data, reason in (
        (table({**RATES, "2026-03-08": {"USD": "1,08"}}), "ecb_row"),
        (xml({**RATES, "2026-03-08": {"USD": "-1"}}), "ecb_rate"),
        (xml(RATES)[:-20], "xml_malformed"),
        (b"Booking date;Amount\n2026-03-10;1.00\n", "unknown_format"),
    ):
        refused = await upload(tenant, data)
        assert (refused.status_code, refused.json()["code"], refused.json()["reason"]) == (
            422,
            "unreadable_file",
            reason,
        )
    assert await stored(tenant) == {}


async def test_the_same_key_with_another_file_is_refused(service: Service) -> None:
    tenant = await service.tenant("keyed")
    first = await upload(tenant, table(RATES), {"Idempotency-Key": "a"})
    again = await upload(tenant, table(RATES), {"Idempotency-Key": "a"})
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await upload(tenant, xml(RATES), {"Idempotency-Key": "a"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_what_was_known_at_an_instant_stays_known(service: Service) -> None:
    tenant = await service.tenant("remembered")
    scope, told = await scope_of_tenant(service.factory, tenant), []
    for rate in ("1.1", "1.2", "1.2", "1.3"):
        assert (await upload(tenant, table({"2026-03-10": {"USD": rate}}))).status_code == 200
        [row] = await rows(service, tenant, "SELECT max(at) AS at FROM change")
        told.append((row["at"], rate))
    day = date(2026, 3, 10)
    async with service.factory.context.database.tenant(scope, readonly=True) as connection:
        store = FxRateStore(connection)
        for at, rate in told:
            [found] = await store.at(first=day, last=day, as_of=at)
            assert str(FxRate(found["mantissa"], found["places"])) == rate
        assert await store.at(first=day, last=day, as_of=told[0][0] - timedelta(seconds=1)) == []
        assert await store.at(first=day + timedelta(days=1), last=date.max, as_of=told[-1][0]) == []
