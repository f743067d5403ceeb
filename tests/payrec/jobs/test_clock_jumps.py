"""The clock of a worker jumps: what is due is done once, what waits neither comes at once nor stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from aiohttp import web
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.periodic import PeriodicDeferrer

from payrec.domain.business_days import is_weekday
from payrec.domain.caller import Caller, IdempotentRequest
from payrec.domain.principal import Principal
from payrec.factory import Factory, create_context
from payrec.jobs.app import PERIODIC, QUEUE, create_app
from payrec.jobs.outgoing import Outgoing
from payrec.jobs.runner import JobRunner
from payrec.models.health import Health
from payrec.services.matching import MatchingService
from payrec.services.statement_notices import StatementNoticeService
from payrec.services.work import ReplayedAnswer, Work
from payrec.storage.jobs import LEASE, JobStore
from support.ages import aged
from support.file_servers import SftpServer
from support.matching_world import World
from support.outgoing import Place, here, hurry, idle
from support.receivers import receiving
from support.service import Service, direct_url
from support.sources import brought, created, shown
from support.sources import statement as table
from support.wire import until

__all__ = ["here", "idle"]

pytestmark = pytest.mark.anyio

JUMPS = [timedelta(hours=1), timedelta(days=1), timedelta(hours=-1)]


@dataclass
class Jumping:
    """A clock that somebody sets."""

    by: timedelta = timedelta()

    def now(self) -> datetime:
        """Return the present instant, as the clock has it."""
        return datetime.now(UTC) + self.by

    def monotonic(self) -> float:
        """Return seconds that never go back, whatever the clock is set to."""
        return datetime.now(UTC).timestamp()


@pytest.fixture(params=JUMPS, ids=str)
def clock(request: pytest.FixtureRequest) -> Jumping:
    return Jumping(request.param)


@pytest.fixture
async def theirs(world: World, clock: Jumping) -> AsyncIterator[Factory]:
    """Return what a worker is made of whose clock has jumped."""
    async with elsewhere(world.service, clock) as factory:
        yield factory


@asynccontextmanager
async def elsewhere(service: Service, clock: Jumping) -> AsyncIterator[Factory]:
    """Return a factory with connections and a clock of its own."""
    context = create_context(service.factory.context.config)
    context.clock = clock
    await context.database.open()
    try:
        yield Factory(context)
    finally:
        await context.aclose()


async def test_a_schedule_is_due_when_the_database_says_so_and_once(
    world: World, sftp: SftpServer, theirs: Factory
) -> None:
    source = await created(world, sftp, schedule="30 6 * * *")
    syncs = theirs.sources.create_sync_service()
    assert await syncs.start_due() == 0
    await world.sql("UPDATE data_source SET next_sync_at = now() - interval '1 minute'")
    assert [await syncs.start_due() for _ in range(3)] == [1, 0, 0]
    # Neither long before it, nor long after.
    assert (await shown(world, source))["nextSyncAt"] == source["nextSyncAt"]


async def test_a_statement_is_missing_when_the_database_says_so_and_once(world: World, theirs: Factory) -> None:
    body = {"identifier": "till", "currency": "EUR", "statementEvery": "day", "statementDueAfterHours": 0}
    assert (await world.tenant.post("/accounts", body)).status_code == 201
    # Since the last business day that is over.
    day = datetime.now(UTC).date() - timedelta(days=1)
    while not is_weekday(day):
        day -= timedelta(days=1)
    await world.sql("UPDATE account SET statements_from = %s", day)
    notices = StatementNoticeService(work=theirs.work)
    assert [await notices.announce() for _ in range(3)] == [1, 0, 0]


async def test_nothing_is_over_before_the_database_says_so(world: World) -> None:
    """A worker's clock is far ahead: what it takes for old nobody could bring back."""
    record = {"amount": "5.00", "currency": "EUR", "direction": "credit", "bookingDate": "2026-03-01"}
    headers = {"Idempotency-Key": "kept"}
    assert (await world.tenant.post("/incoming-transactions/upload", [record], headers=headers)).status_code == 201
    job = (await world.tenant.post("/jobs", {"kind": "export", "params": {"resource": "incoming-transactions"}})).json()
    await JobRunner(world.service.factory).drain(world.scope.environment_id, "export")
    tables = ("blob_chunk", "export", "idempotency", "audit_record", "history_span")
    before = await world.digest(*tables)
    async with elsewhere(world.service, Jumping(timedelta(days=8_000))) as factory:
        report = await factory.upkeep.create_retention_service().drop_expired()
    assert (report.failed, {kind: what.count for kind, what in report.removed.items() if what.count}) == (0, {})
    assert await world.digest(*tables) == before
    assert (await world.job(job["id"]))["status"] == "succeeded"


async def test_an_answer_is_kept_as_long_as_the_database_says(world: World) -> None:
    """A request that is repeated at a process whose clock is days ahead is not done once more, nor is any other."""
    principal = Principal(kind="system", name="test", tenant_id=world.scope.tenant_id)

    def asked(name: str) -> Caller:
        request = IdempotentRequest(key=name.encode().ljust(32), fingerprints=(b"f" * 32,))
        return Caller(principal=principal, request_id="r", scope=world.scope, idempotency=request)

    async def replayed(work: Work, name: str) -> bool:
        try:
            async with work.tenant(asked(name)) as unit:
                unit.answer(200, Health(status="ok", version="1"))
        except ReplayedAnswer:
            return True
        return False

    async with elsewhere(world.service, Jumping(timedelta(days=3))) as factory:
        for work in (world.service.factory.work, factory.work):
            name = f"by {id(work)}"
            assert not await replayed(work, name)
            assert await replayed(factory.work, name)
            assert await replayed(world.service.factory.work, name)
        assert len(await world.sql("SELECT 1 FROM idempotency WHERE created_at <= now()")) == 2


async def test_a_file_that_is_still_written_is_left_until_it_is_whole(
    world: World, sftp: SftpServer, theirs: Factory
) -> None:
    source = await created(world, sftp)
    sftp.put("a.csv", table(1), age=timedelta())
    runner = JobRunner(theirs)
    await world.tenant.post(f"/data-sources/{source['id']}/sync")
    await runner.drain(world.scope.environment_id, "sync")
    assert await brought(world) == []
    # A minute goes by.
    await world.sql(aged("data_source_object", "61 seconds"))
    await world.tenant.post(f"/data-sources/{source['id']}/sync")
    await runner.drain(world.scope.environment_id, "sync")
    assert await brought(world) == [1]


async def test_a_lease_and_a_retry_last_as_long_as_they_should(
    world: World, theirs: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_given: object, **_more: object) -> None:
        raise ValueError("a defect of ours")

    monkeypatch.setattr(MatchingService, "_commit", crash)
    job_id = (await world.tenant.post("/matches/match", {"wait": 0})).json()["jobId"]
    runner = JobRunner(theirs, drawn=lambda: 1.0)
    await runner.drain(world.scope.environment_id, "match")
    [waits] = await world.sql("SELECT next_attempt_at - clock_timestamp() AS left FROM job WHERE id = %s", job_id)
    assert timedelta() < waits["left"] <= timedelta(seconds=2)
    await world.sql("UPDATE job SET next_attempt_at = NULL")
    async with theirs.context.database.tenant(world.scope) as connection:
        job = await JobStore(connection).claim(job_id, now=theirs.context.clock.now())
        assert job is not None
    [held] = await world.sql("SELECT lease_until - clock_timestamp() AS left FROM job WHERE id = %s", job_id)
    assert timedelta() < held["left"] <= LEASE
    # Another worker, whose clock is right, finds nothing to take.
    await JobRunner(world.service.factory).drain(world.scope.environment_id, "match")
    assert (await world.job(job_id))["attempts"] == 2


async def test_an_endpoint_that_was_left_alone_is_told_all_the_same(
    idle: tuple[Service, str], here: Place, clock: Jumping, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    jumps, clock.by = clock.by, timedelta()
    is_away = True
    async with (
        receiving(lambda _: web.Response(status=503 if is_away else 204)) as receiver,
        elsewhere(idle[0], clock) as factory,
        Outgoing(factory).running(),
    ):
        webhook = await here.hook(receiver.url)
        await here.happen(*(uuid4() for _ in range(30)))

        async def paused() -> bool | None:
            return (await here.sql("SELECT 1 AS paused FROM webhook WHERE paused_until > now()")) != [] or None

        await until(paused)
        clock.by, is_away = jumps, False
        await here.settled(webhook, 30)
        assert (await here.webhook(webhook))["status"] == "active"
        # Each was tried a few times, as often as there was time for.
        assert len(receiver.received) < 30 * 9


async def test_what_the_clock_starts_goes_on_when_it_is_set_back(
    world: World, clock: Jumping, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: dict[str, list[int]] = {name: [] for name in PERIODIC}

    async def look_often(*_given: object, **_more: object) -> None:
        await asyncio.sleep(0.01)

    async def deferred(
        _manager: JobManager, job: Job, periodic_id: str, defer_timestamp: int, **_more: object
    ) -> int | None:
        assert periodic_id == ""
        ticks[job.task_name].append(defer_timestamp)
        return None

    async def started(least: int) -> bool | None:
        return True if len(ticks["start_due_syncs"]) >= least else None

    monkeypatch.setattr(PeriodicDeferrer, "wait", look_often)
    monkeypatch.setattr(JobManager, "defer_periodic_job", deferred)
    monkeypatch.setattr("procrastinate.periodic.time", SimpleNamespace(time=lambda: clock.now().timestamp()))
    app = create_app(url=direct_url(world.service.factory.context.config))
    async with app.open_async():
        working = asyncio.create_task(app.run_worker_async(queues=[QUEUE], install_signal_handlers=False))
        try:
            await until(lambda: started(1))
            clock.by -= timedelta(days=365)
            before = len(ticks["start_due_syncs"])
            await until(lambda: started(before + 1))
        finally:
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
    # Once for the time before, however often it looks.
    assert ticks["start_due_syncs"][before] <= clock.now().timestamp()
    assert len(ticks["start_due_syncs"]) - before <= 2
