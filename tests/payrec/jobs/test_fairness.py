"""One worker, several tenants: nobody's jobs wait for all of somebody else's, and together they fit its memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest

from payrec.constants.jobs import JOB_BYTES_FIXED
from payrec.constants.sources import SYNC_BYTES_HELD
from payrec.domain.scope import TenantScope
from payrec.jobs.admission import PLACES_MAX, PROCESS_BYTES
from payrec.jobs.runner import JobRunner
from payrec.jobs.worker import run_worker
from payrec.services.exports import ExportService
from payrec.services.import_processing import ImportProcessor
from payrec.services.job_sizes import JobSize, Lane, size_of
from payrec.services.source_sync import SourceSyncer
from payrec.storage.jobs import JobStore
from support.attempts import queue
from support.matching_world import DEADLINE_SECONDS
from support.postgres import EmbeddedPostgres, cloned
from support.service import Service, make_config, running
from support.tenant_data import scope_of_tenant

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
ENVIRONMENTS = ("development", "staging", "production", "test")
FAIR_SECONDS = 2.0
"""What somebody else's jobs may delay one's own by."""


class Jobs:
    """Jobs that last until they are let go, of the size that their params say, and what was seen of them."""

    def __init__(self, service: Service) -> None:
        self.context = service.factory.context
        self.begun: list[tuple[UUID, UUID]] = []
        self.at_once: Counter[UUID] = Counter()
        self.most_bytes = 0
        self.held = asyncio.Event()
        self._bytes = 0

    async def do(self, _caller: Any, scope: TenantScope, job: dict[str, Any], _progress: Any) -> None:
        """Do one, in place of its service."""
        params = job["params"]
        large = params["bytes"] if not params.get("small") else 0
        self.begun.append((scope.tenant_id, job["id"]))
        self.at_once[scope.tenant_id] += 1
        self._bytes += large
        self.most_bytes = max(self.most_bytes, self._bytes)
        try:
            if params.get("held"):
                await self.held.wait()
            async with self.context.database.tenant(scope) as connection:
                now = self.context.clock.now()
                assert await JobStore(connection).finish(job["id"], attempt=job["attempts"], now=now, result={})
        finally:
            self._bytes -= large
            self.at_once[scope.tenant_id] -= 1

    async def queue(self, scope: TenantScope, kind: str = "import", **params: Any) -> UUID:
        """Queue one: ``bytes``, ``small``, ``held``."""
        return await queue(self.context, scope, kind, **{"bytes": JOB_BYTES_FIXED, **params})

    async def ended(self, scope: TenantScope, job_id: UUID) -> None:
        """Wait until a job has succeeded."""

        async def succeeded() -> bool:
            async with self.context.database.tenant(scope, readonly=True) as connection:
                job = await JobStore(connection).get(job_id)
            return job is not None and job["status"] == "succeeded"

        await self.until(succeeded)

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait for something."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DEADLINE_SECONDS
        while not await true():
            assert loop.time() < end, f"never; begun: {len(self.begun)}"
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as made:
            yield made


@pytest.fixture(scope="module")
async def scopes(service: Service) -> list[list[TenantScope]]:
    """Return the environments of some tenants."""
    found = []
    for slug in ("acme", "globex", "initech"):
        tenant = await service.tenant(slug)
        found.append([await scope_of_tenant(service.factory, tenant, name) for name in ENVIRONMENTS])
    return found


@pytest.fixture
async def jobs(
    service: Service, scopes: list[list[TenantScope]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Jobs]:
    made = Jobs(service)
    for scope in (scope for environments in scopes for scope in environments):
        async with made.context.database.tenant(scope) as connection:
            await connection.execute("DELETE FROM job")
    async with made.context.database.provisioning(search_path="jobs") as connection:
        await connection.execute("DELETE FROM procrastinate_jobs")

    async def as_told(connection: Any, job: dict[str, Any]) -> JobSize:
        if job["kind"] == "sync":
            return await size_of(connection, job)
        return JobSize(
            memory_bytes=job["params"]["bytes"], lane=Lane.SMALL if job["params"].get("small") else Lane.LARGE
        )

    monkeypatch.setattr(ImportProcessor, "process_job", made.do)
    monkeypatch.setattr(ExportService, "run", made.do)
    monkeypatch.setattr(SourceSyncer, "run", made.do)
    monkeypatch.setattr("payrec.jobs.runner.size_of", as_told)
    yield made
    made.held.set()


@pytest.fixture
async def worker(service: Service, jobs: Jobs) -> AsyncIterator[None]:
    """Run a worker that has 1 GiB for large jobs, and looks for what comes later in time for a test."""
    beside = PLACES_MAX // 2 * JOB_BYTES_FIXED + PLACES_MAX * SYNC_BYTES_HELD
    memory = int((1024 * MIB + PROCESS_BYTES + beside) / 0.8) + 1
    ready = asyncio.Event()
    working = asyncio.create_task(
        run_worker(service.factory, ready=ready, memory_bytes=memory, polling_seconds=0.3, grace_seconds=0.1)
    )
    await ready.wait()
    yield
    jobs.held.set()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


@pytest.mark.usefixtures("worker")
async def test_a_tenant_whose_long_jobs_fill_all_its_environments_does_not_delay_another(
    jobs: Jobs, scopes: list[list[TenantScope]]
) -> None:
    busy, other, _ = scopes
    for _ in range(3):
        for scope in busy:
            for kind in ("import", "export"):
                await jobs.queue(scope, kind, held=True)
                await jobs.queue(scope, kind, held=True, small=True)

    async def is_full() -> bool:
        return jobs.at_once[busy[0].tenant_id] >= 2

    await jobs.until(is_full)
    loop = asyncio.get_running_loop()
    for kind, small in (("import", False), ("export", False), ("import", True)):
        began = loop.time()
        await jobs.ended(other[0], await jobs.queue(other[0], kind, small=small))
        assert loop.time() - began < FAIR_SECONDS
    assert jobs.at_once[busy[0].tenant_id] <= PLACES_MAX // 2
    jobs.held.set()


@pytest.mark.usefixtures("worker")
async def test_servers_that_do_not_answer_keep_nobody_s_runs_and_syncs_waiting(
    jobs: Jobs, scopes: list[list[TenantScope]]
) -> None:
    *slow, other = scopes
    for scope in (scope for environments in slow for scope in environments):
        await jobs.queue(scope, "sync", held=True)

    async def are_full() -> bool:
        return [jobs.at_once[environments[0].tenant_id] for environments in slow] == [2, 2]

    await jobs.until(are_full)
    loop = asyncio.get_running_loop()
    for kind, of in (("export", slow[0]), ("import", slow[1]), ("export", other), ("sync", other)):
        began = loop.time()
        await jobs.ended(of[0], await jobs.queue(of[0], kind))
        assert loop.time() - began < FAIR_SECONDS
    jobs.held.set()


async def test_between_two_jobs_of_a_long_queue_others_have_their_turn(
    jobs: Jobs, scopes: list[list[TenantScope]], service: Service
) -> None:
    busy, other, _ = (environments[2] for environments in scopes)
    database = service.factory.context.database
    mine = [await jobs.queue(busy, small=True) for _ in range(3)]
    # As if a worker had taken the wake-up; the other tenant's comes after it.
    async with database.provisioning(search_path="jobs") as connection:
        await connection.execute("DELETE FROM procrastinate_jobs")
    await jobs.queue(other, small=True)
    runner = JobRunner(service.factory)
    await runner.drain(busy.environment_id, "import", seconds=0)
    assert [job_id for _, job_id in jobs.begun] == mine[:1]
    async with database.provisioning(search_path="jobs") as connection:
        cursor = await connection.execute(
            "SELECT args ->> 'environment_id' AS who FROM procrastinate_jobs WHERE scheduled_at IS NULL ORDER BY id"
        )
        waiting = [row["who"] for row in await cursor.fetchall()]
    assert waiting == [str(other.environment_id), str(busy.environment_id)]
    await runner.drain(busy.environment_id, "import")
    await runner.drain(other.environment_id, "import")
    assert [job_id for _, job_id in jobs.begun[:3]] == mine


@pytest.mark.usefixtures("worker")
async def test_runs_that_do_not_fit_together_queue_and_small_ones_pass(
    jobs: Jobs, scopes: list[list[TenantScope]], service: Service
) -> None:
    metrics = service.factory.context.metrics.registry

    def sample(name: str, **labels: str) -> float:
        return metrics.get_sample_value(name, labels) or 0.0

    large = [(scope, await jobs.queue(scope, bytes=700 * MIB, held=True)) for tenant in scopes for scope in tenant[:2]]

    async def others_wait() -> bool:
        return sample("payrec_worker_jobs", kind="import", state="held") == len(large) - 1

    await jobs.until(others_wait)
    assert sample("payrec_worker_jobs", kind="import", state="running") == 1
    assert sample("payrec_worker_memory_bytes", state="admitted") == 700 * MIB
    assert sample("payrec_worker_memory_bytes", state="budget") == pytest.approx(1024 * MIB, abs=2)
    for tenant in scopes:
        await jobs.ended(tenant[3], await jobs.queue(tenant[3], "export", small=True))
    assert len(jobs.begun) == 1 + len(scopes)
    jobs.held.set()
    for scope, job_id in large:
        await jobs.ended(scope, job_id)
    assert jobs.most_bytes == 700 * MIB


@pytest.mark.usefixtures("worker")
async def test_a_job_larger_than_all_the_memory_runs_alone(jobs: Jobs, scopes: list[list[TenantScope]]) -> None:
    first, huge, last = (tenant[0] for tenant in scopes)
    done = [(first, await jobs.queue(first, bytes=300 * MIB, held=True))]

    async def runs() -> bool:
        return bool(jobs.begun)

    await jobs.until(runs)
    done += [(huge, await jobs.queue(huge, bytes=5000 * MIB)), (last, await jobs.queue(last, bytes=300 * MIB))]
    jobs.held.set()
    for scope, job_id in done:
        await jobs.ended(scope, job_id)
    assert jobs.most_bytes == 5000 * MIB
