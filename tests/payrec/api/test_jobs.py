"""Jobs over HTTP: started, looked at while they run, and what is left of them when they have ended or failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from payrec.constants.jobs import JOB_ATTEMPTS_MAX
from payrec.errors import PayrecError, UnprocessableError
from payrec.jobs.runner import JobRunner
from payrec.services.matching import STEPS, MatchingService
from payrec.storage.jobs import JobStore
from support.events import TOLD
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.wire import add_user, code

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def jobs(world: World, **parameters: Any) -> list[dict[str, Any]]:
    answer = await world.tenant.get("/jobs", params=parameters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_a_match_job_is_started_and_followed(world: World) -> None:
    await world.expect(reference="INV-2026-001")
    await world.receive(remittance="INV-2026-001")
    answer = await world.tenant.post("/jobs", {"kind": "match", "params": {"dryRun": True}})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["Location"] == f"/jobs/{job['id']}"
    assert (job["kind"], job["status"], job["params"]) == ("match", "queued", {"dryRun": True})
    ended = await world.ended(job["id"])
    assert (ended["status"], ended["attempts"], ended["error"]) == ("succeeded", 1, None)
    assert ended["result"]["counts"]["proposed"] == 1
    assert ended["createdAt"] <= ended["startedAt"] <= ended["finishedAt"]
    assert ended["progress"] == {"done": STEPS, "total": STEPS}
    assert ended["version"] > job["version"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"kind": "import"}, "/kind"),
        ({"kind": "dance"}, "/kind"),
        ({}, "/kind"),
        ({"kind": "match", "params": {"incomingFilter": {"no": 1}}}, "/params/incomingFilter/no"),
        ({"kind": "match", "params": {"incomingFilter": {"amountMin": "1.00"}}}, "/params/incomingFilter/amountMin"),
        ({"kind": "match", "params": {"speed": 11}}, "/params/speed"),
    ],
)
async def test_what_cannot_be_started_is_refused_where_it_is_wrong(
    world: World, body: dict[str, Any], pointer: str
) -> None:
    answer = await world.tenant.post("/jobs", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert await jobs(world) == []


async def test_a_second_match_job_is_refused_while_one_is_active(world: World) -> None:
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await connection.execute("LOCK TABLE match IN EXCLUSIVE MODE")
        first = (await world.tenant.post("/jobs", {"kind": "match"})).json()
        second = await world.tenant.post("/jobs", {"kind": "match"})
        assert (second.status_code, second.json()["code"]) == (409, "match_run_in_progress")
        assert second.json()["jobId"] == first["id"]
    await world.ended(first["id"])


async def test_jobs_are_listed_newest_first_and_filtered(world: World) -> None:
    run = await world.run()
    await world.upload([{"amount": "5.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}])
    listed = await jobs(world)
    assert [j["kind"] for j in listed] == ["import", "match"]
    assert [j["id"] for j in await jobs(world, kind="match")] == [run["jobId"]]
    assert len(await jobs(world, status="succeeded")) == 2
    assert await jobs(world, status="failed") == []
    assert [j["id"] for j in await jobs(world, createdTo=listed[1]["createdAt"])] == [run["jobId"]]


async def test_another_tenants_job_is_not_found(world: World) -> None:
    run = await world.run()
    for tenant, environment in ((world.bystander, "production"), (world.tenant, "test")):
        answer = await tenant.get(f"/jobs/{run['jobId']}", environment=environment)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await world.tenant.get("/jobs/nope")).status_code == 404


@pytest.mark.parametrize(
    ("kind", "role", "status"),
    [
        ("erasure", "approver", 403),
        ("erasure", "admin", 202),
        ("redeliver", "approver", 403),
        ("redeliver", "admin", 202),
        ("match", "operator", 202),
    ],
)
async def test_who_may_not_start_a_job_may_not_cancel_it(world: World, kind: str, role: str, status: int) -> None:
    [running] = await world.sql(
        """INSERT INTO job (id, created_at, updated_at, kind, status, actor, request_id, lease_until, attempts)
        VALUES (gen_random_uuid(), now(), now(), %s, 'running', 'test', 'test', now() + interval '1 hour', 1)
        RETURNING id, version""",
        kind,
    )
    _, somebody = await add_user(world.service, world.tenant, role)
    answer = await somebody.post(f"/jobs/{running['id']}/cancel")
    assert answer.status_code == status, answer.text
    assert status == 202 or code(answer) == "insufficient_permission"
    left = (await world.tenant.get(f"/jobs/{running['id']}")).json()["version"]
    assert (left > running["version"]) == (status == 202)


async def test_a_job_that_is_refused_ends_failed_with_its_problem(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> None:
        raise UnprocessableError("it cannot be done")

    monkeypatch.setattr(MatchingService, "_read", refuse)
    answer = await world.tenant.post("/matches/match", {"wait": 10})
    run = answer.json()
    assert (answer.status_code, run["status"]) == (200, "failed")
    job = await world.job(run["jobId"])
    assert job["error"]["code"] == run["error"]["code"] == "validation_failed"
    assert job["error"]["requestId"] == answer.headers["X-Request-Id"]
    assert (job["attempts"], job["result"]) == (1, None)
    assert job["finishedAt"] is not None
    [outbox] = await world.sql(f"SELECT type FROM {TOLD} WHERE type LIKE 'job.%%'")  # noqa: S608
    assert outbox == {"type": "job.failed"}
    monkeypatch.undo()
    await world.run()


async def test_a_job_that_crashes_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.expect(reference="INV-2026-001")
    await world.receive(remittance="INV-2026-001")
    read = MatchingService._read
    crashes = 2

    async def crash(*given: Any) -> Any:
        nonlocal crashes
        if crashes:
            crashes -= 1
            raise ValueError("a defect of ours")
        return await read(*given)

    monkeypatch.setattr(MatchingService, "_read", crash)
    monkeypatch.setattr("payrec.jobs.runner.retry_delay", lambda *_given, **_more: timedelta())
    job_id = await queued(world)
    runner = JobRunner(world.service.factory)
    await runner.drain(world.scope.environment_id, "match")
    # The service's own worker may do a later attempt.
    job = await world.ended(job_id)
    assert (job["status"], job["attempts"], job["error"]) == ("succeeded", 3, None)
    assert len(await world.matches()) == 1


async def test_a_job_that_always_crashes_is_given_up_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crash(*_: Any) -> None:
        raise ValueError("a defect of ours")

    monkeypatch.setattr(MatchingService, "_read", crash)
    monkeypatch.setattr("payrec.jobs.runner.retry_delay", lambda *_given, **_more: timedelta())
    job_id = await queued(world)
    runner = JobRunner(world.service.factory)
    await runner.drain(world.scope.environment_id, "match")
    # The service's own worker may do a later attempt.
    job = await world.ended(job_id)
    assert (job["status"], job["attempts"], job["nextAttemptAt"]) == ("failed", JOB_ATTEMPTS_MAX, None)
    assert job["error"]["code"] == PayrecError.code
    assert "a defect" not in str(job)
    monkeypatch.undo()
    assert (await world.run())["counts"]["proposed"] == 0


async def queued(world: World) -> str:
    """Queue a run of which no worker is told."""
    [row] = await world.sql(
        "INSERT INTO job (id, created_at, updated_at, kind, status, actor, request_id)"
        " VALUES (gen_random_uuid(), now(), now(), 'match', 'queued', 'user:test', 'test') RETURNING id"
    )
    return str(row["id"])


async def test_no_more_jobs_of_a_kind_wait_than_may(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks again and again is told to wait; who asks for something else, or in another place, is not."""
    hoarder, other = [await service.tenant(slug, environments=["production", "test"]) for slug in ("queuer", "patient")]

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(JobStore, "next", nothing)
    monkeypatch.setattr("payrec.services.queued_jobs.JOBS_QUEUED_MAX", 2)
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)

    async def upload(number: int) -> httpx2.Response:
        line = {"amount": f"{number}.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}
        return await hoarder.post("/incoming-transactions/upload", [line])

    async def export(_: int) -> httpx2.Response:
        return await hoarder.post(
            "/jobs", {"kind": "export", "params": {"resource": "jobs", "filter": {"sort": "-createdAt"}}}
        )

    for ask, path in ((upload, "/imports"), (export, "/jobs?kind=export")):
        told = [await ask(number) for number in range(1, 4)]
        assert [answer.status_code for answer in told] == [202, 202, 429]
        assert (code(told[2]), told[2].headers["retry-after"]) == ("rate_limited", "30")
        assert "2 jobs of the kind" in told[2].json()["detail"]
        # What was refused is not there, and what is there already is told of as ever.
        assert len((await hoarder.get(path)).json()["data"]) == 2
    assert [(await upload(number)).status_code for number in (1, 3)] == [202, 429]
    for tenant, environment in ((hoarder, "test"), (other, "production")):
        answer = await tenant.post("/jobs", {"kind": "export", "params": {"resource": "jobs"}}, environment=environment)
        assert answer.status_code == 202
    assert (await hoarder.post("/jobs", {"kind": "match"})).status_code == 202
    [waiting, _] = (await hoarder.get("/jobs", params={"kind": "import"})).json()["data"]
    assert (await hoarder.post(f"/jobs/{waiting['id']}/cancel")).status_code == 200
    assert (await upload(3)).status_code == 202
