"""The statements of imported files."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class Statement(TenantTable, table=True):
    """One statement of an imported file, with its balances, whether they add up and what it follows."""

    __tablename__ = "statement"
    __table_args__ = (
        ForeignKeyConstraint(["import_id"], ["import.id"], name="statement_import"),
        CheckConstraint(
            "continuity IN ('ok', 'gap', 'overlap', 'first', 'not_available')", name="statement_continuity_known"
        ),
        Index(
            "statement_by_chain",
            "account",
            "currency",
            "chained_on",
            "import_id",
            "ordinal",
            postgresql_where=text("chained_on IS NOT NULL"),
        ),
        Index("statement_apart", "account", "currency", postgresql_where=text("chained_on IS NULL")),
    )

    import_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    opening_minor: int | None = Field(sa_column=column(int, nullable=True))
    closing_minor: int | None = Field(sa_column=column(int, nullable=True))
    balance_difference_minor: int | None = Field(sa_column=column(int, nullable=True))
    credit_minor: int = Field(sa_column=column(int))
    debit_minor: int = Field(sa_column=column(int))
    first_booking_on: date | None = Field(sa_column=column(date, nullable=True))
    last_booking_on: date | None = Field(sa_column=column(date, nullable=True))
    entry_count: int = Field(sa_column=integer())
    transaction_count: int = Field(sa_column=integer())
    kind: str = Field(sa_column=column(str))
    account: str | None = Field(sa_column=column(str, nullable=True))
    currency: str | None = Field(sa_column=column(str, nullable=True))
    statement_id: str | None = Field(sa_column=column(str, nullable=True))
    sequence_number: str | None = Field(sa_column=column(str, nullable=True))
    balance_check: str = Field(sa_column=column(str))
    balances: list[dict[str, Any]] = Field(sa_column=column(dict))
    page_number: int | None = Field(sa_column=column(int, nullable=True))
    is_last_page: bool | None = Field(sa_column=column(bool, nullable=True))
    from_on: date | None = Field(sa_column=column(date, nullable=True))
    to_on: date | None = Field(sa_column=column(date, nullable=True))
    opened_on: date | None = Field(sa_column=column(date, nullable=True))
    """The day of the opening balance."""
    chained_on: date | None = Field(sa_column=column(date, nullable=True))
    """The day by which it is ordered among the statements of its account; None for one that takes no part."""
    continuity: str | None = Field(sa_column=column(str, nullable=True))
    """How it follows those before it, as far as they have come; None for what was stored before that was looked at."""
    expected_opening_minor: int | None = Field(sa_column=column(int, nullable=True))
    """What the statement before it closed with, where there is a gap or an overlap."""
    expected_on: date | None = Field(sa_column=column(date, nullable=True))
    """The day of that statement."""
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that stored it; null for what was stored before that was kept."""
