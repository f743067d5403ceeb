"""The job queue: procrastinate, whose jobs are wake-ups alone. The truth about a job is its tenant's row.

Beside them are the tasks that the clock starts; procrastinate sees to it that of all workers one does each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

import psycopg
import structlog
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from psycopg import sql
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from payrec.errors import UnavailableError
from payrec.jobs.pauses import Pauses
from payrec.jobs.periodic import ClockedApp
from payrec.jobs.runner import JobRunner
from payrec.storage.addresses import RECONNECT_SECONDS_MAX, bounded
from payrec.storage.database import JOBS_ROLE, Database
from payrec.storage.migrations import JOBS_SCHEMA
from payrec.storage.obstacles import obstacle

QUEUE: Final = "payrec"
"""The one queue."""

OBJECTS_COLLECTED_AT: Final = "23 * * * *"
"""When objects are deleted that nobody needs any more: hourly (cron, UTC)."""

EXPIRIES_AT: Final = "17 * * * *"
"""When expiring keys are looked for: hourly, not at the full hour, when everybody's clocks strike (cron, UTC)."""

DROPPED_AT: Final = "43 * * * *"
"""When what was kept long enough is deleted: hourly, because exports are kept for hours (cron, UTC)."""

SOURCES_LOOKED_AT: Final = "* * * * *"
"""When data sources are looked for whose time has come: every minute, the finest that a schedule can say."""

OVERDUE_AT: Final = "4,34 * * * *"
"""When overdue items are looked for: soon after midnight of every time zone but the few at a quarter (cron, UTC)."""

MISSING_STATEMENTS_AT: Final = "9,39 * * * *"
"""When accounts are looked for whose statements have not come: as soon after midnight (cron, UTC)."""

TURN_SECONDS: Final = 0.5
"""For how long a wake-up begins jobs; then others have their turn, and another wake-up does the rest."""

AUDIT_SEALED_AT: Final = "*/10 * * * *"
"""When audit logs are sealed: what is older than that cannot be changed unnoticed (cron, UTC)."""

COUNTED_AT: Final = "*/5 * * * *"
"""When what is open in all tenant environments is counted: often enough for alerts of hours (cron, UTC)."""

OUTBOXES_AT: Final = "41 3 * * *"
"""When every outbox is looked at, also where nothing has said so: daily (cron, UTC)."""

WAITING_AT: Final = "3-58/5 * * * *"
"""When workers are told again of what waits for them: every five minutes (cron, UTC)."""

TOMBSTONES_AT: Final = "2-57/5 * * * *"
"""When schemas of dropped environments are looked for: every five minutes (cron, UTC)."""

PERIODIC: Final = {
    "announce_expiring_keys": EXPIRIES_AT,
    "announce_missing_statements": MISSING_STATEMENTS_AT,
    "announce_overdue": OVERDUE_AT,
    "collect_objects": OBJECTS_COLLECTED_AT,
    "drop_expired": DROPPED_AT,
    "drop_tombstones": TOMBSTONES_AT,
    "look_at_outboxes": OUTBOXES_AT,
    "seal_audit_logs": AUDIT_SEALED_AT,
    "start_due_syncs": SOURCES_LOOKED_AT,
    "take_census": COUNTED_AT,
    "tell_of_waiting": WAITING_AT,
}
"""The tasks of the clock and when they are due; a worker's context has under each name what is done then."""

_NO_QUEUE: Final = "the job queue cannot be reached (JOBS_DATABASE_URL, or DATABASE_URL where that is not set)"

_IS_STANDBY: Final = "SELECT WHERE pg_is_in_recovery()"

_FORGET: Final = """
    DELETE FROM procrastinate_jobs WHERE id = %(job_id)s AND status = 'doing' AND attempts = %(attempts)s
"""
"""A wake-up that was given away has another number of attempts, whoever has it now."""


class _Connector(PsycopgConnector):
    """Listens again when the database comes back: procrastinate's own gives up, and the whole worker with it."""

    def __init__(self, url: str) -> None:
        super().__init__(
            conninfo=bounded(url), min_size=1, max_size=4, configure=_enter, reconnect_timeout=RECONNECT_SECONDS_MAX
        )
        self._url = url
        self._is_deaf = False
        self._logger = structlog.get_logger("payrec.worker")

    async def open_async(self, pool: AsyncConnectionPool | None = None) -> None:
        """Open the pool, or say why that cannot be: procrastinate's own waits for half a minute and has no reason.

        Raises
        ------
        UnavailableError
        """
        refusal = await obstacle(self._url, what=_NO_QUEUE, enter=_look)
        if refusal is not None:
            raise UnavailableError(refusal)
        try:
            await super().open_async(pool)
        except PoolTimeout:
            raise UnavailableError(f"{_NO_QUEUE}: it does not answer") from None

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        wanted = list(channels)
        pauses, now = Pauses(), asyncio.get_running_loop().time
        while True:
            began = now()
            try:
                await super().listen_notify(on_notification=on_notification, channels=wanted)
            except ConnectorException:
                # Whoever polls finds meanwhile what would have been told.
                if not self._is_deaf:
                    self._logger.warning("worker.not_listening")
                self._is_deaf = True
            await asyncio.sleep(pauses.after(now() - began))

    async def _loop_notify(self, *given: Any, **more: Any) -> None:
        if self._is_deaf:
            self._logger.info("worker.listening_again")
        self._is_deaf = False
        await super()._loop_notify(*given, **more)


class _WakeUps(JobManager):
    """Deletes a wake-up for its worker alone: procrastinate's own deletes it for whoever once had it.

    A worker that was silent for too long is taken for dead, and may end what it does after all. Its wake-up is another
    one's by then, or waits, and stands for every job that was told of since it was given away.
    """

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: ARG002, FBT001 - its own
        await self.connector.execute_query_async(_FORGET, job_id=job.id, attempts=job.attempts)


async def _enter(connection: psycopg.AsyncConnection[Any]) -> None:
    """Make a connection the queue's: its role and its schema, for as long as it lives.

    One to a standby, as names lead to for a while when the database fails over, would be kept, and could do nothing.
    """
    await connection.set_autocommit(True)
    if await (await connection.execute(_IS_STANDBY)).fetchone() is not None:
        await connection.close()
        raise psycopg.OperationalError("the server is a standby, which is read-only")
    await connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(JOBS_ROLE)))
    await connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(JOBS_SCHEMA)))


async def _look(connection: psycopg.AsyncConnection[Any]) -> None:
    """Look whether a connection can become the queue's, and whether the queue is there."""
    await _enter(connection)
    await connection.execute("SELECT FROM procrastinate_jobs LIMIT 0")


def create_app(*, url: str) -> App:
    """Return the procrastinate app with its tasks; nothing is opened yet.

    ``url`` must reach PostgreSQL itself, not a transaction pooler: the worker listens.
    """
    connector = _Connector(url)
    app = ClockedApp(connector=connector)
    app.job_manager = _WakeUps(connector)

    @app.task(name="drain", queue=QUEUE, pass_context=True)
    async def drain(context: JobContext, environment_id: str, kind: str) -> None:
        """Do what waits in one tenant environment."""
        runner: JobRunner = context.additional_context["runner"]
        await runner.drain(UUID(environment_id), kind, seconds=TURN_SECONDS)

    for name, cron in PERIODIC.items():
        _start_by_the_clock(app, name, cron)
    return app


def _start_by_the_clock(app: App, name: str, cron: str) -> None:
    """Have one worker do what its context has under a name, whenever the clock says so."""

    async def begin(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        # Of all such tasks a worker does few at a time, each in all tenant environments.
        Database.hurry()
        Database.go_round()
        await context.additional_context[name]()

    app.periodic(cron=cron)(app.task(name=name, queue=QUEUE, queueing_lock=name, pass_context=True)(begin))
