"""What fails is tried again, visibly and later each time; what is interrupted is somebody else's at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from payrec.constants.jobs import JOB_ATTEMPTS_MAX, JOB_RETRY_DELAY_FIRST
from payrec.errors import UnavailableError
from payrec.jobs.runner import JobRunner
from payrec.jobs.worker import run_worker
from payrec.services.import_processing import ImportProcessor
from payrec.services.matching import MatchingService
from support.attempts import DUE, LAPSE, Pause, drain, events_of, queued_run
from support.matching_world import DEADLINE_SECONDS, TABLES, World

pytestmark = pytest.mark.anyio

RECORD = {"amount": "5.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}


@pytest.fixture
def world(payable: World) -> World:
    return payable


def crashing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def crash(*_given: Any, **_more: Any) -> None:
        raise error

    monkeypatch.setattr(MatchingService, "_read", crash)


async def test_what_has_failed_waits_says_until_when_and_is_done_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)
    before = await world.digest("match", "leg", "allocation", "outbox")
    with monkeypatch.context() as patch:
        crashing(patch, ValueError("a defect of ours"))
        runner = JobRunner(world.service.factory, drawn=lambda: 1.0)
        earliest = datetime.now(UTC) + JOB_RETRY_DELAY_FIRST
        await runner.drain(world.scope.environment_id, "match")
    job = await world.job(job_id)
    assert (job["status"], job["attempts"], job["error"], job["finishedAt"]) == ("queued", 1, None, None)
    due = datetime.fromisoformat(job["nextAttemptAt"])
    assert earliest - timedelta(seconds=1) <= due <= earliest + timedelta(seconds=10)
    assert await world.digest("match", "leg", "allocation", "outbox") == before
    async with world.service.factory.context.database.provisioning(search_path="jobs") as connection:
        cursor = await connection.execute(
            "SELECT min(scheduled_at) AS at FROM procrastinate_jobs WHERE queueing_lock = %s",
            (f"{world.scope.environment_id}:match:later",),
        )
        [wake_up] = await cursor.fetchall()
    assert abs(wake_up["at"] - due) < timedelta(seconds=5)
    await world.sql("UPDATE job SET next_attempt_at = statement_timestamp() + interval '1 hour'")
    await drain(world)
    assert (await world.job(job_id))["attempts"] == 1
    # It is still the one run of the environment.
    assert (await world.tenant.post("/matches/match", {"wait": 0})).json()["code"] == "match_run_in_progress"
    await world.sql(DUE)
    await drain(world)
    job = await world.job(job_id)
    assert (job["status"], job["attempts"], job["nextAttemptAt"]) == ("succeeded", 2, None)
    assert len(await world.matches()) == 1


@pytest.mark.parametrize(
    ("error", "code"), [(ValueError("a defect"), "internal_error"), (UnavailableError("gone"), "service_unavailable")]
)
async def test_what_always_fails_is_failed_with_its_problem(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    crashing(monkeypatch, error)
    job_id = await queued_run(world)
    for attempt in range(1, JOB_ATTEMPTS_MAX + 1):
        assert (await world.job(job_id))["status"] == "queued"
        await world.sql(DUE)
        await drain(world)
        assert (await world.job(job_id))["attempts"] == attempt
    [dead] = (await world.tenant.get("/jobs", params={"status": "failed"})).json()["data"]
    assert (dead["id"], dead["error"]["code"], dead["nextAttemptAt"]) == (job_id, code, None)
    await world.sql(DUE)
    await drain(world)
    assert await world.job(job_id) == dead
    assert await events_of(world, job_id) == ["job.failed"]
    assert (await world.bystander.get("/jobs", params={"status": "failed"})).json()["data"] == []


async def test_a_job_whose_workers_die_one_after_the_other_is_failed(world: World) -> None:
    job_id = await queued_run(world)
    await world.sql("UPDATE job SET status = 'running', attempts = %s", JOB_ATTEMPTS_MAX)
    await world.sql(LAPSE)
    await drain(world)
    job = await world.job(job_id)
    assert (job["status"], job["error"]["code"]) == ("failed", "internal_error")


async def test_a_job_that_is_cancelled_before_it_fails_is_not_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)

    async def crash(*_given: Any, **_more: Any) -> None:
        assert (await world.tenant.post(f"/jobs/{job_id}/cancel")).status_code == 202
        raise ValueError("a defect of ours")

    monkeypatch.setattr(MatchingService, "_read", crash)
    await drain(world)
    job = await world.job(job_id)
    assert (job["status"], job["nextAttemptAt"]) == ("cancelled", None)


async def test_a_job_that_waits_for_its_next_attempt_can_be_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashing(monkeypatch, ValueError("a defect of ours"))
    job_id = await queued_run(world)
    await drain(world)
    answer = await world.tenant.post(f"/jobs/{job_id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


async def test_an_attempt_that_has_lost_its_lease_gives_nothing_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def crash(*_given: Any, **_more: Any) -> None:
        reached.set()
        await go_on.wait()
        raise ValueError("a defect of ours")

    with monkeypatch.context() as patch:
        patch.setattr(MatchingService, "_read", crash)
        slow = drain(world)
        await reached.wait()
    await world.sql(LAPSE)
    await drain(world)
    before = await world.digest(*TABLES)
    go_on.set()
    await slow
    assert await world.digest(*TABLES) == before
    assert (await world.job(job_id))["status"] == "succeeded"


@pytest.mark.parametrize("kind", ["match", "import"])
async def test_what_a_worker_that_ends_has_not_done_is_done_by_another_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "match":
        job_id = await queued_run(world)
    else:
        with monkeypatch.context() as patch:
            patch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
            job_id = (await world.tenant.post("/incoming-transactions/upload", [RECORD])).json()["jobId"]
    owner, name = (MatchingService, "_commit") if kind == "match" else (ImportProcessor, "_load")
    with monkeypatch.context() as patch:
        pause = Pause(patch, owner, name)
        ending = asyncio.create_task(run_worker(world.service.factory, grace_seconds=0.1))
        await pause.reached.wait()
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
    job = await world.job(job_id)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    # Long before the lease would have ended, and without any look for what comes later.
    other = asyncio.create_task(run_worker(world.service.factory, polling_seconds=3600, stalled_seconds=3600))
    job = await world.ended(job_id)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    assert (job["status"], job["attempts"]) == ("succeeded", 2)
    assert len(await world.matches()) == (kind == "match")
    assert await events_of(world, job_id) == ["job.succeeded"]


async def test_what_is_over_within_the_grace_is_finished_and_nothing_new_is_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)
    pause = Pause(monkeypatch, MatchingService, "_commit")
    ending = asyncio.create_task(run_worker(world.service.factory, grace_seconds=60))
    await pause.reached.wait()
    ending.cancel()
    await asyncio.sleep(0)
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
    upload = (await world.tenant.post("/incoming-transactions/upload", [RECORD])).json()
    pause.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await ending
    job = await world.job(job_id)
    assert (job["status"], job["attempts"]) == ("succeeded", 1)
    assert (await world.job(upload["jobId"]))["status"] == "queued"


async def test_workers_that_end_take_none_of_its_attempts_from_a_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)
    with monkeypatch.context() as patch:
        for attempt in range(1, JOB_ATTEMPTS_MAX + 2):
            pause = Pause(patch, MatchingService, "_commit")
            ending = drain(world)
            async with asyncio.timeout(DEADLINE_SECONDS):
                await pause.reached.wait()
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending
            assert (await world.job(job_id))["attempts"] == attempt
    crashing(monkeypatch, ValueError("a defect of ours"))
    await drain(world)
    # And the wait for the next one is that of a first failure.
    [row] = await world.sql("SELECT status, next_attempt_at - statement_timestamp() AS left FROM job")
    assert row["status"] == "queued"
    assert row["left"] <= JOB_RETRY_DELAY_FIRST
    monkeypatch.undo()
    await world.sql(DUE)
    await drain(world)
    assert (await world.job(job_id))["status"] == "succeeded"
