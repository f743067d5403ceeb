"""What is overdue is told once for each item, on the tenant's own day, whatever crashes or runs beside it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from payrec.jobs.app import QUEUE, create_app
from payrec.jobs.worker import run_worker
from payrec.services.overdue_notices import ACTION, OverdueNoticeService
from payrec.storage.changes import ChangeStore
from support.events import TOLD
from support.matching_world import World
from support.service import direct_url
from support.wire import in_control, until

pytestmark = pytest.mark.anyio

TODAY = datetime(2026, 3, 10, 12, tzinfo=UTC)


class FixedClock:
    """Stands still; the monotonic one as well."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at

    def monotonic(self) -> float:
        return 0.0


def at(world: World, instant: datetime = TODAY) -> OverdueNoticeService:
    """Return the service at an instant."""
    work = world.service.factory.work
    return OverdueNoticeService(
        work=type(work)(database=work.database, clock=FixedClock(instant), ids=work.ids, blobs=work.blobs)
    )


async def told(world: World, *ids: str) -> list[int]:
    """Return of each item how often it was announced in the first environment."""
    query = f"SELECT resource_id::text AS id FROM {TOLD} WHERE type = %s"  # noqa: S608 - our own text
    found = [row["id"] for row in await world.sql(query, ACTION)]
    return [found.count(one) for one in ids]


async def test_each_item_is_told_once_from_the_day_after_it_was_due(world: World) -> None:
    late = await world.expect(dueDate="2026-03-09")
    on_the_day = await world.expect(dueDate="2026-03-10")
    by_period = await world.expect(dueDate=None, expectedFrom="2026-02-01", expectedTo="2026-03-01")
    without = await world.expect(dueDate=None)
    # In both tenants' environments.
    assert await at(world).announce() == 4
    assert await at(world).announce() == 0
    assert await told(world, late, on_the_day, by_period, without) == [1, 0, 1, 0]
    assert await at(world, TODAY + timedelta(days=1)).announce() == 2
    assert await told(world, late, on_the_day, by_period, without) == [1, 1, 1, 0]
    audit = await world.sql("SELECT DISTINCT actor FROM audit_record WHERE action = %s", ACTION)
    assert audit == [{"actor": "overdue-notice"}]


async def test_which_day_it_is_the_tenants_timezone_says(world: World) -> None:
    item = await world.expect(dueDate="2026-03-10")
    zones = {world.tenant.id: "Pacific/Auckland", world.bystander.id: "Pacific/Honolulu"}
    for tenant_id, zone in zones.items():
        await in_control(
            world.service, "UPDATE tenant SET settings = jsonb_build_object('timezone', %s::text) WHERE id = %s",
            zone, tenant_id,
        )  # fmt: skip
    # It is the 11th in Auckland, and the 10th in Honolulu until ten in the morning of the next day.
    assert await at(world, TODAY).announce() == 1
    assert await told(world, item) == [1]
    assert await at(world, TODAY + timedelta(hours=21)).announce() == 0
    assert await at(world, TODAY + timedelta(hours=23)).announce() == 1


async def test_what_is_settled_is_not_overdue(world: World) -> None:
    paid = await world.expect(dueDate="2026-03-01", reference="INV-2026-001")
    await world.sql("DELETE FROM expected_open")
    assert await at(world).announce() == 1
    assert await told(world, paid) == [0]


async def patched(world: World, item: str, **fields: Any) -> None:
    answer = await world.tenant.request("PATCH", f"/expected-transactions/{item}", json=fields)
    assert answer.status_code == 200, answer.text


async def test_what_is_due_later_after_all_is_told_when_it_is_overdue_again(world: World) -> None:
    moved = await world.expect(dueDate="2026-03-01")
    by_period = await world.expect(dueDate=None, expectedTo="2026-03-01")
    late = await world.expect(dueDate="2026-03-01")
    void = await world.expect(dueDate="2026-03-09")
    ids = (moved, by_period, late, void)
    await world.tenant.post(f"/expected-transactions/{void}/void", {"reason": "a mistake"})
    assert await at(world).announce() == 7
    assert await told(world, *ids) == [1, 1, 1, 0]
    # The same dates, others that are over as well, and others that are not.
    await patched(world, late, dueDate="2026-03-02", expectedTo="2999-01-01")
    await patched(world, moved, dueDate="2999-01-10", description="by agreement")
    await patched(world, by_period, expectedTo="2999-01-20")
    assert await at(world).announce() == 0
    assert await at(world, TODAY.replace(year=2999, month=1, day=15)).announce() == 1
    assert await told(world, *ids) == [2, 1, 1, 0]
    assert await at(world, TODAY.replace(year=2999, month=1, day=25)).announce() == 1
    assert await told(world, *ids) == [2, 2, 1, 0]


async def test_what_somebody_changes_at_the_moment_is_left_for_the_next_time(world: World) -> None:
    item = await world.expect(dueDate="2026-03-01")
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute("UPDATE expected_open SET due_day = due_day + 100000")
        # That of the other tenant alone.
        assert await at(world).announce() == 1
    assert await at(world).announce() == 0
    assert await told(world, item) == [0]


async def test_what_is_announced_at_the_same_time_is_announced_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.overdue_notices.OVERDUE_TOLD_AT_ONCE", 2)
    items = [await world.expect(dueDate="2026-03-01") for _ in range(5)]
    assert sum(await asyncio.gather(*(at(world).announce() for _ in range(4)))) == 10
    assert await told(world, *items) == [1] * 5


async def test_what_could_not_be_written_is_announced_the_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = await world.expect(dueDate="2026-03-01")
    finish = ChangeStore.finish

    async def fail(store: ChangeStore, *given: Any, **more: Any) -> None:
        await finish(store, *given, **more)
        raise RuntimeError("as if the process had died before the commit")

    with monkeypatch.context() as patch:
        patch.setattr(ChangeStore, "finish", fail)
        assert await at(world).announce() == 0
    assert await told(world, item) == [0]
    assert await at(world).announce() == 2
    assert await told(world, item) == [1]


async def test_a_suspended_tenant_is_told_when_it_is_open_again(world: World) -> None:
    item = await world.expect(dueDate="2026-03-01")
    await in_control(world.service, "UPDATE tenant SET status = 'suspended' WHERE id = %s", world.tenant.id)
    assert await at(world).announce() == 1
    await in_control(world.service, "UPDATE tenant SET status = 'active' WHERE id = %s", world.tenant.id)
    assert await told(world, item) == [0]
    assert await at(world).announce() == 1


async def test_the_task_runs_in_a_worker(world: World) -> None:
    item = await world.expect(dueDate="2026-03-01")
    app = create_app(url=direct_url(world.service.factory.context.config))
    assert ("announce_overdue", "4,34 * * * *") in {
        (p.task.name, p.cron) for p in app.periodic_registry.periodic_tasks.values()
    }
    assert app.tasks["announce_overdue"].queue == QUEUE
    async with app.open_async():
        await app.tasks["announce_overdue"].defer_async(timestamp=0)

    async def announced() -> bool | None:
        return await told(world, item) == [1] or None

    worker = asyncio.create_task(run_worker(world.service.factory))
    await until(announced)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
