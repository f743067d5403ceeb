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
from payrec.storage.database import JOBS_ROLE
from payrec.storage.migrations import JOBS_SCHEMA

QUEUE: Final = "payrec"
"""The one queue."""

EXPIRIES_AT: Final = "17 * * * *"
"""When expiring keys are looked for: hourly, not at the full hour, when everybody's clocks strike (cron, UTC)."""


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
        await runner.drain(UUID(environment_id), kind)

    @app.periodic(cron=EXPIRIES_AT)
    @app.task(name="announce_expiring_keys", queue=QUEUE, queueing_lock="announce_expiring_keys", pass_context=True)
    async def announce_expiring_keys(context: JobContext, timestamp: int) -> None:  # noqa: ARG001 - when it was due
        """Tell of keys that expire soon."""
        expiry: ApiKeyExpiryService = context.additional_context["key_expiry"]
        await expiry.announce()

    return app
