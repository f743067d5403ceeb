"""Workers that die: what they were doing is done by another one, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self
from uuid import UUID

import pytest
from procrastinate import App

from payrec.embedded.postgres import EmbeddedPostgres
from payrec.jobs.app import PERIODIC, QUEUE, create_app
from payrec.jobs.worker import _give_away, _rescue
from payrec.services.imports import INLINE_BYTES_MAX
from payrec.services.ingestion import PIECE_ROWS
from support.events import TOLD
from support.matching_world import DEADLINE_SECONDS, World, matching_world
from support.places import look
from support.postgres import cloned
from support.service import direct_url, make_config, running
from support.worker_process import worker_process

pytestmark = pytest.mark.anyio

LARGE_ROWS = 3 * PIECE_ROWS + 1
QUICK = {"lease": 1.5, "heartbeat_seconds": 0.3, "stalled_seconds": 1.0, "polling_seconds": 0.3}
RECORD = {"amount": "5.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}


@pytest.fixture(scope="module")
async def idle(postgres: EmbeddedPostgres) -> AsyncIterator[tuple[World, str]]:
    """Return a world without any worker, and the address of its database for the superuser."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as service:
            acme, globex = await service.tenant("acme"), await service.tenant("globex")
            async with matching_world(service, acme, globex) as made:
                yield made, database.superuser_url


async def until(true: Callable[[], Awaitable[bool]], what: str) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE_SECONDS
    while not await true():
        assert loop.time() < end, f"never: {what}"
        await asyncio.sleep(0.02)


async def test_what_a_killed_worker_was_doing_is_done_once_by_another(
    idle: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, superuser = idle
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
    await world.expect(reference="INV-2026-001")
    await world.receive(remittance="INV-2026-001")
    other = await world.bystander.post("/incoming-transactions/upload", [RECORD])
    config = world.service.factory.context.config
    database = world.service.factory.context.database

    async def blocked() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return (await look(superuser, query)) == [(2,)]

    async def elsewhere_done() -> bool:
        return (await world.bystander.get(f"/jobs/{other.json()['jobId']}")).json()["status"] == "succeeded"

    async with worker_process(config, **QUICK) as first:
        await until(elsewhere_done, "the other tenant's job ends")
        before = (await world.bystander.get(f"/jobs/{other.json()['jobId']}")).json()
        async with database.tenant(world.scope) as connection:
            # Both jobs get as far as writing, and no further.
            await connection.execute("LOCK TABLE match, incoming_transaction IN EXCLUSIVE MODE")
            run = (await world.tenant.post("/matches/match", {"wait": 0})).json()
            upload = (await world.tenant.post("/incoming-transactions/upload", [RECORD])).json()
            await until(blocked, "both jobs write")
            first.kill()
            await first.wait()
        jobs = [await world.job(job_id) for job_id in (run["jobId"], upload["jobId"])]
        assert [(j["status"], j["attempts"]) for j in jobs] == [("running", 1)] * 2
        assert await world.matches() == []
    async with worker_process(config, **QUICK):
        jobs = [await world.ended(job_id) for job_id in (run["jobId"], upload["jobId"])]
        assert [(j["status"], j["attempts"]) for j in jobs] == [("succeeded", 2)] * 2
        assert (await world.bystander.get(f"/jobs/{other.json()['jobId']}")).json() == before

        async def all_woken() -> bool:
            return await look(superuser, "SELECT * FROM jobs.procrastinate_jobs WHERE status = 'doing'") == []

        # The end kills the worker, whatever it does.
        await until(all_woken, "no wake-up is under way")
    assert len(await world.matches()) == 1
    found = (await world.tenant.get(f"/imports/{upload['id']}")).json()
    assert (found["status"], found["counts"]["accepted"]) == ("completed", 1)
    ends = await world.sql(f"SELECT count(*) AS n FROM {TOLD} WHERE type IN ('job.succeeded', 'import.completed')")  # noqa: S608
    assert ends == [{"n": 3}]
    assert (await world.tenant.get(found["contentUrl"])).status_code == 200


@pytest.mark.parametrize(
    ("table", "done"), [("incoming_open", 0), ("statement", LARGE_ROWS)], ids=["first piece", "after the last piece"]
)
async def test_a_large_import_whose_worker_is_killed_is_done_once_by_another(
    idle: tuple[World, str], table: str, done: int
) -> None:
    world, superuser = idle
    await world.clean()
    config = world.service.factory.context.config
    lines = [f"2026-03-01;{n}.00;EUR;Invoice {n}" for n in range(1, LARGE_ROWS + 1)]
    # Beyond what a request reads itself.
    padding = ";" + "x" * (INLINE_BYTES_MAX // LARGE_ROWS)
    data = "\n".join(["Booking date;Amount;Currency;Remittance;Note", *(line + padding for line in lines)]).encode()

    async def waiting() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return (await look(superuser, query)) == [(1,)]

    async def shown() -> bool:
        return (await world.job(upload["jobId"]))["progress"]["done"] >= done

    async with worker_process(config, **QUICK) as first:
        async with world.service.factory.context.database.tenant(world.scope) as connection:
            await connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE".encode())
            answer = await world.tenant.post("/incoming-transactions/upload", files={"file": ("bank.csv", data)})
            upload = answer.json()
            await until(waiting, "the import gets as far as the table")
            await until(shown, "its progress is shown")
            first.kill()
            await first.wait()
        job = await world.job(upload["jobId"])
        assert (answer.status_code, job["status"], job["attempts"]) == (202, "running", 1)
    assert await world.sql("SELECT 1 FROM incoming_transaction LIMIT 1") == []
    async with worker_process(config, **QUICK):
        ended = await world.ended(upload["jobId"])
    assert (ended["status"], ended["attempts"], ended["result"]["accepted"]) == ("succeeded", 2, LARGE_ROWS)
    assert ended["progress"] == {"done": LARGE_ROWS, "total": LARGE_ROWS}
    for counted in ("incoming_transaction", "incoming_open"):
        assert await world.sql(f"SELECT count(*) AS n FROM {counted}") == [{"n": LARGE_ROWS}]  # noqa: S608 - our own names
    again = await world.tenant.post("/incoming-transactions/upload", files={"file": ("bank.csv", data)})
    assert (again.status_code, again.json()["id"]) == (200, upload["id"])
    assert (await world.bystander.get("/incoming-transactions")).json()["data"] == []


async def test_an_upload_whose_process_died_is_finished_by_a_worker(
    idle: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = idle
    await world.clean()
    for module in ("payrec.services.imports", "payrec.storage.jobs"):
        monkeypatch.setattr(f"{module}.INLINE_LEASE", timedelta(seconds=0.2))

    async def vanish(*_given: object, **_more: object) -> None:
        raise KeyError("as if the process had died: nothing is written any more")

    monkeypatch.setattr("payrec.services.import_processing.ImportProcessor.process", vanish)
    answer = await world.tenant.post("/incoming-transactions/upload", [RECORD])
    assert answer.status_code == 500
    [job] = (await world.tenant.get("/jobs")).json()["data"]
    assert (job["status"], job["attempts"]) == ("running", 1)
    monkeypatch.undo()
    async with worker_process(world.service.factory.context.config, **QUICK):
        ended = await world.ended(job["id"])
    assert (ended["status"], ended["attempts"]) == ("succeeded", 2)
    [found] = (await world.tenant.get("/imports")).json()["data"]
    assert (found["status"], found["counts"]["accepted"]) == ("completed", 1)
    assert len((await world.tenant.get("/incoming-transactions")).json()["data"]) == 1


class TwoHoursAhead(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(hours=2)


async def test_the_wake_ups_of_dead_workers_are_given_away_all_of_them_and_at_once_whatever_the_clock_says(
    idle: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.jobs.worker.datetime", TwoHoursAhead)
    monkeypatch.setattr("procrastinate.utils.utcnow", lambda: TwoHoursAhead.now(UTC))
    world, superuser = idle
    app: App = create_app(url=direct_url(world.service.factory.context.config))
    async with app.open_async():
        await look(
            superuser,
            """
            SET search_path = jobs;
            WITH dead AS (
                INSERT INTO jobs.procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour') RETURNING id
            ), waiting AS (
                INSERT INTO jobs.procrastinate_jobs (queue_name, task_name, queueing_lock, status)
                VALUES ('payrec', 'drain', 'a', 'todo'), ('elsewhere', 'drain', 'z', 'todo')
            )
            INSERT INTO jobs.procrastinate_jobs (queue_name, task_name, queueing_lock, status, worker_id)
            SELECT 'payrec', 'drain', name, 'doing', dead.id FROM dead, unnest(ARRAY['a', 'b', 'c']) AS name
            """,
        )

        async def given_away() -> bool:
            query = (
                "SELECT queueing_lock, status::text, coalesce(scheduled_at <= now(), TRUE)"
                " FROM jobs.procrastinate_jobs WHERE queueing_lock IN ('a', 'b', 'c')"
            )
            return set(await look(superuser, query)) == {(name, "todo", True) for name in "abc"}

        rescuer = asyncio.create_task(_rescue(app, every=0.05, stalled_seconds=1.0))
        try:
            await until(given_away, "the living have them")
        finally:
            rescuer.cancel()
            with pytest.raises(asyncio.CancelledError):
                await rescuer
    await look(superuser, "SET search_path = jobs; DELETE FROM procrastinate_jobs")


async def test_who_was_taken_for_dead_and_was_not_takes_no_wake_up_from_who_has_it_then(
    idle: tuple[World, str],
) -> None:
    world, superuser = idle
    app = create_app(url=direct_url(world.service.factory.context.config))
    begun: list[UUID] = []
    may_end = asyncio.Event()

    class Slow:
        async def drain(self, environment_id: UUID, *_given: object, **_more: object) -> None:
            begun.append(environment_id)
            await may_end.wait()

    async def has_begun(times: int) -> bool:
        return begun == [world.scope.environment_id] * times

    async with app.open_async():
        environment_id = world.scope.environment_id
        await look(superuser, f"SELECT control.enqueue('{environment_id}', 'match')")
        working = asyncio.create_task(
            app.run_worker_async(
                queues=[QUEUE],
                concurrency=1,
                delete_jobs="always",
                install_signal_handlers=False,
                fetch_job_polling_interval=0.1,
                additional_context={"runner": Slow(), **dict.fromkeys(PERIODIC, idly)},
            )
        )
        try:
            await until(lambda: has_begun(1), "it begins")
            [job] = await app.job_manager.list_jobs_async(queue=QUEUE, status="doing")
            await _give_away(app, job)
            may_end.set()
            await until(lambda: has_begun(2), "who has it then begins")
            await until(lambda: nothing_waits(superuser), "it is deleted in the end")
        finally:
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working


async def idly() -> None:
    """Do what the clock's tasks do here."""


async def nothing_waits(superuser: str) -> bool:
    return await look(superuser, "SELECT count(*) FROM jobs.procrastinate_jobs WHERE task_name = 'drain'") == [(0,)]
