"""A worker is killed at each of its commits, and between them: the next ones do what it was doing, once.

What a worker does between two commits is nobody's until the next one. So its kill points are its commits, named by the
functions that open the transactions, and the steps that touch what is not in the database.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from payrec.jobs.runner import JobRunner
from payrec.jobs.worker import context_of
from support.commits import ROOT, writers
from support.events import TOLD
from support.file_servers import SftpServer
from support.kill_story import Story
from support.matching_world import World
from support.mortal_workers import UNKNOWN_POINT, MortalWorkers, mortal_workers
from support.outgoing import pause
from support.places import look
from support.receivers import Received, receiving
from support.service import superuser_url
from support.sources import created
from support.wire import until

pytestmark = pytest.mark.anyio

COMMITS = {
    "jobs.outgoing.Outgoing._deliver": "webhook_gone",
    "jobs.outgoing.Outgoing._seal": "upload",
    "jobs.runner.JobRunner._taken": "upload",
    "jobs.runner.JobRunner._give_back": "crash",
    "jobs.runner.JobRunner._kept.<locals>.renew": "long_queue",
    "jobs.runner.JobRunner._fail": "refusal",
    "services.api_key_expiry.ApiKeyExpiryService._announce": "key_expiry",
    "services.audit_sealing.AuditSealer.seal": "audit_seal",
    "services.backtesting.BacktestRunner.run": "backtest",
    "services.blob_collection.BlobCollector._clear": "remnant",
    "services.data_source_syncs.DataSourceSyncService._start_due": "schedule",
    "services.erasures.ErasureService.run": "erasure",
    "services.expected_uploads.ExpectedUploads._load": "expected_upload",
    "services.exports.ExportService._store": "export",
    "services.import_processing.ImportProcessor._fail": "bad_upload",
    "services.import_processing.ImportProcessor._load": "upload",
    "services.imports.ImportService.upload": "sync",
    "services.jobs.end_cancelled": "cancellation",
    "services.match_import_learning.MatchImportLearning._learn": "decisions",
    "services.match_import_learning.MatchImportLearning.run": "decisions",
    "services.match_imports.MatchImports._load": "decisions",
    "services.match_imports.MatchImports.load": "decisions",
    "services.matching.MatchingService._commit": "match",
    "services.matching.MatchingService._told_only": "dry_run",
    "services.overdue_notices.OverdueNoticeService._announce": "overdue",
    "services.posting_sealing.PostingSealer.number": "posting",
    "services.retention.RetentionService._drop": "retention",
    "services.retention.RetentionService._drop_answers": "retention",
    "services.sealing.Sealer._take_over": "settings",
    "services.sealing.Sealer.look_everywhere": "outboxes",
    "services.sealing.Sealer.seal": "upload",
    "services.snapshot_loading.SnapshotUploads._load": "snapshot",
    "services.source_sync.SourceSyncer._finish": "sync",
    "services.source_sync._Sync._failed": "bad_sync",
    "services.source_sync._Sync._imported": "sync",
    "services.source_sync._Sync._looked": "sync",
    "services.source_sync._Sync._taken": "sync",
    "services.statement_notices.StatementNoticeService._announce": "missing_statement",
    "services.waiting.WaitingService._tell": "lost_wake_ups",
    "services.webhook_delivery.WebhookDeliverer._disable": "webhook_disabled",
    "services.webhook_delivery.WebhookDeliverer._give_back": "upload",
    "services.webhook_delivery.WebhookDeliverer._store": "upload",
    "services.webhook_delivery.WebhookDeliverer.deliver": "upload",
    "services.webhook_redeliveries.WebhookRedeliveryService.run": "redelivery",
}
"""Every commit of a worker, and what has to happen for it."""

STEPS = {
    "connectors.sftp.SftpConnector.delete": "sync",
    "connectors.sftp.SftpConnector.fetch": "sync",
    "services.export_files.ExportFile.add": "export",
    "services.export_files.ExportFile.finish": "export",
    "services.matching.MatchingService._write": "match",
    "services.webhook_sender.WebhookSender.send": "upload",
    "storage.blobs.BlobStore.chunk": "upload",
    "storage.blobs.BlobStore.put": "export",
    "storage.staging.Staging.add": "upload",
    "storage.staging.Staging.finish": "upload",
}
"""What it does between its commits, with files, servers and receivers, or long."""

ELSEWHERE = {
    "jobs.runner.JobRunner._wake": "calls whoever was turned away for want of room, and comes again in any case",
    "services.data_source_syncs.DataSourceSyncService._start": "a request's",
    "services.ecb_rates.EcbRateService.upload": "a request's; a sync reads the file again, which changes nothing",
    "services.erasures.ErasureService.erase": "a request's",
    "services.exports.ExportService.start_job": "a request's",
    "services.imports.ImportService._give_back": "a request's",
    "services.jobs.JobService.cancel": "a request's",
    "services.learning.LearningService._learn_names": "needs decisions; what was learned of a match is learned once",
    "services.learning.LearningService._learn_weights": "needs many decisions; it writes what it would write again",
    "services.match_commit.own_partitions": "needs many rows; an empty partition goes with the next run",
    "services.return_releases.release": "what it has given back waits for the next attempt like any that just came",
    "services.matching.MatchingService.run": "the first run's; partitions that are not there the next attempt makes",
    "services.returns.ReturnService._link": "a request's",
    "services.returns.ReturnService.link_open": "each link is whole by itself, and the next run finds it",
    "services.webhook_redeliveries.WebhookRedeliveryService.start_job": "a request's",
}
"""Commits in the same modules that no test here comes to, and why."""

LEFT_ALONE = {
    "jobs.runner.JobRunner._taken",
    "jobs.runner.JobRunner._give_back",
    "services.expected_uploads.ExpectedUploads._load",
    "services.exports.ExportService._store",
    "services.import_processing.ImportProcessor._load",
    "services.match_import_learning.MatchImportLearning._learn",
    "services.match_imports.MatchImports._load",
    "services.matching.MatchingService._commit",
    "services.posting_sealing.PostingSealer.number",
    "services.sealing.Sealer.seal",
    "services.snapshot_loading.SnapshotUploads._load",
    "services.source_sync.SourceSyncer._finish",
    "services.source_sync._Sync._imported",
    "services.webhook_delivery.WebhookDeliverer._store",
}
"""Commits after which a worker dies as well; after the others it comes to the next one at once."""

DEATHS = [
    *((point, "before", kind) for point, kind in COMMITS.items()),
    *((point, "after", COMMITS[point]) for point in sorted(LEFT_ALONE)),
    *((point, "after", kind) for point, kind in STEPS.items()),
]
"""Each point, when its worker dies there, and what has to happen for it."""

QUICK = {"lease": 1.5, "heartbeat_seconds": 0.3, "stalled_seconds": 1.0, "polling_seconds": 0.2, "grace_seconds": 5.0}


async def test_the_points_are_all_that_there_are(made: World) -> None:
    runner = JobRunner(made.service.factory)
    modules = {".".join(name.split(".")[:2]) for name in (*COMMITS, *ELSEWHERE)}
    modules |= {f"jobs.{path.stem}" for path in (ROOT / "jobs").glob("*.py")}
    # Whatever does jobs, and the tasks of the clock.
    modules |= {work.__module__.removeprefix("payrec.") for work in runner._kinds.values()}
    tasks = context_of(made.service.factory, runner).values()
    modules |= {task.__module__.removeprefix("payrec.") for task in tasks}
    found = set().union(*(writers(module) for module in modules))
    # It opens transactions for the others, whose they are.
    found -= {"services.source_sync._Sync._store"}
    assert found == {*COMMITS, *ELSEWHERE}


@pytest.fixture
async def story(world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Story]:
    monkeypatch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)

    def answer(came: Received) -> web.Response:
        return web.Response(status=410 if came.request.path.endswith("/gone") else 204)

    await created(world, sftp, config={"afterRead": "delete"})
    async with receiving(answer) as receiver:
        made = await world.tenant.post("/webhooks", {"url": receiver.url, "events": ["job.succeeded"]})
        assert made.status_code == 201, made.text
        superuser = superuser_url(world.service.factory.context.config)
        yield Story(world, sftp, receiver, superuser)


async def finished(story: Story) -> bool | None:
    """Tell whether nothing is left to be done; what waits for its next attempt has it now."""
    await story.hurry()
    left = (
        "SELECT (SELECT count(*) FROM job WHERE status IN ('queued', 'running')) + (SELECT count(*) FROM outbox)"
        " + (SELECT count(*) FROM event_feed e LEFT JOIN posting_feed p ON true"
        "    WHERE e.position > coalesce(p.position, 0)) AS n"
    )
    [row] = await story.world.sql(left)
    behind = "SELECT 1 FROM webhook w, event_feed f WHERE w.status = 'active' AND w.position < f.position"
    if row["n"] == 0 and not await story.world.sql(behind):
        return True
    await pause(0.3)
    return None


async def test_whatever_kills_workers_wherever_everything_is_done_once(story: Story) -> None:
    world = story.world
    known = {*COMMITS, *ELSEWHERE}
    async with mortal_workers(world.service.factory.context.config, known) as workers:
        for point, moment, kind in DEATHS:
            await story.happen(kind)
            await workers.start(point, moment, **QUICK)
            assert await workers.ended() == -signal.SIGKILL, (point, moment)
            await story.recover()
        await end_all(story, workers)
    await adds_up(story)


async def end_all(story: Story, workers: MortalWorkers) -> None:
    """Have a worker that lives do whatever is left."""
    process = await workers.start(**QUICK)
    await until(lambda: finished(story), seconds=120)
    # What was read by a worker that died is cleared away at the next look.
    await story.pull()
    await until(lambda: finished(story), seconds=120)
    os.kill(process, signal.SIGTERM)
    assert await workers.ended() == 0 != UNKNOWN_POINT


async def adds_up(story: Story) -> None:
    """Compare what came of it with what happened."""
    world, made = story.world, story.made
    jobs = {str(row["id"]): row for row in await world.sql("SELECT id, status FROM job")}
    jobs = {job_id: row for job_id, row in jobs.items() if job_id not in story.past}
    assert {job_id: jobs[job_id]["status"] for job_id in story.jobs} == story.jobs
    told = await world.sql(f"SELECT type, resource_id::text AS about FROM {TOLD}")  # noqa: S608 - our own text
    ends = Counter(row["about"] for row in told if row["type"].startswith("job."))
    assert ends == dict.fromkeys(jobs, 1)
    types = Counter(row["type"] for row in told)
    assert await count(world, "incoming_transaction") == made["rows"]
    assert await count(world, "incoming_open") == made["rows"] - made["decisions"]
    assert await count(world, "match", "created_by = 'import'") == made["decisions"]
    assert await count(world, "imported_match", "learned_change_id IS NOT NULL") == made["decisions"]
    assert await count(world, "leg", "valid_from IS NOT NULL") == made["decisions"]
    assert await count(world, "expected_transaction", "currency = 'JPY'") == made["items"]
    assert await count(world, "expected_transaction", "currency = 'KWD'") == made["snapshot"]
    assert await count(world, "expected_snapshot_difference", "outcome = 'created'") == made["snapshot"]
    assert await count(world, "match", "status = 'proposed'") == made["proposals"]
    assert await count(world, "posting") == 2 * made["posting"]
    assert await world.sql("SELECT 1 FROM posting_feed WHERE sequence <> %s", 2 * made["posting"]) == []
    assert await count(world, "export", "bytes > 0") == made["export"]
    assert await count(world, "import", "status = 'completed' AND data_source_id IS NOT NULL") == made["files"]
    assert len(story.sftp.names()) == made["bad_sync"]
    assert types["api_key.expiring"] == made["key_expiry"]
    assert types["expected_transaction.overdue"] == made["overdue"]
    assert types["account.statement_missing"] == made["missing_statement"]
    assert types["tenant.settings_updated"] == made["settings"]
    assert types["webhook.disabled"] == made["webhook_disabled"]
    assert await count(world, "audit_record", "action = 'export.dropped'") == made["retention"]
    assert await look(story.superuser, "SELECT 1 FROM control.blob_remnant") == []
    sent = {came.id for came in story.receiver.received if not came.request.path.endswith("/gone")}
    feed = await world.sql("SELECT id::text FROM event WHERE type = 'job.succeeded' ORDER BY position")
    assert sent == {row["id"] for row in feed}
    assert len(feed) == sum(row["status"] == "succeeded" for row in jobs.values())


async def count(world: World, table: str, condition: str = "TRUE") -> int:
    """Count rows."""
    [row] = await world.sql(f"SELECT count(*) AS n FROM {table} WHERE {condition}")  # noqa: S608 - our own names
    return int(row["n"])
