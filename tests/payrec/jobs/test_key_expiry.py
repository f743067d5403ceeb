"""Keys that expire soon: each tenant environment is told of its own, once, whatever crashes or runs beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from procrastinate.exceptions import AlreadyEnqueued
from structlog.testing import capture_logs

from payrec.constants import API_KEY_EXPIRY_NOTICE
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.jobs.app import QUEUE, create_app
from payrec.jobs.worker import run_worker
from payrec.services.api_key_expiry import ApiKeyExpiryService
from payrec.storage.api_keys import EveryApiKeyStore
from payrec.storage.control_outbox import ControlOutboxStore
from support.events import told_of
from support.postgres import cloned
from support.service import Service, Tenant, direct_url, make_config, running
from support.wire import add_key, in_control, until

pytestmark = pytest.mark.anyio

TASK = "announce_expiring_keys"
EVENT = "api_key.expiring"
SOON = timedelta(days=3)


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service without a worker: nobody announces but the test."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as started:
            yield started


@pytest.fixture(autouse=True)
async def _clean(service: Service) -> AsyncIterator[None]:
    yield
    await in_control(service, "UPDATE api_key SET revoked_at = now() WHERE revoked_at IS NULL")


def expiry(service: Service) -> ApiKeyExpiryService:
    return service.factory.upkeep.create_api_key_expiry_service()


async def key_for(tenant: Tenant, period: timedelta, environment: str = "production", **given: Any) -> dict[str, Any]:
    """Make a key that expires after a period from now."""
    return await add_key(tenant, environment, expiresAt=(datetime.now(UTC) + period).isoformat(), **given)


async def told(service: Service, tenant: Tenant, *made: dict[str, Any], environment: str = "production") -> list[int]:
    """Return of each key how often its expiry was announced."""
    ids = [event["resource_id"] for event in await told_of(service, tenant, EVENT, environment)]
    return [ids.count(UUID(key["id"])) for key in made]


async def test_each_environment_is_told_of_its_own_keys_once(service: Service, acme: Tenant, globex: Tenant) -> None:
    soon = await key_for(acme, SOON, name="ledger")
    at_the_limit = await key_for(acme, API_KEY_EXPIRY_NOTICE)
    elsewhere = await key_for(acme, SOON, "test")
    theirs = await key_for(globex, timedelta(seconds=90))
    quiet = [await key_for(acme, API_KEY_EXPIRY_NOTICE + timedelta(minutes=5)), await add_key(acme)]
    revoked, expired = await key_for(acme, SOON), await key_for(acme, SOON)
    await acme.request("DELETE", f"/auth/api-keys/{revoked['id']}")
    await in_control(service, "UPDATE api_key SET expires_at = now() WHERE id = %s", expired["id"])

    assert await expiry(service).announce() == 4
    assert await expiry(service).announce() == 0

    assert await told(service, acme, soon, at_the_limit, *quiet, revoked, expired) == [1, 1, 0, 0, 0, 0]
    assert await told(service, acme, elsewhere, soon, environment="test") == [1, 0]
    assert await told(service, globex, theirs, soon) == [1, 0]
    [event] = [e for e in await told_of(service, acme, EVENT) if e["resource_id"] == UUID(soon["id"])]
    assert event["data"] == {"publicId": soon["publicId"], "name": "ledger", "expiresAt": soon["expiresAt"]}
    records = (await globex.get("/audit-log", params={"type": EVENT})).json()["data"]
    assert [(record["actor"], record["resourceId"]) for record in records] == [("key-expiry", theirs["id"])]


async def test_the_task_runs_in_a_worker_and_is_deferred_once_an_hour_for_all(service: Service, acme: Tenant) -> None:
    made = await key_for(acme, SOON)
    config = service.factory.context.config
    app = create_app(url=direct_url(config))
    assert (TASK, "17 * * * *") in {(p.task.name, p.cron) for p in app.periodic_registry.periodic_tasks.values()}
    assert app.tasks[TASK].queue == QUEUE

    async def announced() -> bool | None:
        return await told(service, acme, made) == [1] or None

    async with app.open_async():
        deferred = app.tasks[TASK].configure(task_kwargs={"timestamp": 0})
        for _ in range(3):
            await deferred.job_manager.defer_periodic_job(deferred.job, "", 0)
        # Deferred by three workers for the same hour, and for the next before anybody came to it, it waits once.
        with pytest.raises(AlreadyEnqueued):
            await app.tasks[TASK].defer_async(timestamp=3600)
        waiting = [job for job in await app.job_manager.list_jobs_async(task=TASK) if job.status == "todo"]
        assert [job.task_kwargs for job in waiting] == [{"timestamp": 0}]
    worker = asyncio.create_task(run_worker(service.factory))
    try:
        await until(announced)
    finally:
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker


async def test_a_crash_between_mark_and_event_keeps_neither(
    service: Service, acme: Tenant, globex: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = await key_for(acme, SOON), await key_for(globex, SOON)

    async def crash(*_given: object, **_more: object) -> None:
        raise KeyError("as if the process had died")

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(ControlOutboxStore, "announce", crash)
        assert await expiry(service).announce() == 0
    assert [line["event"] for line in logs] == ["api_key_expiry.not_announced"] * 2
    late = await key_for(acme, SOON)

    assert await expiry(service).announce() == 3
    assert await told(service, acme, mine, late) == [1, 1]
    assert await told(service, globex, theirs) == [1]


async def test_announcers_at_the_same_time_announce_once(
    service: Service, acme: Tenant, globex: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = [await key_for(acme, SOON) for _ in range(3)]
    theirs = [await key_for(globex, SOON) for _ in range(3)]
    everybody = asyncio.Barrier(4)
    reads = EveryApiKeyStore.expiring

    async def together(*given: Any, **more: Any) -> Any:
        found = await reads(*given, **more)
        await everybody.wait()
        return found

    # All four have read the keys, unmarked, before any of them writes.
    monkeypatch.setattr(EveryApiKeyStore, "expiring", together)
    assert sum(await asyncio.gather(*(expiry(service).announce() for _ in range(4)))) == 6
    assert await told(service, acme, *mine) == [1, 1, 1]
    assert await told(service, globex, *theirs) == [1, 1, 1]


async def test_one_environment_that_cannot_be_told_keeps_none_of_the_others_waiting(
    service: Service, acme: Tenant, globex: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = await key_for(acme, SOON), await key_for(globex, SOON + timedelta(minutes=1))
    marks = EveryApiKeyStore.mark_announced

    async def broken(store: EveryApiKeyStore, key_ids: list[UUID], *, at: datetime) -> set[UUID]:
        if UUID(mine["id"]) in key_ids:
            raise KeyError("as if a table were missing")
        return await marks(store, key_ids, at=at)

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(EveryApiKeyStore, "mark_announced", broken)
        assert await expiry(service).announce() == 1
    assert len(logs) == 1
    assert await told(service, acme, mine) == [0]
    assert await told(service, globex, theirs) == [1]
    assert await expiry(service).announce() == 1
    assert await told(service, acme, mine) == [1]


@pytest.mark.parametrize(
    ("table", "condition"), [("tenant", "id = %s"), ("tenant_environment", "tenant_id = %s AND environment = 'test'")]
)
async def test_what_is_suspended_is_told_when_it_is_open_again(service: Service, table: str, condition: str) -> None:
    slug = f"resting-{table.replace('_', '-')}"
    tenant = await service.tenant(slug, environments=["test"])
    made, over = await key_for(tenant, SOON, "test"), await key_for(tenant, SOON, "test")
    await in_control(service, f"UPDATE {table} SET status = 'suspended' WHERE {condition}", tenant.id)  # noqa: S608
    assert await expiry(service).announce() == 0
    await in_control(service, "UPDATE api_key SET expires_at = now() WHERE id = %s", over["id"])
    await in_control(service, f"UPDATE {table} SET status = 'active' WHERE {condition}", tenant.id)  # noqa: S608
    assert await expiry(service).announce() == 1
    assert await told(service, tenant, made, over, environment="test") == [1, 0]


async def test_any_number_of_keys_is_read_in_batches(
    service: Service, acme: Tenant, globex: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.api_key_expiry.API_KEY_EXPIRY_BATCH", 2)
    mine = [await key_for(acme, SOON) for _ in range(5)]
    theirs = [await key_for(globex, SOON) for _ in range(2)]
    # Suspended ones stay in the way of nobody.
    closed = await service.tenant("closed", environments=["test"])
    for _ in range(3):
        await key_for(closed, timedelta(hours=1), "test")
    await in_control(service, "UPDATE tenant SET status = 'suspended' WHERE id = %s", closed.id)
    # The same instant for all: the id decides who is next.
    await in_control(service, "UPDATE api_key SET expires_at = %s WHERE revoked_at IS NULL", datetime.now(UTC) + SOON)

    assert await expiry(service).announce() == 7
    assert await told(service, acme, *mine) == [1] * 5
    assert await told(service, globex, *theirs) == [1] * 2
