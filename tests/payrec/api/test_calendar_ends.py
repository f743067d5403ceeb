"""Dates and instants at the ends of the calendar are answered as any other: no arithmetic goes beyond them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from payrec.services.backtest_days import _rates
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.statements import camt, message
from support.wire import code, fields

pytestmark = pytest.mark.anyio

FIRST, LAST = "0001-01-01", "9999-12-31"
TILL = {"identifier": "till", "currency": "EUR"}


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def set_tenant(world: World, **settings: Any) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    assert (await world.tenant.request("PATCH", path, json=settings)).status_code == 200


@pytest.mark.parametrize("opening", [FIRST, LAST])
async def test_an_account_may_begin_on_any_day(world: World, opening: str) -> None:
    body = {**TILL, "openingBalanceMinor": 7, "openingOn": opening}
    account = (await world.tenant.post("/accounts", body)).json()
    await world.receive("1.00", account="till", bookingDate=opening)
    path = f"/accounts/{account['id']}/reconciliation"
    for cut_off, balance in ((None, 107), (FIRST, 107), (LAST, 107)):
        params = {} if cut_off is None else {"cutOff": cut_off}
        for of_lines in ({}, {"part": "open"}):
            answer = await world.tenant.get(f"{path}/lines" if of_lines else path, params=params | of_lines)
            if opening == LAST != cut_off:
                assert (answer.status_code, fields(answer)) == (422, {("cutOff", "cut_off_before_opening")})
            else:
                assert answer.status_code == 200, answer.text
                told = answer.json()
                assert (len(told["data"]) == 1) if of_lines else (told["balanceMinor"] == balance)
    assert (await world.bystander.get(path)).status_code == 404


@pytest.mark.parametrize("day", [FIRST, LAST])
async def test_a_statement_may_be_of_any_day(world: World, day: str) -> None:
    content = message(camt(100, 300, 0).replace("2026-03-02", day))
    headers = {"Content-Type": "application/octet-stream"}
    answer = await world.tenant.post("/incoming-transactions/upload", headers=headers, content=content)
    assert (answer.status_code, answer.json()["counts"]["accepted"]) == (201, 1), answer.text
    [account] = (await world.tenant.get("/accounts")).json()["data"]
    assert account["openingOn"] == day
    told = await world.tenant.get(f"/accounts/{account['id']}/reconciliation", params={"cutOff": day})
    assert (told.status_code, told.json()["balanceMinor"], told.json()["statementBalanceMinor"]) == (200, 300, 300)
    assert (await world.bystander.get(f"/accounts/{account['id']}/reconciliation")).status_code == 404


@pytest.mark.parametrize("day", [FIRST, LAST])
async def test_a_limit_in_another_currency_is_held_against_lines_of_any_day(world: World, day: str) -> None:
    await set_tenant(world, baseCurrency="EUR", approval={"secondPersonAboveMinor": 100, "currency": "EUR"})
    try:
        leg = {
            "expectedTransactionId": await world.expect("5.00", currency="USD"),
            "incomingTransactionId": await world.receive("5.00", currency="USD", bookingDate=day),
            "amountMinor": 500,
        }
        answer = await world.tenant.post("/matches", {"legs": [leg], "reason": "paid"})
        assert (answer.status_code, answer.json()["status"]) == (201, "pending_approval"), answer.text
    finally:
        await set_tenant(world, approval=None)


async def test_a_backtest_takes_rates_of_lines_of_any_day() -> None:
    asked: dict[str, Any] = {}

    class Rates:
        async def at(self, **given: Any) -> list[dict[str, Any]]:
            asked.update(given)
            return []

    days = [(day - date(1970, 1, 1)).days for day in (date.min, date.max)]
    lines = [{"booking_day": number} for number in (*days, None)]
    assert await _rates(Rates(), lines, as_of=datetime.now(UTC)) == []  # type: ignore[arg-type] - what it asks for
    assert (asked["first"], asked["last"]) == (date.min, date.max)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Auckland", "America/Los_Angeles"])
@pytest.mark.parametrize("instant", [f"{FIRST}T00:00:00Z", f"{LAST}T23:59:59Z"])
async def test_an_instant_at_an_end_cannot_be_shown_wherever_the_tenant_is(
    world: World, zone: str, instant: str
) -> None:
    await set_tenant(world, timezone=zone)
    account = f"/accounts/{(await world.tenant.post('/accounts', TILL)).json()['id']}/reconciliation"
    plain = [f"/reports/{name}" for name in ("ageing", "open-balances", "exceptions", "summary")]
    plain += [account, "/expected-transactions", "/incoming-transactions", "/matches"]
    paths: list[tuple[str, dict[str, str]]] = [(path, {}) for path in plain]
    paths.append((f"{account}/lines", {"part": "open"}))
    try:
        for path, more in paths:
            answer = await world.tenant.get(path, params={**more, "asOf": instant})
            assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range"), path
        params = {"resource": "expected-transactions", "filter": {"asOf": instant}}
        answer = await world.tenant.post("/jobs", {"kind": "export", "params": params})
        assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range")
    finally:
        await set_tenant(world, timezone=None)
    assert (await world.bystander.get(account)).status_code == 404


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Auckland", "America/Los_Angeles"])
@pytest.mark.parametrize("day", [FIRST, LAST])
async def test_a_backtest_of_a_day_at_an_end_is_refused(world: World, zone: str, day: str) -> None:
    await set_tenant(world, timezone=zone)
    try:
        answer = await world.tenant.post("/jobs", {"kind": "backtest", "params": {"from": day, "to": day}})
        assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range")
    finally:
        await set_tenant(world, timezone=None)
