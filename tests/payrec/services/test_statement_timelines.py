"""Of which days an account has statements, what lies between these, and which should have come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from uuid import UUID

import pytest

from payrec.constants.accounts import TIMELINE_DAYS
from payrec.domain.caller import Caller
from payrec.domain.principal import Principal
from payrec.domain.statement_timelines import Timeline
from payrec.services import statement_timelines
from payrec.storage.statement_notices import StatementNoticeStore
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.statements import IBAN, camt, message

pytestmark = pytest.mark.anyio

RAW = {"Content-Type": "application/octet-stream"}
UPLOAD = "/incoming-transactions/upload"
LAST = date(2026, 3, 31)


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def account(tenant: Tenant, identifier: str = IBAN) -> UUID:
    [found] = (await tenant.get("/accounts", params={"identifier": identifier})).json()["data"]
    return UUID(found["id"])


async def upload(tenant: Tenant, content: bytes, **asked: str) -> None:
    answer = await tenant.post(UPLOAD, headers=RAW, content=content, params=asked)
    assert answer.status_code == 201, answer.text


async def timelines(world: World, *ids: UUID, until: date | None = LAST) -> list[Timeline]:
    caller = Caller(principal=Principal(kind="system", name="test"), request_id="test", scope=world.scope)
    return await world.service.factory.create_statement_timeline_service().until(caller, ids, until)


async def test_statements_and_the_gap_between_them_are_told_by_day(world: World) -> None:
    for content in (message(camt(0, 100, 0)), message(camt(100, 250, 1)), message(camt(400, 500, 8))):
        await upload(world.tenant, content)
    [found] = await timelines(world, await account(world.tenant))
    assert [(s.begins_on.day, s.ends_on.day, s.continuity) for s in found.statements] == [
        (2, 2, "first"),
        (3, 3, "ok"),
        (10, 10, "gap"),
    ]
    [gap] = found.gaps
    assert (gap.begins_on.day, gap.ends_on.day, gap.difference_minor) == (4, 9, 150)
    assert (found.covered_day_count, found.day_count, found.latest_on) == (3, TIMELINE_DAYS, date(2026, 3, 10))
    assert not found.is_cut


async def test_only_statements_that_speak_of_the_days_are_told(world: World) -> None:
    for content in (message(camt(0, 100, 0)), message(camt(100, 250, 20))):
        await upload(world.tenant, content)
    wanted = await account(world.tenant)
    [early] = await timelines(world, wanted, until=date(2026, 3, 21))
    assert [s.ends_on.day for s in early.statements] == [2]
    [late] = await timelines(world, wanted, until=date(2026, 6, 1))
    assert [s.ends_on.day for s in late.statements] == [22]
    [none] = await timelines(world, wanted, until=date(2027, 1, 1))
    assert (list(none.statements), none.latest_on) == ([], date(2026, 3, 22))
    assert [t.statements for t in await timelines(world, wanted, until=date.min)] == [[]]


async def test_a_table_without_balances_has_the_days_of_its_entries(world: World) -> None:
    table = b"Date;Text;Amount;Currency\n2026-03-04;a;1.00;EUR\n2026-03-06;b;2.00;EUR\n"
    await upload(world.tenant, table, account="TILL")
    [found] = await timelines(world, await account(world.tenant, "TILL"))
    assert [(s.begins_on.day, s.ends_on.day, s.closing_minor) for s in found.statements] == [(4, 6, None)]


async def test_periods_whose_statement_is_due_are_told_as_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def now(_store: StatementNoticeStore) -> datetime:
        return datetime(2026, 3, 6, 12, tzinfo=UTC)

    monkeypatch.setattr(StatementNoticeStore, "now", now)
    await upload(world.tenant, message(camt(0, 100, 0)))
    wanted = await account(world.tenant)
    body = {"statementEvery": "day", "statementDueAfterHours": 12}
    assert (await world.tenant.request("PATCH", f"/accounts/{wanted}", json=body)).status_code == 200
    await world.sql("UPDATE account SET statements_from = '2026-03-02'")
    [found] = await timelines(world, wanted)
    assert [period.begins_on.day for period in found.missing] == [3, 4, 5]
    [present] = await timelines(world, wanted, until=None)
    assert present.until == date(2026, 3, 6)
    [before] = await timelines(world, wanted, until=date(2026, 3, 4))
    assert [period.begins_on.day for period in before.missing] == [3, 4]


async def test_more_statements_than_are_told_are_said_to_be_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_timelines, "TIMELINE_STATEMENTS_MAX", 2)
    for number in range(3):
        await upload(world.tenant, message(camt(100 * number, 100 * number + 100, number)))
    [found] = await timelines(world, await account(world.tenant))
    assert [s.ends_on.day for s in found.statements] == [2, 3]
    assert found.is_cut


async def test_another_tenant_s_account_has_no_timeline_here(world: World) -> None:
    await upload(world.tenant, message(camt(0, 100, 0)))
    await upload(world.bystander, message(camt(0, 700, 0)))
    theirs, ours = await account(world.bystander), await account(world.tenant)
    [found] = await timelines(world, theirs, ours)
    assert found.account_id == ours
    assert [s.closing_minor for s in found.statements] == [100]
