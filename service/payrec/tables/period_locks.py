"""Periods that are locked: no decision counts in them any more, and their statements stay what they were."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class PeriodLock(TenantTable, table=True):
    """All days up to one, of one account or of all, until somebody reopens them."""

    __tablename__ = "period_lock"
    __table_args__ = (
        Index("period_lock_by_account", "account", "through_on", postgresql_where=text("reopened_at IS NULL")),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID = Field(sa_column=column(UUID))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    locked_at: datetime = Field(sa_column=column(datetime, default="clock_timestamp()"))
    """By the database's clock, when nobody decided and nobody stored a line: what statements of its days show."""
    reopened_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """By the same clock; null while it binds."""
    open_line_count: int = Field(sa_column=column(int))
    """Lines that were open all the same, and so for the next two."""
    statement_gap_count: int = Field(sa_column=column(int))
    pending_approval_count: int = Field(sa_column=column(int))
    through_on: date = Field(sa_column=column(date))
    version: int = Field(sa_column=integer(default="1"))
    override: bool = Field(sa_column=column(bool))
    """Somebody has said that it is to be locked whatever is incomplete."""
    account: str | None = Field(sa_column=column(str, nullable=True))
    """The identifier; null for all accounts, and for lines of none."""
    reason: str = Field(sa_column=column(str))
    locked_by: str = Field(sa_column=column(str))
    reopened_by: str | None = Field(sa_column=column(str, nullable=True))
    reopen_reason: str | None = Field(sa_column=column(str, nullable=True))
    sums: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    """What is told at once of its last day: by the id of an account, count and sum of each part of its statement."""
