"""What happened, written in the transaction in which it happened: change, audit record, outbox event.

Every business transaction writes one ``change`` as its last statement; the change's clock is the instant of all that
the transaction did, and the valid-time columns of other tables point to it. Audit records and events hang on it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Identity, Index
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, TenantTable, array, column


class Change(TenantTable, table=True):
    """The instant of one transaction."""

    __tablename__ = "change"
    __table_args__ = (Index("change_by_instant", "at"),)

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    at: datetime = Field(sa_column=column(datetime, default="clock_timestamp()"))


class AuditRecord(TenantTable, table=True):
    """Who did what to which resource, with before and after. Appended; an erasure alone takes content out of it."""

    __tablename__ = "audit_record"
    __table_args__ = (
        Index("audit_record_by_resource", "resource_id"),
        Index("audit_record_by_action", "action", "change_id", "ordinal"),
    )

    change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    actor: str = Field(sa_column=column(str))
    action: str = Field(sa_column=column(str))
    resource_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    reason: str | None = Field(sa_column=column(str, nullable=True))
    before: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    after: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    request_id: str = Field(sa_column=column(str))


class Outbox(TenantTable, table=True):
    """An event that is true once its transaction has committed; a bulk change writes one row for many resources.

    It is written when its transaction holds the rows that it is about. So of two changes of one resource the later one
    has the greater ``sequence``, whatever any clock says.
    """

    __tablename__ = "outbox"
    __table_args__ = (Index("outbox_by_sequence", "sequence", unique=True),)

    change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    type: str = Field(sa_column=column(str))
    resource_ids: list[UUID] = Field(sa_column=array(UUID))
    data: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    sequence: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False))


class ControlAuditRecord(ControlTable, table=True):
    """Who did what to tenants, users and keys."""

    __tablename__ = "audit_record"
    __table_args__ = (
        Index("control_audit_record_by_resource", "resource_id", "id"),
        {"schema": CONTROL_SCHEMA},
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    at: datetime = Field(sa_column=column(datetime, default="clock_timestamp()"))
    tenant_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    environment: str | None = Field(sa_column=column(str, nullable=True))
    actor: str = Field(sa_column=column(str))
    action: str = Field(sa_column=column(str))
    resource_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    before: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    after: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    request_id: str = Field(sa_column=column(str))


class ControlOutbox(ControlTable, table=True):
    """An event of a tenant or a key that one environment is told of: on its way to that environment's outbox.

    It stays until it has its place in the feed there. The row is the wake-up as well.
    """

    __tablename__ = "outbox"
    __table_args__ = (
        ForeignKeyConstraint(
            ["environment_id"],
            ["control.tenant_environment.id"],
            name="control_outbox_environment",
            ondelete="CASCADE",
        ),
        Index("control_outbox_by_environment", "environment_id"),
        Index("control_outbox_by_sequence", "sequence", unique=True),
        {"schema": CONTROL_SCHEMA},
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    """Of the change in the environment as well, so that the event cannot come there twice."""
    environment_id: UUID = Field(sa_column=column(UUID))
    resource_id: UUID = Field(sa_column=column(UUID))
    occurred_at: datetime = Field(sa_column=column(datetime, default="clock_timestamp()"))
    type: str = Field(sa_column=column(str))
    data: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    sequence: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False))
