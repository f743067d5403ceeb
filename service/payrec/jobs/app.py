"""The job queue: procrastinate, whose jobs are wake-ups alone. The truth about a job is its tenant's row."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import psycopg
from procrastinate import App, JobContext, PsycopgConnector
from psycopg import sql

from payrec.jobs.runner import JobRunner
from payrec.storage.database import JOBS_ROLE
from payrec.storage.migrations import JOBS_SCHEMA

QUEUE: Final = "payrec"
"""The one queue."""


async def _enter(connection: psycopg.AsyncConnection[Any]) -> None:
    """Make a connection the queue's: its role and its schema, for as long as it lives."""
    await connection.set_autocommit(True)
    await connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(JOBS_ROLE)))
    await connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(JOBS_SCHEMA)))


def create_app(*, url: str) -> App:
    """Return the procrastinate app with its one task; nothing is opened yet.

    ``url`` must reach PostgreSQL itself, not a transaction pooler: the worker listens.
    """
    connector = PsycopgConnector(conninfo=url, min_size=1, max_size=4, configure=_enter)
    app = App(connector=connector)

    @app.task(name="drain", queue=QUEUE, pass_context=True)
    async def drain(context: JobContext, environment_id: str, kind: str) -> None:
        """Do what waits in one tenant environment."""
        runner: JobRunner = context.additional_context["runner"]
        await runner.drain(UUID(environment_id), kind)

    return app
