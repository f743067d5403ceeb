"""Leases: a job belongs to whoever renews it, and an attempt that has lost its lease writes nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import structlog

from payrec.domain.progress import Progress
from payrec.errors import UnavailableError
from payrec.jobs.runner import JobRunner
from payrec.services.import_processing import ImportProcessor
from payrec.services.matching import STEPS, MatchingService
from payrec.storage.jobs import Ended, JobStore
from support.attempts import DUE, LAPSE, Pause, drain, queued_run
from support.matching_world import TABLES, World

pytestmark = pytest.mark.anyio

RECORD = {"amount": "5.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}


@pytest.fixture
def world(payable: World) -> World:
    return payable


async def test_a_run_that_lost_its_lease_writes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await queued_run(world)
    pause = Pause(monkeypatch, MatchingService, "_commit")
    slow = drain(world)
    await pause.reached.wait()
    await world.sql(LAPSE)
    await drain(world)
    job = await world.job(job_id)
    assert (job["status"], job["attempts"]) == ("succeeded", 2)
    before = await world.digest(*TABLES)
    with structlog.testing.capture_logs() as lines:
        pause.go_on.set()
        await slow
    assert await world.digest(*TABLES) == before
    assert [x["status"] for x in lines if x["event"] == "job.finished"] == ["lost"]
    assert len(await world.matches()) == 1


async def test_without_the_fence_both_attempts_would_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await queued_run(world)
    pause = Pause(monkeypatch, MatchingService, "_commit")
    slow = drain(world)
    await pause.reached.wait()
    await world.sql(LAPSE)
    await drain(world)
    before = await world.digest("change")

    async def always(*_given: Any, **_more: Any) -> Ended:
        return Ended(repeat_requested=False)

    monkeypatch.setattr(JobStore, "finish", always)
    pause.go_on.set()
    await slow
    assert await world.digest("change") != before


async def test_an_import_that_lost_its_lease_writes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
    upload = (await world.tenant.post("/incoming-transactions/upload", [RECORD])).json()
    pause = Pause(monkeypatch, ImportProcessor, "_load")
    slow = drain(world, "import")
    await pause.reached.wait()
    await world.sql(LAPSE)
    await drain(world, "import")
    assert (await world.job(upload["jobId"]))["attempts"] == 2
    before = await world.digest(*TABLES)
    pause.go_on.set()
    await slow
    assert await world.digest(*TABLES) == before
    assert await world.sql("SELECT accepted FROM import") == [{"accepted": 1}]


async def test_a_request_whose_upload_a_worker_has_taken_over_names_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause(monkeypatch, ImportProcessor, "_load")
    asking = asyncio.create_task(world.tenant.post("/incoming-transactions/upload", [RECORD]))
    await pause.reached.wait()
    await world.sql(LAPSE)
    await drain(world, "import")
    pause.go_on.set()
    answer = await asking
    assert (answer.status_code, answer.json()["status"]) == (202, "processing")
    assert (await world.job(answer.json()["jobId"]))["status"] == "succeeded"
    assert len(await world.sql("SELECT 1 FROM incoming_transaction")) == 2


async def test_a_lease_is_renewed_for_as_long_as_the_job_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await queued_run(world)
    pause = Pause(monkeypatch, MatchingService, "_commit")
    slow = drain(world, lease=0.3)
    await pause.reached.wait()
    [first] = await world.sql("SELECT lease_until FROM job")
    while (await world.sql("SELECT lease_until FROM job"))[0]["lease_until"] <= first["lease_until"] + timedelta(
        seconds=0.6
    ):
        # Twice the lease has gone by, and nobody else gets the job.
        await drain(world)
    job = await world.job(job_id)
    assert (job["status"], job["attempts"]) == ("running", 1)
    assert job["progress"] == {"done": STEPS - 2, "total": STEPS}
    pause.go_on.set()
    await slow
    assert (await world.job(job_id))["status"] == "succeeded"


async def test_an_attempt_that_lost_its_lease_ends_nothing_of_the_next_one_that_still_runs(world: World) -> None:
    job_id = UUID(await queued_run(world))
    now = world.service.factory.context.clock.now()
    door = world.service.factory.context.database.tenant
    async with door(world.scope) as connection:
        assert await JobStore(connection).claim(job_id, now=now) is not None
    await world.sql(LAPSE)
    async with door(world.scope) as connection:
        store = JobStore(connection)
        second = await store.claim(job_id, now=now)
        assert second is not None
        assert not await store.finish(job_id, attempt=1, now=now)
        assert not await store.give_back(job_id, attempt=1, now=now)
        assert not await store.renew(job_id, attempt=1, lease=timedelta(minutes=1), progress=Progress())
        assert await store.finish(job_id, attempt=second["attempts"], now=now)


async def test_two_workers_never_do_the_same_job(world: World) -> None:
    job_id = await queued_run(world)
    await asyncio.gather(*(drain(world) for _ in range(6)))
    job = await world.job(job_id)
    assert (job["status"], job["attempts"]) == ("succeeded", 1)


async def test_taking_a_job_asks_for_a_look_after_its_lease_in_the_same_transaction(world: World) -> None:
    job_id = await queued_run(world)
    runner = JobRunner(world.service.factory, lease=timedelta(seconds=15))
    taken = await runner._claim(world.scope, "match")
    assert taken is not None
    assert taken.job is not None
    assert taken.job["id"] == UUID(job_id)
    async with world.service.factory.context.database.provisioning(search_path="jobs") as connection:
        cursor = await connection.execute(
            "SELECT extract(epoch FROM scheduled_at - now()) AS seconds FROM procrastinate_jobs"
            " WHERE queueing_lock = %s",
            (f"{world.scope.environment_id}:match:later",),
        )
        rows = await cursor.fetchall()
    assert len(rows) == 1
    assert 10 < rows[0]["seconds"] <= 17


async def test_a_database_that_does_not_answer_fails_no_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await queued_run(world)
    calls = 0
    read = MatchingService._read

    async def gone(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise UnavailableError("no connection")
        return await read(*given)

    monkeypatch.setattr(MatchingService, "_read", gone)
    await drain(world)
    assert (await world.job(job_id))["status"] == "queued"
    await world.sql(DUE)
    await drain(world)
    assert (await world.job(job_id))["status"] == "succeeded"


async def test_a_wake_up_waits_for_a_database_that_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)
    monkeypatch.setattr("payrec.jobs.runner.UNAVAILABLE_SECONDS", 0.01)
    claim = JobRunner._claim
    refusals = 2

    async def refusing(*given: Any, **more: Any) -> Any:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise UnavailableError("no connection")
        return await claim(*given, **more)

    async def no_queue(*_given: Any) -> None:
        raise UnavailableError("no connection")

    monkeypatch.setattr(JobRunner, "_claim", refusing)
    monkeypatch.setattr(JobRunner, "_wake", no_queue)
    await drain(world)
    assert (await world.job(job_id))["status"] == "succeeded"


async def test_a_wake_up_of_an_environment_that_is_not_there_for_long_lets_others_go_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)
    monkeypatch.setattr("payrec.jobs.runner.UNAVAILABLE_SECONDS", 0.01)
    woken = list[tuple[UUID, str]]()

    async def behind(*_given: Any, **_more: Any) -> Any:
        raise UnavailableError("the environment has not been migrated to this version yet")

    async def noted(_self: JobRunner, *wanted: Any) -> None:
        woken.append(wanted)

    with monkeypatch.context() as unmigrated:
        unmigrated.setattr(JobRunner, "_claim", behind)
        unmigrated.setattr(JobRunner, "_wake", noted)
        await drain(world)
    assert woken == [(world.scope.environment_id, "match")]
    assert (await world.job(job_id))["status"] == "queued"
    await drain(world)
    assert (await world.job(job_id))["status"] == "succeeded"


async def test_an_import_that_is_given_up_is_failed_with_its_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)

    async def crash(*_given: Any, **_more: Any) -> None:
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(ImportProcessor, "process", crash)
    monkeypatch.setattr("payrec.jobs.runner.retry_delay", lambda *_given, **_more: timedelta())
    upload = (await world.tenant.post("/incoming-transactions/upload", [RECORD])).json()
    await drain(world, "import")
    job = await world.job(upload["jobId"])
    found = (await world.tenant.get(f"/imports/{upload['id']}")).json()
    assert (job["status"], found["status"]) == ("failed", "failed")
    assert found["error"]["code"] == job["error"]["code"] == "internal_error"
    assert await world.sql("SELECT 1 FROM blob_chunk") == []
    monkeypatch.undo()
    again = await world.tenant.post("/incoming-transactions/upload", [RECORD])
    assert (again.status_code, again.json()["id"] != upload["id"]) == (201, True)
