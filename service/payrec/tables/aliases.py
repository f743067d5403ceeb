"""Names on statements, and which counterparty they were found to mean."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class Alias(TenantTable, table=True):
    """One name on statements. A forgotten one stays, so that it is not learned again."""

    __tablename__ = "alias"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'contradicted', 'forgotten')", name="alias_status_known"),
        Index("alias_name_unique", "statement_key", unique=True),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    statement_key: int = Field(sa_column=column(int))
    counterparty_key: int = Field(sa_column=column(int))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    version: int = Field(sa_column=integer(default="1"))
    confirmations: int = Field(sa_column=integer(default="1"))
    """In how many runs or lessons matches said so."""
    status: str = Field(sa_column=column(str))
    """``contradicted`` when two counterparties were meant: it tells nobody any more."""
    statement_name: str = Field(sa_column=column(str))
    counterparty_name: str = Field(sa_column=column(str))
