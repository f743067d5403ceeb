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
from psycopg import sql

from payrec.jobs.runner import JobRunner
from payrec.services.api_key_expiry import ApiKeyExpiryService
from payrec.services.audit_sealing import AuditSealer
from payrec.services.data_source_syncs import DataSourceSyncService
from payrec.services.measurement import Measurement
from payrec.services.overdue_notices import OverdueNoticeService
from payrec.services.retention import RetentionService
from payrec.services.sealing import Sealer
from payrec.services.tombstones import TombstoneService
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

AUDIT_SEALED_AT: Final = "*/10 * * * *"
"""When audit logs are sealed: what is older than that cannot be changed unnoticed (cron, UTC)."""

COUNTED_AT: Final = "*/5 * * * *"
"""When what is open in all tenant environments is counted: often enough for alerts of hours (cron, UTC)."""

OUTBOXES_AT: Final = "41 3 * * *"
"""When every outbox is looked at, also where nothing has said so: daily (cron, UTC)."""

TOMBSTONES_AT: Final = "2-57/5 * * * *"
"""When schemas of dropped environments are looked for: every five minutes (cron, UTC)."""

LISTEN_AGAIN_SECONDS: Final = 1.0
"""Between two attempts to listen to a database that is not there."""


class _Connector(PsycopgConnector):
    """Listens again when the database comes back: procrastinate's own gives up, and the whole worker with it."""

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        logger = structlog.get_logger("payrec.worker")
        wanted = list(channels)
        while True:
            try:
                await super().listen_notify(on_notification=on_notification, channels=wanted)
            except ConnectorException:
                # Whoever polls finds meanwhile what would have been told.
                logger.warning("worker.not_listening")
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)


async def _enter(connection: psycopg.AsyncConnection[Any]) -> None:
    """Make a connection the queue's: its role and its schema, for as long as it lives."""
    await connection.set_autocommit(True)
    await connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(JOBS_ROLE)))
    await connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(JOBS_SCHEMA)))


def create_app(*, url: str) -> App:
    """Return the procrastinate app with its tasks; nothing is opened yet.

    ``url`` must reach PostgreSQL itself, not a transaction pooler: the worker listens.
    """
    connector = _Connector(conninfo=url, min_size=1, max_size=4, configure=_enter)
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

    @app.periodic(cron=OUTBOXES_AT)
    @app.task(name="look_at_outboxes", queue=QUEUE, queueing_lock="look_at_outboxes", pass_context=True)
    async def look_at_outboxes(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Have every outbox looked at."""
        sealer: Sealer = context.additional_context["sealer"]
        await sealer.look_everywhere()

    @app.periodic(cron=COUNTED_AT)
    @app.task(name="take_census", queue=QUEUE, queueing_lock="take_census", pass_context=True)
    async def take_census(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Count what is open, for the metrics of this worker."""
        measurement: Measurement = context.additional_context["measurement"]
        await measurement.take_census()

    @app.periodic(cron=TOMBSTONES_AT)
    @app.task(name="drop_tombstones", queue=QUEUE, queueing_lock="drop_tombstones", pass_context=True)
    async def drop_tombstones(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Drop the schemas and roles of dropped environments, where the worker has an administrator's connection."""
        tombstones: TombstoneService = context.additional_context["tombstones"]
        await tombstones.drop_due()

    @app.periodic(cron=AUDIT_SEALED_AT)
    @app.task(name="seal_audit_logs", queue=QUEUE, queueing_lock="seal_audit_logs", pass_context=True)
    async def seal_audit_logs(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Seal what was recorded since."""
        audit: AuditSealer = context.additional_context["audit_sealer"]
        await audit.seal_everywhere()

    return app
