"""What payers say that their payments are for."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, Index, Integer
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class RemittanceAdvice(TenantTable, table=True):
    """A payment that was announced, whether or not it is there. None is changed."""

    __tablename__ = "remittance_advice"
    __table_args__ = (Index("remittance_advice_by_total", "total_minor", "currency"),)

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    """UUIDv7 made at ``created_at``."""
    change_id: UUID = Field(sa_column=column(UUID))
    total_minor: int = Field(sa_column=column(int))
    payment_key: int | None = Field(sa_column=column(int, nullable=True))
    """Of the payment reference, as those of open rows are made."""
    name_key: int | None = Field(sa_column=column(int, nullable=True))
    """Of the counterparty's name."""
    created_at: datetime = Field(sa_column=column(datetime))
    line_count: int = Field(sa_column=integer())
    currency: str = Field(sa_column=column(str))
    payment_reference: str | None = Field(sa_column=column(str, nullable=True))
    counterparty_name: str | None = Field(sa_column=column(str, nullable=True))


class RemittanceAdviceLine(TenantTable, table=True):
    """An item that the payment is for: what is paid of it, and what is held back."""

    __tablename__ = "remittance_advice_line"
    __table_args__ = (
        CheckConstraint("amount_minor > 0 AND deduction_minor >= 0", name="remittance_advice_line_amounts"),
    )

    advice_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    amount_minor: int = Field(sa_column=column(int))
    deduction_minor: int = Field(sa_column=column(int, default="0"))
    reference_key: int = Field(sa_column=column(int))
    ordinal: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    """Its place in the advice, from 1."""
    reference: str = Field(sa_column=column(str))
    reason: str | None = Field(sa_column=column(str, nullable=True))
    """Why something is held back, in the payer's words."""
