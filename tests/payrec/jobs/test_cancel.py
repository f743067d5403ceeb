"""Cancelling a job: it ends as cancelled or as it would have ended, never as both, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from payrec.errors import UnprocessableError
from payrec.jobs.runner import JobRunner
from payrec.services.import_processing import ImportProcessor
from payrec.services.ingestion import Ingestion
from payrec.services.matching import MatchingService
from payrec.storage.jobs import JobStore
from payrec.storage.pieces import Stamp
from support.attempts import LAPSE, Pause, drain, events_of, queued_run
from support.matching_world import World

pytestmark = pytest.mark.anyio

RECORD = {"amount": "5.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}
ROUNDS = 20


@pytest.fixture
def world(payable: World) -> World:
    return payable


async def queued_import(world: World, monkeypatch: pytest.MonkeyPatch, *records: dict[str, Any]) -> dict[str, Any]:
    """Upload what a worker has to read."""
    with monkeypatch.context() as patch:
        patch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
        answer = await world.tenant.post("/incoming-transactions/upload", list(records) or [RECORD])
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def cancel(world: World, job_id: str, **headers: str) -> tuple[int, dict[str, Any]]:
    answer = await world.tenant.post(f"/jobs/{job_id}/cancel", headers=headers)
    return answer.status_code, answer.json()


async def nothing_imported(world: World, upload: dict[str, Any]) -> None:
    """See that nothing is left of an upload but that it was cancelled."""
    found = (await world.tenant.get(f"/imports/{upload['id']}")).json()
    assert (found["status"], found["error"]["code"], found["counts"]["accepted"]) == ("failed", "cancelled", 0)
    assert await world.sql("SELECT 1 FROM blob_chunk") == []
    assert len(await world.sql("SELECT 1 FROM incoming_transaction")) == 1
    assert await events_of(world, upload["id"]) == ["import.failed"]
    assert await events_of(world, upload["jobId"]) == ["job.cancelled"]


async def test_a_waiting_run_is_cancelled_at_once(world: World) -> None:
    job_id = await queued_run(world)
    status, job = await cancel(world, job_id)
    assert (status, job["status"], job["error"], job["startedAt"]) == (200, "cancelled", None, None)
    assert job["finishedAt"] is not None
    assert await cancel(world, job_id) == (200, job)
    await drain(world)
    assert await world.job(job_id) == job
    assert await events_of(world, job_id) == ["job.cancelled"]
    assert await world.matches() == []
    run_id = await queued_run(world)
    await drain(world)
    assert (await world.job(run_id))["status"] == "succeeded"


async def test_a_waiting_import_is_cancelled_with_its_file_and_can_be_uploaded_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = await queued_import(world, monkeypatch)
    status, job = await cancel(world, upload["jobId"])
    assert (status, job["status"]) == (200, "cancelled")
    await drain(world, "import")
    await nothing_imported(world, upload)
    again = await world.tenant.post("/incoming-transactions/upload", [RECORD])
    assert (again.status_code, again.json()["counts"]["accepted"]) == (201, 1)


async def test_a_running_run_stops_when_its_lease_would_be_renewed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await queued_run(world)
    pause = Pause(monkeypatch, MatchingService, "_read")
    told = asyncio.Event()
    committing: list[bool] = []
    renew, commit = JobStore.renew, MatchingService._commit

    async def committed(*given: Any, **more: Any) -> Any:
        committing.append(True)
        return await commit(*given, **more)

    monkeypatch.setattr(MatchingService, "_commit", committed)

    async def renewed(*given: Any, **more: Any) -> bool:
        kept = await renew(*given, **more)
        if not kept:
            # The runner writes it down as soon as this returns.
            asyncio.get_running_loop().call_later(0.05, told.set)
        return kept

    monkeypatch.setattr(JobStore, "renew", renewed)
    working = drain(world, lease=0.5)
    await pause.reached.wait()
    status, job = await cancel(world, job_id)
    assert (status, job["status"], job["finishedAt"]) == (202, "running", None)
    assert await cancel(world, job_id) == (202, job)
    await told.wait()
    pause.go_on.set()
    await working
    job = await world.job(job_id)
    assert not committing
    assert (job["status"], job["attempts"], job["result"], job["error"]) == ("cancelled", 1, None, None)
    assert await world.matches() == []
    assert await events_of(world, job_id) == ["job.cancelled"]
    assert await cancel(world, job_id) == (200, job)


async def test_a_running_import_stops_between_two_pieces(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.ingestion.PIECE_ROWS", 1)
    records = [{**RECORD, "externalId": f"P-{n}"} for n in range(50)]
    upload = await queued_import(world, monkeypatch, *records)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    renew, pieces = JobStore.renew, Ingestion.pieces
    asked, read = asyncio.Event(), 0

    async def renewed(*given: Any, **more: Any) -> bool:
        if not (kept := await renew(*given, **more)):
            loop.call_later(0.05, told.set)
        return kept

    def held(ingestion: Ingestion, stamp: Stamp) -> Any:
        nonlocal read
        for piece in pieces(ingestion, stamp):
            read += 1
            if read == 10:
                loop.call_soon_threadsafe(asked.set)
                asyncio.run_coroutine_threadsafe(told.wait(), loop).result(30)
            yield piece

    monkeypatch.setattr(JobStore, "renew", renewed)
    monkeypatch.setattr(Ingestion, "pieces", held)
    working = drain(world, "import", lease=0.5)
    await asked.wait()
    assert (await cancel(world, upload["jobId"]))[0] == 202
    await working
    assert read < 15
    await nothing_imported(world, upload)


@pytest.mark.parametrize("kind", ["match", "import"])
async def test_whoever_does_not_see_the_request_in_time_cannot_finish(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    upload = await queued_import(world, monkeypatch)
    job_id = await queued_run(world) if kind == "match" else upload["jobId"]
    owner, name = (MatchingService, "_commit") if kind == "match" else (ImportProcessor, "_load")
    pause = Pause(monkeypatch, owner, name)
    working = drain(world, kind)
    await pause.reached.wait()
    assert (await cancel(world, job_id))[0] == 202
    pause.go_on.set()
    await working
    assert (await world.job(job_id))["status"] == "cancelled"
    assert await events_of(world, job_id) == ["job.cancelled"]
    if kind == "import":
        await nothing_imported(world, upload)
    else:
        assert await world.matches() == []


async def test_a_job_that_fails_after_it_was_cancelled_is_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = await queued_import(world, monkeypatch)

    async def refuse(*_given: Any, **_more: Any) -> None:
        assert (await cancel(world, upload["jobId"]))[0] == 202
        raise UnprocessableError("it cannot be done")

    monkeypatch.setattr(ImportProcessor, "_load", refuse)
    await drain(world, "import")
    assert (await world.job(upload["jobId"]))["status"] == "cancelled"
    await nothing_imported(world, upload)


async def test_a_job_whose_worker_died_before_it_could_stop_is_cancelled_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = await queued_import(world, monkeypatch)
    runner = JobRunner(world.service.factory)
    taken = await runner._claim(world.scope, "import")
    assert taken is not None
    assert taken.job is not None
    assert taken.job["id"] == UUID(upload["jobId"])
    assert (await cancel(world, upload["jobId"]))[0] == 202
    await world.sql(LAPSE)
    await drain(world, "import")
    job = await world.job(upload["jobId"])
    assert (job["status"], job["attempts"]) == ("cancelled", 2)
    await nothing_imported(world, upload)


async def test_an_upload_that_its_own_request_reads_can_be_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause(monkeypatch, ImportProcessor, "_load")
    asking = asyncio.create_task(world.tenant.post("/incoming-transactions/upload", [RECORD]))
    await pause.reached.wait()
    [row] = await world.sql("SELECT id FROM job WHERE kind = 'import'")
    assert (await cancel(world, str(row["id"])))[0] == 202
    pause.go_on.set()
    answer = await asking
    assert answer.status_code == 202
    assert (await world.job(str(row["id"])))["status"] == "cancelled"
    await nothing_imported(world, answer.json())


async def test_what_has_ended_cannot_be_cancelled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await queued_run(world)
    await drain(world)
    before = await world.job(job_id)
    status, refusal = await cancel(world, job_id)
    assert (status, refusal["code"]) == (409, "invalid_state")

    async def refuse(*_given: Any, **_more: Any) -> None:
        raise UnprocessableError("it cannot be done")

    monkeypatch.setattr(MatchingService, "_read", refuse)
    failed_id = await queued_run(world)
    await drain(world)
    status, refusal = await cancel(world, failed_id)
    assert (status, refusal["code"]) == (409, "invalid_state")
    assert await world.job(job_id) == before
    assert await events_of(world, failed_id) == ["job.failed"]


async def test_only_the_jobs_of_the_own_environment_and_version_are_cancelled(world: World) -> None:
    job_id = await queued_run(world)
    for tenant, environment in ((world.bystander, "production"), (world.tenant, "test")):
        answer = await tenant.post(f"/jobs/{job_id}/cancel", environment=environment)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await cancel(world, "nope"))[0] == 404
    job = await world.job(job_id)
    status, refusal = await cancel(world, job_id, **{"If-Match": f'"{job["version"] + 1}"'})
    assert (status, refusal["code"]) == (412, "version_mismatch")
    assert await world.job(job_id) == job
    status, found = await cancel(world, job_id, **{"If-Match": f'"{job["version"]}"'})
    assert (status, found["status"]) == (200, "cancelled")


async def test_cancelling_again_with_the_same_key_is_answered_from_memory(world: World) -> None:
    job_id = await queued_run(world)
    headers = {"Idempotency-Key": "stop"}
    first = await world.tenant.post(f"/jobs/{job_id}/cancel", headers=headers)
    again = await world.tenant.post(f"/jobs/{job_id}/cancel", headers=headers)
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert await events_of(world, job_id) == ["job.cancelled"]


@pytest.mark.parametrize("kind", ["match", "import"])
async def test_of_cancelling_and_finishing_at_once_exactly_one_wins(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    outcomes = []
    for n in range(ROUNDS):
        upload = await queued_import(world, monkeypatch, {**RECORD, "externalId": f"P-{n}"})
        job_id = await queued_run(world) if kind == "match" else upload["jobId"]
        owner, name = (MatchingService, "_commit") if kind == "match" else (ImportProcessor, "_load")
        with monkeypatch.context() as patch:
            pause = Pause(patch, owner, name)
            working = drain(world, kind)
            await pause.reached.wait()
            pause.go_on.set()
            # A little later each time, from before the commit to after it.
            await asyncio.wait([working], timeout=0.004 * n if n < ROUNDS - 1 else None)
            answers = await asyncio.gather(*(cancel(world, job_id) for _ in range(2)))
            await working
        job = await world.job(job_id)
        [event] = await events_of(world, job_id)
        outcomes.append(job["status"])
        assert event == f"job.{job['status']}"
        if job["status"] == "succeeded":
            assert [(status, body["code"]) for status, body in answers] == [(409, "invalid_state")] * 2
            assert job["result"] is not None
        else:
            assert job["status"] == "cancelled"
            assert {status for status, _ in answers} <= {200, 202}
            assert job["result"] is None
        if kind == "import":
            found = (await world.tenant.get(f"/imports/{upload['id']}")).json()
            stored = await world.sql("SELECT 1 FROM incoming_transaction WHERE external_id = %s", f"P-{n}")
            is_done = job["status"] == "succeeded"
            assert (found["status"], len(stored)) == (("completed", 1) if is_done else ("failed", 0))
        else:
            runs = await world.sql(
                "SELECT 1 FROM audit_record WHERE resource_id = %s AND action = %s", job_id, "match_run.committed"
            )
            assert len(runs) == (job["status"] == "succeeded")
    assert set(outcomes) == {"succeeded", "cancelled"}
