"""The accounts that money moves on, what they were before, and what the books say of them."""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, Index, Integer
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class Account(TenantTable, table=True):
    """One account in one currency: its lines are those that state its identifier and move that currency."""

    __tablename__ = "account"
    __table_args__ = (
        CheckConstraint("kind IN ('bank', 'psp', 'cash', 'clearing')", name="account_kind_known"),
        CheckConstraint("statement_every IN ('day', 'week', 'month')", name="account_statement_every_known"),
        CheckConstraint("(opening_minor IS NULL) = (opening_on IS NULL)", name="account_opening_whole"),
        Index("account_unique", "identifier", "currency", unique=True),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made it what it is; null for one made of lines from before there were accounts."""
    opening_minor: int | None = Field(sa_column=column(int, nullable=True))
    """The balance with which ``opening_on`` begins, signed."""
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    opening_on: date | None = Field(sa_column=column(date, nullable=True))
    version: int = Field(sa_column=integer(default="1"))
    statement_due_after_hours: int | None = Field(sa_column=integer(nullable=True))
    opening_given: bool = Field(sa_column=column(bool, default="false"))
    """Somebody has set the opening balance; else it is that of the earliest statement, and moves with it."""
    identifier: str = Field(sa_column=column(str))
    name: str | None = Field(sa_column=column(str, nullable=True))
    kind: str = Field(sa_column=column(str))
    currency: str = Field(sa_column=column(str))
    statement_every: str | None = Field(sa_column=column(str, nullable=True))
    statements_from: date | None = Field(sa_column=column(date, nullable=True))
    """Statements of periods that end on this day or later are waited for; null where none are."""


class AccountState(TenantTable, table=True):
    """What an account was before its present state."""

    __tablename__ = "account_state"

    account_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made it so."""
    opening_minor: int | None = Field(sa_column=column(int, nullable=True))
    opening_on: date | None = Field(sa_column=column(date, nullable=True))
    version: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))


class BookBalance(TenantTable, table=True):
    """What the books say that an account had at the end of a day. The latest version counts; none is changed."""

    __tablename__ = "book_balance"

    account_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID = Field(sa_column=column(UUID))
    balance_minor: int = Field(sa_column=column(int))
    created_at: datetime = Field(sa_column=column(datetime))
    balance_on: date = Field(sa_column=column(date, primary_key=True))
    version: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))


class StatementNotice(TenantTable, table=True):
    """A period of which it was told that the account has no statement."""

    __tablename__ = "statement_notice"

    account_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    told_at: datetime = Field(sa_column=column(datetime))
    begins_on: date = Field(sa_column=column(date, primary_key=True))
