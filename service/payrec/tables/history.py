"""What was before: every state that a transaction or match has been in, so that any instant can be shown again.

The present is in the tables of the nouns, and a row there names the change that made it. Here is what is not the
present any more; ``payrec.storage.history`` says how it is written and read.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, text
from sqlmodel import Field

from payrec.tables.allocations import RARE_STATUS
from payrec.tables.base import TenantTable, column, integer


class AllocationState(TenantTable, table=True):
    """A state of a row of ``allocation``: all but the first of those that a run has copied in."""

    __tablename__ = "allocation_state"
    __table_args__ = (
        Index("allocation_state_by_status", "side", "status", "transaction_id", postgresql_where=text(RARE_STATUS)),
    )

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made it; null for one from before history began."""
    amount_minor: int = Field(sa_column=column(int))
    allocated_minor: int = Field(sa_column=column(int))
    updated_at: datetime = Field(sa_column=column(datetime))
    version: int = Field(sa_column=column(int, primary_key=True))
    side: int = Field(sa_column=column(int, primary_key=True, small=True))
    status: str = Field(sa_column=column(str))
    reason_code: str | None = Field(sa_column=column(str, nullable=True))
    reason: str | None = Field(sa_column=column(str, nullable=True))
    category: str | None = Field(sa_column=column(str, nullable=True))
    posting_code: str | None = Field(sa_column=column(str, nullable=True))
    effective_on: date | None = Field(sa_column=column(date, nullable=True))


class MatchState(TenantTable, table=True):
    """A state of a match. That a proposal was untouched before its first change is implied."""

    __tablename__ = "match_state"

    match_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made it; null for one from before history began."""
    superseded_by: UUID | None = Field(sa_column=column(UUID, nullable=True))
    returned_minor: int = Field(sa_column=column(int))
    updated_at: datetime = Field(sa_column=column(datetime))
    decided_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    effective_on: date | None = Field(sa_column=column(date, nullable=True))
    version: int = Field(sa_column=column(int, primary_key=True))
    sampled: bool = Field(sa_column=column(bool))
    status: str = Field(sa_column=column(str))
    decided_by: str | None = Field(sa_column=column(str, nullable=True))
    decision_reason: str | None = Field(sa_column=column(str, nullable=True))
    reversed_on: date | None = Field(sa_column=column(date, nullable=True))


class StatedRow(TenantTable, table=True):
    """What an expected or incoming transaction said until a change: the whole row as it was."""

    __tablename__ = "stated_row"
    __table_args__ = (Index("stated_row_by_change", "until_change_id"),)

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    until_change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    revision: int = Field(sa_column=integer())
    side: int = Field(sa_column=column(int, primary_key=True, small=True))
    stated: dict[str, Any] = Field(sa_column=column(dict))
    """By the names of the table's columns."""


class OpenReasonState(TenantTable, table=True):
    """Why a transaction was open until a change."""

    __tablename__ = "open_reason_state"

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that said it; null for what was said before history began."""
    until_change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    side: int = Field(sa_column=column(int, primary_key=True, small=True))
    reason: int = Field(sa_column=column(int, small=True))
    """The number of a ``Reason``."""


class HistorySpan(TenantTable, table=True):
    """One row: since when states can be shown."""

    __tablename__ = "history_span"

    begun_at: datetime = Field(sa_column=column(datetime, primary_key=True, default="now()"))
