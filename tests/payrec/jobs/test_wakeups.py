"""Wake-ups: none is lost, whatever a worker does while somebody enqueues, and none is later than it was asked for."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.jobs.worker import run_worker
from payrec.services.import_processing import ImportProcessor
from payrec.storage.jobs import JobStore
from support.matching_world import DEADLINE_SECONDS, World, matching_world
from support.postgres import cloned
from support.service import make_config, running
from support.wire import until

pytestmark = pytest.mark.anyio

JOBS_AT_ONCE = 40
ENQUEUE = "SELECT control.enqueue(%s, 'match', make_interval(secs => %s))"
FETCH = "SELECT (jobs.procrastinate_fetch_job_v2(ARRAY['payrec'], NULL)).id"
Connection = psycopg.AsyncConnection[Any]


async def connect(database: EmbeddedDatabase, *, autocommit: bool = False) -> Connection:
    connection = await psycopg.AsyncConnection.connect(database.superuser_url, autocommit=autocommit)
    await connection.execute("SET search_path = jobs")
    if not autocommit:
        await connection.commit()
    return connection


async def value(connection: Connection, query: str, *parameters: object) -> Any:
    cursor = await connection.execute(query.encode(), parameters or None)
    row = await cursor.fetchone()
    return row[0] if row is not None else None


@pytest.fixture
async def enqueuer(database: EmbeddedDatabase) -> AsyncIterator[Connection]:
    async with await connect(database) as connection:
        yield connection


@pytest.fixture
async def worker(database: EmbeddedDatabase) -> AsyncIterator[Connection]:
    async with await connect(database, autocommit=True) as connection:
        yield connection


async def test_a_worker_cannot_take_a_wake_up_before_those_who_rely_on_it_have_committed(
    enqueuer: Connection, worker: Connection
) -> None:
    environment = uuid4()
    await worker.execute(ENQUEUE.encode(), (environment, 0))
    # The enqueuer has a job to be done, finds the wake-up waiting, and has not committed yet.
    await enqueuer.execute(ENQUEUE.encode(), (environment, 0))
    assert await value(worker, FETCH) is None
    await enqueuer.commit()
    assert await value(worker, FETCH) is not None


async def test_without_the_lock_the_wake_up_would_be_gone_before_the_job_can_be_seen(
    enqueuer: Connection, worker: Connection
) -> None:
    text = importlib.import_module("payrec.migrations.control.versions.0001_first").ENQUEUE
    unlocked = text.replace(" FOR NO KEY UPDATE", "").replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    assert unlocked != text
    await worker.execute(unlocked.encode())
    environment = uuid4()
    await worker.execute(ENQUEUE.encode(), (environment, 0))
    await enqueuer.execute(ENQUEUE.encode(), (environment, 0))
    assert await value(worker, FETCH) is not None


async def test_who_relies_on_a_waiting_wake_up_tells_the_workers_again_when_it_commits(
    enqueuer: Connection, worker: Connection
) -> None:
    environment = uuid4()
    await worker.execute(ENQUEUE.encode(), (environment, 0))
    await worker.execute(b'LISTEN "procrastinate_queue_v1#payrec"')
    await enqueuer.execute(ENQUEUE.encode(), (environment, 0))
    assert [n async for n in worker.notifies(timeout=0)] == []
    await enqueuer.commit()
    assert len([n async for n in worker.notifies(timeout=DEADLINE_SECONDS, stop_after=1)]) == 1


async def test_a_wake_up_that_is_being_done_does_not_stand_in_the_way_of_the_next(worker: Connection) -> None:
    environment = uuid4()
    await worker.execute(ENQUEUE.encode(), (environment, 0))
    assert await value(worker, FETCH) is not None
    await worker.execute(ENQUEUE.encode(), (environment, 0))
    assert await value(worker, FETCH) is not None


async def test_many_who_enqueue_the_same_leave_one_wake_up(database: EmbeddedDatabase, worker: Connection) -> None:
    environment = uuid4()

    async def enqueue(seconds: int) -> None:
        async with await connect(database, autocommit=True) as connection:
            await connection.execute(ENQUEUE.encode(), (environment, seconds))

    await asyncio.gather(*(enqueue(seconds) for seconds in (0, 30) for _ in range(10)))
    cursor = await worker.execute(b"SELECT queueing_lock FROM procrastinate_jobs ORDER BY 1")
    found = [row[0] for row in await cursor.fetchall()]
    assert found == [f"{environment}:match", f"{environment}:match:later"]


@pytest.mark.parametrize("order", [(60, 5), (5, 60), (60, 5, 60)])
async def test_of_wake_ups_for_later_the_earliest_counts(worker: Connection, order: tuple[int, ...]) -> None:
    environment = uuid4()
    for seconds in order:
        await worker.execute(ENQUEUE.encode(), (environment, seconds))
    left = await value(worker, "SELECT extract(epoch FROM min(scheduled_at) - now()) FROM procrastinate_jobs")
    assert 3 < left <= 5
    assert await value(worker, "SELECT count(*) FROM procrastinate_jobs") == 1
    assert await value(worker, FETCH) is None


@pytest.fixture
async def world(postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Return a world whose worker does jobs that do nothing, and which never looks without being told."""

    async def nothing(
        processor: ImportProcessor, _caller: Any, scope: Any, job: dict[str, Any], _progress: Any
    ) -> None:
        async with processor._work.database.tenant(scope) as connection:
            assert await JobStore(connection).finish(
                job["id"], attempt=job["attempts"], now=processor._work.clock.now(), result={}
            )

    monkeypatch.setattr(ImportProcessor, "process_job", nothing)
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as service:
            acme, globex = await service.tenant("acme"), await service.tenant("globex")
            ready = asyncio.Event()
            working = asyncio.create_task(run_worker(service.factory, ready=ready, polling_seconds=3600))
            await ready.wait()
            async with matching_world(service, acme, globex) as made:
                yield made
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working


def queued(world: World, job_id: UUID) -> dict[str, Any]:
    """Return a job that waits for a worker."""
    now = world.service.factory.context.clock.now()
    return {
        "id": job_id,
        "created_at": now,
        "updated_at": now,
        "kind": "import",
        "status": "queued",
        "actor": "user:test",
        "request_id": "test",
        "params": {},
    }


async def add(world: World, scope: TenantScope) -> UUID:
    """Add a job of which nobody is told."""
    context = world.service.factory.context
    job_id = context.ids.new()
    async with context.database.tenant(scope) as connection:
        await JobStore(connection).add(queued(world, job_id))
    return job_id


async def test_what_nobody_was_told_of_is_found_by_the_clock(world: World) -> None:
    waiting = world.service.factory.upkeep.create_waiting_service()

    async def nothing_waits() -> bool | None:
        return await waiting.tell_again() == 0 or None

    await until(nothing_waits)
    job_id = await add(world, world.scope)
    event = (
        "INSERT INTO outbox (change_id, ordinal, type, resource_ids) VALUES (%s, 1, 'job.failed', ARRAY[%s]::uuid[])"
    )
    await world.sql(event, job_id, job_id)
    assert await waiting.tell_again() == 1

    async def is_done() -> bool | None:
        query = "SELECT (SELECT status FROM job) AS status, (SELECT count(*) FROM outbox) AS left"
        return await world.sql(query) == [{"status": "succeeded", "left": 0}] or None

    await until(is_done)
    await until(nothing_waits)


async def test_jobs_that_come_while_a_worker_drains_are_all_done_without_polling(world: World) -> None:
    context = world.service.factory.context

    async def enqueue(number: int, scope: Any) -> UUID:
        await asyncio.sleep(number * 0.005)
        job_id = context.ids.new()
        async with context.database.tenant(scope) as connection:
            store = JobStore(connection)
            await store.add(queued(world, job_id))
            await store.wake(scope.environment_id, "import")
            # The longer it takes to commit, the likelier a worker has looked and seen nothing.
            await asyncio.sleep(number % 4 * 0.004)
        return job_id

    scopes = (world.scope, world.bystander_scope)
    await asyncio.gather(*(enqueue(n, scope) for n in range(JOBS_AT_ONCE) for scope in scopes))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    for scope in scopes:
        waiting = "SELECT count(*) AS n FROM job WHERE status <> 'succeeded' OR attempts <> 1"
        while (left := (await world._sql(scope, waiting))[0]["n"]) > 0:
            assert loop.time() < deadline, f"{left} jobs are not done"
            await asyncio.sleep(0.02)
        assert (await world._sql(scope, "SELECT count(*) AS n FROM job")) == [{"n": JOBS_AT_ONCE}]
