"""The row of a job that somebody has asked for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from payrec.services.work import Unit


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
