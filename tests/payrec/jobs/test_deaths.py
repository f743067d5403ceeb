"""A worker that is killed at any point of a run: another one ends it, and what it does is done once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from support.events import TOLD
from support.matching_world import World, matching_world
from support.postgres import EmbeddedPostgres, cloned
from support.service import make_config, running
from support.worker_process import START_SECONDS, worker_process

pytestmark = pytest.mark.anyio

QUICK = {"lease": 1.5, "heartbeat_seconds": 0.3, "stalled_seconds": 1.0, "polling_seconds": 0.3}
RUNNER, MATCHING, STORE = (
    ("payrec.jobs.runner", "JobRunner"),
    ("payrec.services.matching", "MatchingService"),
    ("payrec.storage.jobs", "JobStore"),
)
POINTS = {
    "found": (*RUNNER, "_next", "after"),
    "claimed, not committed": (*STORE, "claim", "after"),
    "claimed": (*RUNNER, "_claim", "after"),
    "read": (*MATCHING, "_read", "after"),
    "finished, not committed": (*STORE, "finish", "after"),
    "committed": (*MATCHING, "_commit", "after"),
    "job ended, wake-up not": (*RUNNER, "_look_again", "before"),
}


@pytest.fixture(scope="module")
async def made(postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    """Return a world without any worker."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as service:
            acme, globex = await service.tenant("acme"), await service.tenant("globex")
            async with matching_world(service, acme, globex) as world:
                yield world


@pytest.mark.parametrize("point", POINTS)
async def test_a_run_whose_worker_is_killed_anywhere_is_done_once(made: World, point: str) -> None:
    await made.clean()
    async with made.service.factory.context.database.provisioning(search_path="jobs") as connection:
        await connection.execute("DELETE FROM procrastinate_jobs")
    await made.expect(reference="INV-2026-001")
    await made.receive(remittance="INV-2026-001")
    config = made.service.factory.context.config
    async with worker_process(config, dies_at=POINTS[point], **QUICK) as first:
        job_id = str((await made.tenant.post("/matches/match", {"wait": 0})).json()["jobId"])
        assert await asyncio.wait_for(first.wait(), START_SECONDS) == -signal.SIGKILL
    job = await made.job(job_id)
    is_done = point in {"committed", "job ended, wake-up not"}
    assert (job["status"] == "succeeded") == is_done
    async with worker_process(config, **QUICK):
        ended = await made.ended(job_id)
        assert (ended["status"], ended["attempts"]) == ("succeeded", job["attempts"] + (not is_done))
        # Nothing of the dead worker is in the way of the next run.
        await made.run()
    assert len(await made.matches(status="proposed")) == 1
    query = f"SELECT type FROM {TOLD} WHERE resource_id = %s"  # noqa: S608 - our own text
    assert await made.sql(query, job_id) == [{"type": "job.succeeded"}]
