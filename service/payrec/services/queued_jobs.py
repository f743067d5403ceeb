"""The row of a job that somebody has asked for, and how many may wait."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from payrec.constants.jobs import JOBS_QUEUED_MAX, JOBS_QUEUED_RETRY_SECONDS
from payrec.errors import RateLimitedError
from payrec.services.work import Unit
from payrec.storage.jobs import JobStore

_ASKED_FOR: Final = frozenset({"import", "export", "backtest", "redeliver", "erasure"})
"""Kinds that anybody can ask for again and again; there is one match run, a sync of a source, a lesson of an import."""


async def check_queue(unit: Unit, kind: str) -> None:
    """Look that a tenant environment does not queue without end, before a job of the kind is added to it.

    Who asks at the same time is not counted: it may be some more.

    Raises
    ------
    RateLimitedError
    """
    if kind in _ASKED_FOR and await JobStore(unit.connection).queued(kind, limit=JOBS_QUEUED_MAX) >= JOBS_QUEUED_MAX:
        detail = f"{JOBS_QUEUED_MAX} jobs of the kind {kind} wait already"
        raise RateLimitedError(detail, retry_after_seconds=JOBS_QUEUED_RETRY_SECONDS)


def queued_job(unit: Unit, job_id: UUID, kind: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a new job of the unit's caller."""
    return {
        "id": job_id,
        "created_at": unit.now,
        "updated_at": unit.now,
        "kind": kind,
        "status": "queued",
        "actor": unit.caller.principal.actor,
        "request_id": unit.caller.request_id,
        "params": params,
    }
