"""How big a job is before it is begun: what memory it takes, and with which others it queues."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from payrec.constants.jobs import (
    BACKTEST_BYTES_PER_ROW,
    BACKTEST_ROWS_MAX,
    JOB_BYTES_FIXED,
    JOB_SMALL_FILE_BYTES_MAX,
    JOB_SMALL_ROWS_MAX,
    MATCH_RUN_BYTES_PER_ROW,
)
from payrec.constants.match_imports import IMPORTED_LEARNED_LEGS_MAX
from payrec.constants.sources import SYNC_BYTES_HELD
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.imports import ImportStore
from payrec.storage.match_runs import MatchRunStore


class Lane(StrEnum):
    """Which jobs queue together: none waits for one of another lane."""

    SMALL = "small"
    """Over within a second or two."""
    LARGE = "large"
    """May take minutes, and much memory."""
    REMOTE = "remote"
    """Waits for somebody else's server, which may be slow, most of the time; takes little of anything here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSize:
    """What a worker has to know before it takes a job."""

    memory_bytes: int
    lane: Lane


SIZE_UNKNOWN: Final = JobSize(memory_bytes=JOB_BYTES_FIXED, lane=Lane.LARGE)
"""Of what is read and written in pieces: memory is flat, and nobody knows how long it takes."""


async def size_of(connection: Connection, job: dict[str, Any]) -> JobSize:
    """Return the size of a job of the tenant environment that the connection is in.

    A run with filters is taken for one over everything, which is the most that it can be.
    """
    if job["kind"] in {"match", "learn"}:
        # What was decided elsewhere is looked at with what is open.
        own = IMPORTED_LEARNED_LEGS_MAX * len(Side) if job["kind"] == "learn" else 0
        rows = own + await MatchRunStore(connection).open_rows(counted=JOB_SMALL_ROWS_MAX + 1)
        lane = Lane.SMALL if rows <= JOB_SMALL_ROWS_MAX else Lane.LARGE
        return JobSize(memory_bytes=JOB_BYTES_FIXED + rows * MATCH_RUN_BYTES_PER_ROW, lane=lane)
    if job["kind"] == "backtest":
        rows = await MatchRunStore(connection).stored_rows(most=BACKTEST_ROWS_MAX)
        return JobSize(memory_bytes=JOB_BYTES_FIXED + rows * BACKTEST_BYTES_PER_ROW, lane=Lane.LARGE)
    if job["kind"] == "import":
        row = await ImportStore(connection).of_job(job["id"])
        is_small = row is not None and row["bytes"] <= JOB_SMALL_FILE_BYTES_MAX
        return JobSize(memory_bytes=JOB_BYTES_FIXED, lane=Lane.SMALL if is_small else Lane.LARGE)
    if job["kind"] == "sync":
        return JobSize(memory_bytes=SYNC_BYTES_HELD, lane=Lane.REMOTE)
    return SIZE_UNKNOWN
