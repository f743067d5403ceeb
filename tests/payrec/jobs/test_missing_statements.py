"""Statements that do not come are told of once for each account and period, by business days of the tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from payrec.jobs.app import QUEUE, create_app
from payrec.jobs.worker import run_worker
from payrec.services.statement_notices import ACTION, StatementNoticeService
from payrec.storage.census import CensusStore
from payrec.storage.changes import ChangeStore
from payrec.storage.statement_notices import StatementNoticeStore
from support.events import TOLD
from support.matching_world import World
from support.service import Tenant, direct_url
from support.statements import IBAN, camt, message
from support.wire import in_control, until

pytestmark = pytest.mark.anyio

MONDAY = datetime(2026, 3, 9, 12, tzinfo=UTC)
SINCE = "2026-03-09"
DAILY = {"statementEvery": "day", "statementDueAfterHours": 12}
RAW = {"Content-Type": "application/octet-stream"}

Clock = Callable[[datetime], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return what sets the database's clock, as far as it is asked here."""

    def set_to(instant: datetime) -> None:
        async def now(_store: StatementNoticeStore) -> datetime:
            return instant

        monkeypatch.setattr(StatementNoticeStore, "now", now)

    return set_to


def announcer(world: World) -> StatementNoticeService:
    return StatementNoticeService(work=world.service.factory.work)


async def watched(tenant: Tenant, **given: Any) -> str:
    """Make an account whose statements are waited for, and return its id."""
    answer = await tenant.post("/accounts", {"identifier": IBAN, "currency": "EUR", **DAILY, **given})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def both(world: World, **given: Any) -> str:
    """Make one in both environments, watched since a Monday, and return that of the first."""
    await watched(world.bystander, **given)
    found = await watched(world.tenant, **given)
    for scope in (world.scope, world.bystander_scope):
        async with world.service.factory.context.database.tenant(scope) as connection:
            await connection.execute("UPDATE account SET statements_from = %s", (SINCE,))
    return found


async def came(world: World, day: int) -> None:
    """Upload a statement of so many days after the second of March to the first environment."""
    answer = await world.tenant.post("/incoming-transactions/upload", headers=RAW, content=message(camt(0, 100, day)))
    assert answer.status_code == 201, answer.text


async def told(world: World) -> list[dict[str, Any]]:
    """Return what was told in the first environment, in order."""
    rows = await world.sql(f"SELECT data FROM {TOLD} WHERE type = %s", ACTION)  # noqa: S608 - our own text
    return sorted((row["data"] for row in rows), key=lambda data: (data["periodFrom"], data["identifier"]))


async def days_told(world: World) -> list[str]:
    return [data["periodFrom"] for data in await told(world)]


async def without_statement(world: World) -> int:
    """Return what metrics say of the first environment, on the Sunday."""
    async with world.service.factory.context.database.tenant(world.scope, readonly=True) as connection:
        found = await CensusStore(connection).open_rows(today=date(2026, 3, 15))
    return int(found["without_statement"])


async def test_each_missing_statement_is_told_once_from_when_it_was_due(world: World, clock: Clock) -> None:
    account = await both(world)
    await both(world, identifier="till", statementEvery=None)
    clock(MONDAY)
    assert await announcer(world).announce() == 0
    # That of Monday has until noon of Tuesday, in both environments.
    clock(MONDAY + timedelta(days=1) - timedelta(seconds=1))
    assert await announcer(world).announce() == 0
    clock(MONDAY + timedelta(days=1))
    assert [await announcer(world).announce() for _ in range(3)] == [2, 0, 0]
    assert await told(world) == [
        {
            "accountId": account,
            "identifier": IBAN,
            "currency": "EUR",
            "statementEvery": "day",
            "periodFrom": "2026-03-09",
            "periodTo": "2026-03-09",
            "dueAt": "2026-03-10T12:00:00Z",
            "latestStatementOn": None,
        }
    ]
    audit = await world.sql(
        "SELECT DISTINCT actor, resource_id::text AS id FROM audit_record WHERE action = %s", ACTION
    )
    assert audit == [{"actor": "statement-notice", "id": account}]
    # Those of Tuesday and Wednesday come as one, a day late; nobody works on Saturday and Sunday.
    await came(world, 9)
    clock(MONDAY + timedelta(days=6))
    assert await announcer(world).announce() == 3 + 1
    assert await days_told(world) == ["2026-03-09", "2026-03-12"]
    clock(MONDAY + timedelta(days=7))
    assert await announcer(world).announce() == 2
    assert await days_told(world) == ["2026-03-09", "2026-03-12", "2026-03-13"]
    assert (await told(world))[-1]["latestStatementOn"] == "2026-03-11"
    # What comes afterwards takes nothing back, and is nothing to be told of.
    assert await without_statement(world) == 1
    await came(world, 11)
    assert await without_statement(world) == 0
    clock(MONDAY + timedelta(days=8))
    assert await announcer(world).announce() == 2
    assert (await days_told(world))[-1] == "2026-03-16"


async def test_weeks_and_months_have_one_statement_each(world: World, clock: Clock) -> None:
    await both(world, statementEvery="month")
    await both(world, identifier="weekly", statementEvery="week")
    clock(datetime(2026, 4, 1, 11, tzinfo=UTC))
    assert await announcer(world).announce() == 2 * 3
    await came(world, 28)
    # Friday is the last business day of that week; the month's statement has come, here.
    clock(datetime(2026, 4, 6, 12, tzinfo=UTC))
    assert await announcer(world).announce() == 1 + 2
    assert [(data["identifier"], data["periodFrom"], data["periodTo"]) for data in await told(world)] == [
        ("weekly", "2026-03-09", "2026-03-15"),
        ("weekly", "2026-03-16", "2026-03-22"),
        ("weekly", "2026-03-23", "2026-03-29"),
        ("weekly", "2026-03-30", "2026-04-05"),
    ]


async def test_when_a_day_is_over_the_tenants_timezone_says(world: World, clock: Clock) -> None:
    await both(world, statementDueAfterHours=0)
    zones = {world.tenant.id: "Pacific/Auckland", world.bystander.id: "Pacific/Honolulu"}
    for tenant_id, zone in zones.items():
        await in_control(
            world.service, "UPDATE tenant SET settings = jsonb_build_object('timezone', %s::text) WHERE id = %s",
            zone, tenant_id,
        )  # fmt: skip
    # Monday is over in Auckland at eleven in the morning, and in Honolulu 23 hours later.
    clock(MONDAY)
    assert await announcer(world).announce() == 1
    assert await days_told(world) == ["2026-03-09"]
    clock(MONDAY + timedelta(hours=22))
    assert await announcer(world).announce() == 1


async def test_a_holiday_of_the_tenants_country_is_no_business_day(world: World, clock: Clock) -> None:
    await both(world)
    await came(world, 30)
    path = f"/tenants/{world.tenant.id}/settings"
    patched = await world.tenant.request("PATCH", path, json={"businessCalendar": "DE"})
    assert patched.status_code == 200, patched.text
    # That of Thursday has until noon of the Tuesday after Easter.
    await world.sql("UPDATE account SET statements_from = '2026-04-02'")
    clock(datetime(2026, 4, 7, 11, tzinfo=UTC))
    await announcer(world).announce()
    assert await told(world) == []
    clock(datetime(2026, 4, 7, 12, tzinfo=UTC))
    await announcer(world).announce()
    assert [data["dueAt"] for data in await told(world)] == ["2026-04-07T12:00:00Z"]
    clock(datetime(2026, 4, 8, 12, tzinfo=UTC))
    await announcer(world).announce()
    assert await days_told(world) == ["2026-04-02", "2026-04-07"]


async def test_statements_are_waited_for_from_when_somebody_says_so(world: World, clock: Clock) -> None:
    path = f"/accounts/{await both(world)}"
    today = datetime.now(UTC).date()
    for every in (None, "week", "day"):
        patched = await world.tenant.request("PATCH", path, json={"statementEvery": every, "name": f"{every}"})
        assert patched.status_code == 200, patched.text
        clock(datetime.now(UTC))
        await announcer(world).announce()
        # Nothing of the time before is told, whatever the rhythm was.
        assert await told(world) == []
    clock(datetime.now(UTC) + timedelta(days=7))
    await announcer(world).announce()
    days = await days_told(world)
    assert 4 <= len(days) <= 6
    assert days[0] >= str(today)


async def test_after_a_long_silence_the_latest_are_told_of(world: World, clock: Clock) -> None:
    await both(world)
    clock(MONDAY + timedelta(days=700))
    assert [await announcer(world).announce() for _ in range(2)] == [62, 0]
    clock(MONDAY + timedelta(days=701))
    assert await announcer(world).announce() == 2
    assert await days_told(world) == sorted(set(await days_told(world)))


async def test_what_is_announced_at_the_same_time_is_announced_once(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.statement_notices.ACCOUNTS_WATCHED_AT_ONCE", 2)
    for number in range(5):
        await both(world, identifier=f"till {number}")
    clock(MONDAY + timedelta(days=2))
    assert sum(await asyncio.gather(*(announcer(world).announce() for _ in range(4)))) == 2 * 5 * 2
    assert len(await told(world)) == 10


async def test_what_could_not_be_written_is_announced_the_next_time(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await both(world)
    clock(MONDAY + timedelta(days=1))
    finish = ChangeStore.finish

    async def fail(store: ChangeStore, *given: Any, **more: Any) -> None:
        await finish(store, *given, **more)
        raise RuntimeError("as if the process had died before the commit")

    with monkeypatch.context() as patch:
        patch.setattr(ChangeStore, "finish", fail)
        assert await announcer(world).announce() == 0
    assert await told(world) == []
    # A suspended tenant is told when it is open again.
    await in_control(world.service, "UPDATE tenant SET status = 'suspended' WHERE id = %s", world.tenant.id)
    assert await announcer(world).announce() == 1
    await in_control(world.service, "UPDATE tenant SET status = 'active' WHERE id = %s", world.tenant.id)
    assert await announcer(world).announce() == 1
    assert await days_told(world) == [SINCE]


async def test_the_task_runs_in_a_worker(world: World) -> None:
    await both(world)
    app = create_app(url=direct_url(world.service.factory.context.config))
    assert app.tasks["announce_missing_statements"].queue == QUEUE
    async with app.open_async():
        await app.tasks["announce_missing_statements"].defer_async(timestamp=0)

    async def announced() -> bool | None:
        return len(await told(world)) > 0 or None

    worker = asyncio.create_task(run_worker(world.service.factory))
    await until(announced)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
