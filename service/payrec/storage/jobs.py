"""Jobs: the rows that are the truth, and the wake-up that tells a worker to look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from payrec.domain.progress import Progress
from payrec.models.jobs import JobQuery, JobStatus
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
IS_WAITING: Final = """(
    (status = 'queued' AND (next_attempt_at IS NULL OR next_attempt_at <= statement_timestamp()))
    OR (status = 'running' AND lease_until < statement_timestamp())
)"""
"""Whether a job may be taken."""
_NEXT: Final = sql.SQL("SELECT {} FROM job WHERE kind = %s AND {} ORDER BY id LIMIT 1").format(
    sql.SQL(_COLUMNS), sql.SQL(IS_WAITING)
)
# Who looks at all that is open reads after this what has asked for another run before. A narrower run does not, and one
# that is tried again may fail in the end: what arrived during the attempts before is then matched by the next run.
_CLAIM: Final = sql.SQL(
    """UPDATE job SET status = 'running', attempts = attempts + 1, lease_until = statement_timestamp() + %(lease)s,
        started_at = coalesce(started_at, %(now)s), updated_at = %(now)s, version = version + 1, next_attempt_at = NULL,
        repeat_requested = repeat_requested
            AND (attempts > 0 OR params @> '{{"dryRun": true}}' OR params ?| ARRAY['expectedFilter', 'incomingFilter'])
    WHERE id = (SELECT id FROM job WHERE id = %(id)s AND {} FOR UPDATE SKIP LOCKED) RETURNING {}"""
).format(sql.SQL(IS_WAITING), sql.SQL(_COLUMNS))
_GIVE_BACK: Final = """
    UPDATE job SET status = 'queued', lease_until = NULL, next_attempt_at = statement_timestamp() + %(delay)s,
        handed_over = handed_over + %(handed_over)s, updated_at = %(now)s, version = version + 1
    WHERE id = %(id)s AND status = 'running' AND attempts = %(attempt)s AND cancel_requested_at IS NULL
"""
_QUEUED: Final = """
    SELECT count(*) AS count FROM (
        SELECT FROM job WHERE kind = %(kind)s AND status = 'queued' LIMIT %(limit)s
    ) q
"""
_TIME_LEFT: Final = """
    SELECT min(CASE status WHEN 'running' THEN lease_until ELSE next_attempt_at END) - clock_timestamp() AS left
    FROM job WHERE kind = %s AND status IN ('queued', 'running')
"""
# What was sealed for the worker alone (an erasure) goes, however the job ends.
_FINISH: Final = """
    UPDATE job SET status = %(status)s, result = coalesce(%(result)s, result), error = %(error)s, finished_at = %(now)s,
        updated_at = %(now)s, version = version + 1, lease_until = NULL, params = params - 'sealed',
        done = coalesce(%(done)s, done), total = coalesce(%(done)s, total)
    WHERE id = %(id)s AND status IN ('queued', 'running') AND attempts = %(attempt)s
        AND (cancel_requested_at IS NOT NULL) = (%(status)s = 'cancelled')
    RETURNING repeat_requested
"""
_ADVANCE: Final = """
    UPDATE job SET result = %(result)s, done = %(done)s, total = %(total)s, updated_at = %(now)s, version = version + 1
    WHERE id = %(id)s AND status = 'running' AND attempts = %(attempt)s AND cancel_requested_at IS NULL
"""
_REQUEST_CANCEL: Final = sql.SQL(
    """UPDATE job SET cancel_requested_at = %(now)s, updated_at = %(now)s, version = version + 1
    WHERE id = %(id)s AND status IN ('queued', 'running') AND cancel_requested_at IS NULL RETURNING {}"""
).format(sql.SQL(_COLUMNS))
_UNLESS_RUNNING: Final = " ON CONFLICT (kind) WHERE kind = 'match' AND status IN ('queued', 'running') DO NOTHING"
_ACTIVE_RUN: Final = "SELECT id FROM job WHERE kind = 'match' AND status IN ('queued', 'running')"


class Ended(NamedTuple):
    """A job that was ended."""

    repeat_requested: bool
    """Of a match run: another one has to follow."""


class JobStore:
    """``job`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, job: dict[str, Any]) -> None:
        """Add a job that is no match run."""
        await insert(self._connection, Job, job)

    async def queued(self, kind: str, *, limit: int) -> int:
        """Return how many jobs of the kind wait for a worker, up to ``limit``."""
        row = await fetch_one(self._connection, _QUEUED, {"kind": kind, "limit": limit})
        return 0 if row is None else int(row["count"])

    async def wake(self, environment_id: UUID, kind: str, *, delay: timedelta = timedelta()) -> None:
        """Tell the workers, when this transaction commits, that a job of the kind is waiting, or will be."""
        await self._connection.execute("SELECT control.enqueue(%s, %s, %s)", (environment_id, kind, delay))

    async def time_left(self, kind: str) -> timedelta | None:
        """Return after which time a job of the kind may have lost its worker or is tried again; None where none is."""
        row = await fetch_one(self._connection, _TIME_LEFT, (kind,))
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

    async def request_repeat(self) -> bool:
        """Have another match run follow the one that is queued or running; return whether there is one.

        One that nobody has begun, and that looks at all that is open, forgets it when it is taken.
        Until this transaction ends, nobody takes that run, and it cannot finish.
        """
        cursor = await self._connection.execute(
            "UPDATE job SET repeat_requested = TRUE WHERE kind = 'match' AND status IN ('queued', 'running')"
        )
        return cursor.rowcount == 1

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

    async def next(self, kind: str) -> dict[str, Any] | None:
        """Return the oldest job of a kind that waits, or whose worker has gone. It is nobody's until it is claimed."""
        return await fetch_one(self._connection, _NEXT, (kind,))

    async def claim(self, job_id: UUID, *, now: datetime, lease: timedelta = LEASE) -> dict[str, Any] | None:
        """Take a job that waits, or whose worker has gone; None where somebody else has it. Nobody waits for it.

        Leases are counted on the database's clock, because the workers' clocks may differ.
        """
        return await fetch_one(self._connection, _CLAIM, {"id": job_id, "now": now, "lease": lease})

    async def give_back(self, job_id: UUID, *, attempt: int, now: datetime, delay: timedelta | None = None) -> bool:
        """Let a job wait again, of which the attempt has left nothing; return whether it was still its own, and wanted.

        Nobody takes it before ``delay`` is over. Without one it is handed over: its worker ends, and the attempt counts
        for nothing.
        """
        given = {"delay": delay or timedelta(), "handed_over": int(delay is None)}
        cursor = await self._connection.execute(_GIVE_BACK, {"id": job_id, "attempt": attempt, "now": now, **given})
        return cursor.rowcount == 1

    async def claim_own(self, job_id: UUID, *, now: datetime) -> None:
        """Take a job that this transaction has just added: its request does the work."""
        await self._connection.execute(
            "UPDATE job SET status = 'running', attempts = 1, lease_until = statement_timestamp() + %s, started_at = %s"
            " WHERE id = %s",
            (INLINE_LEASE, now, job_id),
        )

    async def renew(self, job_id: UUID, *, attempt: int, lease: timedelta, progress: Progress) -> bool:
        """Keep a job and show how far it is; return whether it is still this attempt's, and wanted."""
        cursor = await self._connection.execute(
            "UPDATE job SET lease_until = statement_timestamp() + %s, done = %s, total = %s,"
            " version = version + (done <> %s OR total IS DISTINCT FROM %s)::int,"
            " updated_at = CASE WHEN done <> %s OR total IS DISTINCT FROM %s THEN n.now ELSE updated_at END"
            " FROM (SELECT statement_timestamp() AS now) n"
            " WHERE id = %s AND status = 'running' AND attempts = %s AND cancel_requested_at IS NULL",
            (lease, *(progress.done, progress.total) * 3, job_id, attempt),
        )
        return cursor.rowcount == 1

    async def request_cancel(self, job_id: UUID, *, now: datetime) -> dict[str, Any] | None:
        """Let a job end as cancelled; return it as it is, and None where it has ended or was asked before."""
        return await fetch_one(self._connection, _REQUEST_CANCEL, {"id": job_id, "now": now})

    async def advance(
        self, job_id: UUID, *, attempt: int, now: datetime, result: dict[str, Any], progress: Progress
    ) -> bool:
        """Note what a part of a job came to, in the transaction of its effect; the next attempt goes on from there.

        Returns whether the job is still this attempt's, and wanted; as ``finish``.
        """
        cursor = await self._connection.execute(
            _ADVANCE,
            {
                "id": job_id,
                "attempt": attempt,
                "now": now,
                "result": Jsonb(result),
                "done": progress.done,
                "total": progress.total,
            },
        )
        return cursor.rowcount == 1

    async def finish(
        self,
        job_id: UUID,
        *,
        attempt: int,
        now: datetime,
        status: JobStatus = "succeeded",
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        done: int | None = None,
    ) -> Ended | None:
        """End a job, in the transaction of its effect, if it is still this attempt's.

        ``done`` is how many steps it turned out to have; None leaves what was shown, and so does ``result``. One that
        nobody has begun is at attempt 0.

        Where it returns None, another worker has taken over, or the job is to end as cancelled and ``status`` is not
        that: the transaction must be given up.
        """
        row = await fetch_one(
            self._connection,
            _FINISH,
            {
                "id": job_id,
                "attempt": attempt,
                "now": now,
                "status": status,
                "result": Jsonb(result) if result is not None else None,
                "error": Jsonb(error) if error is not None else None,
                "done": done,
            },
        )
        return None if row is None else Ended(**row)
