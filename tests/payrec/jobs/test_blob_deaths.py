"""A worker is killed between a file and its row: no row is without its file, and no file stays for nobody."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from payrec.constants.blobs import BLOB_UNNAMED_FOR
from payrec.embedded.postgres import EmbeddedPostgres
from support.blobs import DirectoryShelf, shelf
from support.file_servers import SftpServer
from support.kill_story import Story
from support.matching_world import World, matching_world
from support.mortal_workers import mortal_workers
from support.outgoing import pause
from support.places import look
from support.postgres import cloned
from support.receivers import Receiver
from support.service import make_config, running, superuser_url
from support.wire import until

pytestmark = pytest.mark.anyio

COMMITS = {
    "services.blob_collection.BlobCollector._clear": "remnant",
    "services.exports.ExportService._store": "export",
    "services.import_processing.ImportProcessor._fail": "bad_upload",
    "services.import_processing.ImportProcessor._load": "upload",
    "services.retention.RetentionService._drop": "expiry",
}
"""The commits between a file and what is said of it."""

STEPS = {
    "connectors.blobs.DirectoryObjects._make": "export",
    "connectors.blobs.DirectoryObjects._put": "export",
    "connectors.blobs.DirectoryObjects.chunks": "upload",
    "connectors.blobs.DirectoryObjects.delete": "expiry",
    "services.blob_collection.BlobCollector._delete": "remnant",
}
"""What is done with files."""

ELSEWHERE = {
    "jobs.outgoing.Outgoing._seal",
    "jobs.runner.JobRunner._taken",
    "jobs.runner.JobRunner._fail",
    "jobs.runner.JobRunner._give_back",
    "jobs.runner.JobRunner._kept.<locals>.renew",
    "jobs.runner.JobRunner._wake",
    "services.api_key_expiry.ApiKeyExpiryService._announce",
    "services.audit_sealing.AuditSealer.seal",
    "services.data_source_syncs.DataSourceSyncService._start_due",
    "services.jobs.end_cancelled",
    "services.overdue_notices.OverdueNoticeService._announce",
    "services.posting_sealing.PostingSealer.number",
    "services.retention.RetentionService._drop_answers",
    "services.sealing.Sealer.look_everywhere",
    "services.sealing.Sealer.seal",
    "services.sealing.Sealer._take_over",
    "services.statement_notices.StatementNoticeService._announce",
    "services.waiting.WaitingService._tell",
}
"""Other commits that a worker comes to meanwhile."""

DEATHS = [(point, moment, kind) for point, kind in {**COMMITS, **STEPS}.items() for moment in ("before", "after")]

REMNANTS = "SELECT environment_id, tenant_id FROM control.blob_remnant"

DUE_TASKS_LEFT = """
    SELECT 1 FROM jobs.procrastinate_jobs
    WHERE task_name <> 'drain' AND status IN ('todo', 'doing') AND coalesce(scheduled_at, now()) <= now()
"""
"""What the clock has begun, or a test in its name, and nobody has done."""

QUICK = {"lease": 1.5, "heartbeat_seconds": 0.3, "stalled_seconds": 1.0, "polling_seconds": 0.2, "grace_seconds": 5.0}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[DirectoryShelf]:
    async with shelf("file", tmp_path) as made:
        assert isinstance(made, DirectoryShelf)
        yield made


@pytest.fixture
async def kept(
    postgres: EmbeddedPostgres, place: DirectoryShelf, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
    with cloned(postgres) as database:
        async with running(make_config(database, blob_url=place.url), worker=False) as service:
            acme, globex = await service.tenant("acme"), await service.tenant("globex")
            async with matching_world(service, acme, globex) as world:
                yield world


async def test_whatever_kills_workers_files_and_rows_are_the_same_in_the_end(
    kept: World, place: DirectoryShelf, sftp: SftpServer
) -> None:
    superuser = superuser_url(kept.service.factory.context.config)
    story = Story(kept, sftp, Receiver(), superuser)
    async with mortal_workers(kept.service.factory.context.config, {*COMMITS, *ELSEWHERE}) as workers:
        for point, moment, kind in DEATHS:
            if kind == "expiry":
                await story.export()
                await living(story, await workers.start(**QUICK))
                assert await workers.ended() == 0
            await story.happen(kind)
            if point in STEPS and kind == "remnant":
                await leave(superuser, place)
            await workers.start(point, moment, **QUICK)
            assert await workers.ended() == -signal.SIGKILL, (point, moment)
            await story.recover()
        await living(story, await workers.start(**QUICK))
        assert await workers.ended() == 0
    place.age(BLOB_UNNAMED_FOR + timedelta(minutes=1))
    for _ in range(2):
        await kept.service.factory.upkeep.create_blob_collector().collect(everywhere=True)
    assert await look(superuser, REMNANTS) == []
    named = "SELECT object_id FROM import UNION ALL SELECT object_id FROM export"
    ids = {str(row["object_id"]) for row in await kept.sql(named) if row["object_id"] is not None}
    assert {name.rpartition("/")[2] for name in place.names()} == ids != set()
    for collection in ("imports", "exports"):
        for row in await kept.sql(f"SELECT id FROM {collection[:-1]} WHERE object_id IS NOT NULL"):  # noqa: S608
            assert (await kept.tenant.get(f"/{collection}/{row['id']}/content")).status_code == 200
    states = {str(row["id"]): row["status"] for row in await kept.sql("SELECT id, status FROM job")}
    assert {job_id: states[job_id] for job_id in story.jobs} == story.jobs
    assert (await kept.bystander.get("/imports")).json()["data"] == []


async def living(story: Story, process: int) -> None:
    """Let a worker do whatever is left, and end it."""

    async def finished() -> bool | None:
        await story.hurry()
        left = await story.world.sql("SELECT 1 FROM job WHERE status IN ('queued', 'running')")
        if not left and not await look(story.superuser, DUE_TASKS_LEFT):
            return True
        await pause(0.3)
        return None

    await until(finished, seconds=120)
    os.kill(process, signal.SIGTERM)


async def leave(superuser: str, place: DirectoryShelf) -> None:
    """Leave something of each environment that was dropped."""
    for environment_id, tenant_id in await look(superuser, REMNANTS):
        place.put(f"{tenant_id}/{environment_id}/{uuid4()}")
