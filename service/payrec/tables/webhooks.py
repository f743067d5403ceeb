"""Endpoints that are told of events, what became of each delivery, and when to look at an endpoint again."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, TenantTable, array, column, integer


class Webhook(TenantTable, table=True):
    """One endpoint, and its place in the feed. Whoever delivers holds the lease and the newest ``attempt``."""

    __tablename__ = "webhook"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'disabled')", name="webhook_status_known"),
        CheckConstraint("(status = 'disabled') = (disabled_reason IS NOT NULL)", name="webhook_disabled_for_a_reason"),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    position: int = Field(sa_column=column(int))
    """Up to here every event is settled: not wanted, or with a row in ``webhook_delivery``."""
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    previous_secret_until: datetime | None = Field(sa_column=column(datetime, nullable=True))
    lease_until: datetime | None = Field(sa_column=column(datetime, nullable=True))
    failing_since: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """When the first attempt after the last success failed."""
    paused_until: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """Until then, after many failures in a row, no further event is tried."""
    version: int = Field(sa_column=integer(default="1"))
    attempt: int = Field(sa_column=integer(default="0"))
    """Counts the leases; also the fence: only the newest one may store what became of deliveries."""
    failures: int = Field(sa_column=integer(default="0"))
    """In a row."""
    url: str = Field(sa_column=column(str))
    status: str = Field(sa_column=column(str))
    disabled_reason: str | None = Field(sa_column=column(str, nullable=True))
    description: str | None = Field(sa_column=column(str, nullable=True))
    events: list[str] = Field(sa_column=array(str))
    secret_sealed: bytes = Field(sa_column=column(bytes))
    """Encrypted; so is the next one."""
    previous_secret_sealed: bytes | None = Field(sa_column=column(bytes, nullable=True))


class WebhookDelivery(TenantTable, table=True):
    """What became of one event at one endpoint: the last attempt, and when the next one is.

    It refers to its webhook without a constraint, so that deleting an endpoint of many deliveries is quick; they go
    with their time.
    """

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'succeeded', 'failed')", name="webhook_delivery_status_known"),
        CheckConstraint(
            "(status = 'pending') = (next_attempt_at IS NOT NULL)", name="webhook_delivery_pending_is_tried_again"
        ),
        Index("webhook_delivery_due", "webhook_id", "next_attempt_at", postgresql_where=text("status = 'pending'")),
        Index(
            "webhook_delivery_pending",
            "webhook_id",
            "resource_id",
            "position",
            postgresql_where=text("status = 'pending'"),
        ),
        Index("webhook_delivery_failed", "webhook_id", "position", postgresql_where=text("status = 'failed'")),
        Index("webhook_delivery_by_position", "position"),
    )

    webhook_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    position: int = Field(sa_column=column(int, primary_key=True))
    """Of the event in the feed."""
    event_id: UUID = Field(sa_column=column(UUID))
    resource_id: UUID = Field(sa_column=column(UUID))
    created_at: datetime = Field(sa_column=column(datetime))
    attempted_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    next_attempt_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """The earliest; not before all earlier events of the resource are settled at this endpoint."""
    attempts: int = Field(sa_column=integer(default="0"))
    duration_ms: int | None = Field(sa_column=integer(nullable=True))
    response_status: int | None = Field(sa_column=integer(nullable=True))
    status: str = Field(sa_column=column(str))
    type: str = Field(sa_column=column(str))
    error: str | None = Field(sa_column=column(str, nullable=True))
    """Why the last attempt failed, as a code."""
    response_excerpt: str | None = Field(sa_column=column(str, nullable=True))


class WebhookQueue(ControlTable, table=True):
    """When an endpoint is to be looked at, for the workers, who cannot look into every environment all the time.

    A wake-up alone: the truth is the endpoint's row.
    """

    __tablename__ = "webhook_queue"
    __table_args__ = (
        Index("webhook_queue_by_due", "due_at"),
        {"schema": CONTROL_SCHEMA},
    )

    webhook_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    environment_id: UUID = Field(sa_column=column(UUID))
    due_at: datetime = Field(sa_column=column(datetime))
