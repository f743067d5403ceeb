"""Work of a tenant environment. The queue only wakes a worker; this row is the truth about the job."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class Job(TenantTable, table=True):
    """One job. While it runs its worker renews ``lease_until``; past it, another worker runs the job again."""

    __tablename__ = "job"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('match', 'import', 'sync', 'export', 'backtest', 'redeliver', 'learn', 'erasure')",
            name="job_kind_known",
        ),
        CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="job_status_known"),
        Index(
            "job_match_run_unique",
            "kind",
            unique=True,
            postgresql_where=text("kind = 'match' AND status IN ('queued', 'running')"),
        ),
        Index("job_by_status", "status", "id"),
        Index("job_waiting", "kind", "id", postgresql_where=text("status IN ('queued', 'running')")),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    started_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    finished_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    lease_until: datetime | None = Field(sa_column=column(datetime, nullable=True))
    done: int = Field(sa_column=column(int, default="0"))
    total: int | None = Field(sa_column=column(int, nullable=True))
    attempts: int = Field(sa_column=integer(default="0"))
    """Also the fence: only the newest attempt may finish the job."""
    version: int = Field(sa_column=integer(default="1"))
    kind: str = Field(sa_column=column(str))
    status: str = Field(sa_column=column(str))
    actor: str = Field(sa_column=column(str))
    request_id: str = Field(sa_column=column(str))
    params: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    result: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    error: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    cancel_requested_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """From then on the job ends as cancelled and in no other way, as soon as its worker sees it."""
    next_attempt_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """When one that has failed is tried again; on the database's clock, as the leases."""
    repeat_requested: bool = Field(sa_column=column(bool, default="false"))
    """Of a matching run: something was stored since it was taken, so another run has to follow it."""
    handed_over: int = Field(sa_column=integer(default="0"))
    """Of the attempts, those whose worker was asked to end: they say nothing of the job."""
