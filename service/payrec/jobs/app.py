"""The job queue: procrastinate, whose jobs are wake-ups alone. The truth about a job is its tenant's row.

Beside them are the tasks that the clock starts; procrastinate sees to it that of all workers one does each.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import psycopg
from procrastinate import App, JobContext, PsycopgConnector
from psycopg import sql

from payrec.jobs.runner import JobRunner
from payrec.services.api_key_expiry import ApiKeyExpiryService
from payrec.services.data_source_syncs import DataSourceSyncService
from payrec.services.event_retention import EventRetention
from payrec.services.overdue_notices import OverdueNoticeService
from payrec.services.retention import RetentionService
from payrec.storage.database import JOBS_ROLE
from payrec.storage.migrations import JOBS_SCHEMA

QUEUE: Final = "payrec"
"""The one queue."""

EXPIRIES_AT: Final = "17 * * * *"
"""When expiring keys are looked for: hourly, not at the full hour, when everybody's clocks strike (cron, UTC)."""

DROPPED_AT: Final = "43 * * * *"
"""When what was kept long enough is deleted: hourly, because exports are kept for hours (cron, UTC)."""

SOURCES_LOOKED_AT: Final = "* * * * *"
"""When data sources are looked for whose time has come: every minute, the finest that a schedule can say."""

OVERDUE_AT: Final = "4,34 * * * *"
"""When overdue items are looked for: soon after midnight of every time zone but the few at a quarter (cron, UTC)."""

TURN_SECONDS: Final = 0.5
"""For how long a wake-up begins jobs; then others have their turn, and another wake-up does the rest."""

OLD_EVENTS_AT: Final = "41 3 * * *"
"""When events are looked for whose time is over: daily (cron, UTC)."""


async def _enter(connection: psycopg.AsyncConnection[Any]) -> None:
    """Make a connection the queue's: its role and its schema, for as long as it lives."""
    await connection.set_autocommit(True)
    await connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(JOBS_ROLE)))
    await connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(JOBS_SCHEMA)))


def create_app(*, url: str) -> App:
    """Return the procrastinate app with its tasks; nothing is opened yet.

    ``url`` must reach PostgreSQL itself, not a transaction pooler: the worker listens.
    """
    connector = PsycopgConnector(conninfo=url, min_size=1, max_size=4, configure=_enter)
    app = App(connector=connector)

    @app.task(name="drain", queue=QUEUE, pass_context=True)
    async def drain(context: JobContext, environment_id: str, kind: str) -> None:
        """Do what waits in one tenant environment."""
        runner: JobRunner = context.additional_context["runner"]
        await runner.drain(UUID(environment_id), kind, seconds=TURN_SECONDS)

    @app.periodic(cron=EXPIRIES_AT)
    @app.task(name="announce_expiring_keys", queue=QUEUE, queueing_lock="announce_expiring_keys", pass_context=True)
    async def announce_expiring_keys(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Tell of keys that expire soon."""
        expiry: ApiKeyExpiryService = context.additional_context["key_expiry"]
        await expiry.announce()

    @app.periodic(cron=DROPPED_AT)
    @app.task(name="drop_expired", queue=QUEUE, queueing_lock="drop_expired", pass_context=True)
    async def drop_expired(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Delete what is kept no longer."""
        retention: RetentionService = context.additional_context["retention"]
        await retention.drop_expired()

    @app.periodic(cron=OVERDUE_AT)
    @app.task(name="announce_overdue", queue=QUEUE, queueing_lock="announce_overdue", pass_context=True)
    async def announce_overdue(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Tell of what is overdue."""
        notices: OverdueNoticeService = context.additional_context["overdue_notices"]
        await notices.announce()

    @app.periodic(cron=SOURCES_LOOKED_AT)
    @app.task(name="start_due_syncs", queue=QUEUE, queueing_lock="start_due_syncs", pass_context=True)
    async def start_due_syncs(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Start the syncs of data sources whose time has come."""
        syncs: DataSourceSyncService = context.additional_context["source_syncs"]
        await syncs.start_due()

    @app.periodic(cron=OLD_EVENTS_AT)
    @app.task(name="forget_old_events", queue=QUEUE, queueing_lock="forget_old_events", pass_context=True)
    async def forget_old_events(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Forget events whose time is over."""
        retention: EventRetention = context.additional_context["event_retention"]
        await retention.prune()

    return app
