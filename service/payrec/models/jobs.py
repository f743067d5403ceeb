"""Jobs on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import Field

from payrec.models.common import ListQuery, Public, Request, Resource

JobKind = Literal["match", "import", "sync", "export", "backtest", "redeliver", "learn", "erasure"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class JobCreate(Request):
    """A job to start; ``params`` has a schema for each kind, that of the kind's own endpoint where there is one."""

    kind: Literal["match", "export", "sync", "backtest", "redeliver"]
    params: dict[str, Any] = Field(default_factory=dict)


class JobProgress(Public):
    """How far a job is."""

    done: int
    total: int | None


class JobPublic(Resource):
    """A job."""

    collection: ClassVar[str] = "/jobs"

    kind: JobKind
    status: JobStatus
    progress: JobProgress
    params: dict[str, Any]
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    attempts: int
    next_attempt_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class JobQuery(ListQuery):
    """Filters of the jobs."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: JobStatus | None = None
    kind: JobKind | None = None
