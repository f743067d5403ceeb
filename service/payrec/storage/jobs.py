"""Jobs: the rows that are the truth, and the wake-up that tells a worker to look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from payrec.domain.progress import Progress
from payrec.models.jobs import JobQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import adapt, columns_of, fetch_one, insert, insert_statement
from payrec.tables.jobs import Job

LEASE: Final = timedelta(seconds=15)
"""How long a job belongs to a worker that has stopped renewing it."""

INLINE_LEASE: Final = timedelta(seconds=60)
"""How long a job belongs to the request that does it, which renews nothing."""

_COLUMNS: Final = columns_of(Job)
_CLAIM: Final = sql.SQL(
    """UPDATE job SET status = 'running', attempts = attempts + 1, lease_until = clock_timestamp() + %(lease)s,
        started_at = coalesce(started_at, %(now)s), updated_at = %(now)s, version = version + 1
    WHERE id = (
        SELECT id FROM job
        WHERE kind = %(kind)s AND (status = 'queued' OR (status = 'running' AND lease_until < clock_timestamp()))
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING {}"""
).format(sql.SQL(_COLUMNS))
_FINISH: Final = """
    UPDATE job SET status = %(status)s, result = %(result)s, error = %(error)s, finished_at = %(now)s,
        updated_at = %(now)s, version = version + 1, lease_until = NULL,
        done = coalesce(%(done)s, done), total = coalesce(%(done)s, total)
    WHERE id = %(id)s AND status = 'running' AND attempts = %(attempt)s
"""
_UNLESS_RUNNING: Final = " ON CONFLICT (kind) WHERE kind = 'match' AND status IN ('queued', 'running') DO NOTHING"
_ACTIVE_RUN: Final = "SELECT id FROM job WHERE kind = 'match' AND status IN ('queued', 'running')"


class JobStore:
    """``job`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, job: dict[str, Any]) -> None:
        """Add a job that is no match run."""
        await insert(self._connection, Job, job)

    async def wake(self, environment_id: UUID, kind: str, *, delay: timedelta = timedelta()) -> None:
        """Tell the workers, when this transaction commits, that a job of the kind is waiting, or will be."""
        await self._connection.execute("SELECT control.enqueue(%s, %s, %s)", (environment_id, kind, delay))

    async def lease_left(self, kind: str) -> timedelta | None:
        """Return after which time a running job of the kind may have lost its worker; None when none runs."""
        row = await fetch_one(
            self._connection,
            "SELECT min(lease_until) - clock_timestamp() AS left FROM job WHERE kind = %s AND status = 'running'",
            (kind,),
        )
        left: timedelta | None = row["left"] if row is not None else None
        return None if left is None else max(timedelta(), left)

    async def add_match_run(self, job: dict[str, Any]) -> UUID | None:
        """Add a match run; return the id of the one that is queued or running instead, if there is one.

        Who adds at the same time is waited for, so that the answer can name its run.
        """
        query = insert_statement(Job, job) + sql.SQL(_UNLESS_RUNNING)
        while True:
            cursor = await self._connection.execute(query, adapt(Job, job))
            if cursor.rowcount == 1:
                return None
            row = await fetch_one(self._connection, _ACTIVE_RUN)
            # Where there is none any more, it has ended between the two statements, and the place is free.
            if row is not None:
                return UUID(str(row["id"]))

    async def get(self, job_id: UUID) -> dict[str, Any] | None:
        """Return a job."""
        query = sql.SQL("SELECT {} FROM job WHERE id = %s").format(sql.SQL(_COLUMNS))
        return await fetch_one(self._connection, query, (job_id,))

    async def page(self, page: PageRequest, query: JobQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of jobs."""
        selection = Selection(columns=_COLUMNS, source="job", id_column="id")
        found = equalities(query, {"status": "status", "kind": "kind"})
        found += ranges(query, {"created_from": "created_at >=", "created_to": "created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def claim(self, kind: str, *, now: datetime, lease: timedelta = LEASE) -> dict[str, Any] | None:
        """Take the oldest waiting job of a kind, or one whose worker has gone; nobody waits for it.

        Leases are counted on the database's clock, because the workers' clocks may differ.
        """
        return await fetch_one(self._connection, _CLAIM, {"kind": kind, "now": now, "lease": lease})

    async def claim_own(self, job_id: UUID, *, now: datetime) -> None:
        """Take a job that this transaction has just added: its request does the work."""
        await self._connection.execute(
            "UPDATE job SET status = 'running', attempts = 1, lease_until = clock_timestamp() + %s, started_at = %s"
            " WHERE id = %s",
            (INLINE_LEASE, now, job_id),
        )

    async def renew(self, job_id: UUID, *, attempt: int, lease: timedelta, progress: Progress) -> bool:
        """Keep a job and show how far it is; return whether it is still this attempt's."""
        cursor = await self._connection.execute(
            "UPDATE job SET lease_until = clock_timestamp() + %s, done = %s, total = %s,"
            " version = version + (done <> %s OR total IS DISTINCT FROM %s)::int,"
            " updated_at = CASE WHEN done <> %s OR total IS DISTINCT FROM %s THEN clock_timestamp() ELSE updated_at END"
            " WHERE id = %s AND status = 'running' AND attempts = %s",
            (lease, *(progress.done, progress.total) * 3, job_id, attempt),
        )
        return cursor.rowcount == 1

    async def finish(
        self,
        job_id: UUID,
        *,
        attempt: int,
        now: datetime,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        done: int | None = None,
    ) -> bool:
        """End a job, in the transaction of its effect; return whether it was still this attempt's.

        ``done`` is how many steps it turned out to have; None leaves what was shown.

        Where it returns False, another worker has taken over: the transaction must be given up.
        """
        cursor = await self._connection.execute(
            _FINISH,
            {
                "id": job_id,
                "attempt": attempt,
                "now": now,
                "status": "failed" if error is not None else "succeeded",
                "result": Jsonb(result) if result is not None else None,
                "error": Jsonb(error) if error is not None else None,
                "done": done,
            },
        )
        return cursor.rowcount == 1
