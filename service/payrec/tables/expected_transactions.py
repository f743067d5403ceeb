"""What the company expects to be paid, or to pay, and the narrow set of it that is still open."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.constants import AMOUNT_MINOR_MAX, KEYS_VERSION
from payrec.tables.base import TenantTable, array, column, integer


class ExpectedTransaction(TenantTable, table=True):
    """An expected transaction as it was stated. Its status and matched amount are in ``allocation``."""

    __tablename__ = "expected_transaction"
    __table_args__ = (
        CheckConstraint(f"amount_minor BETWEEN 1 AND {AMOUNT_MINOR_MAX}", name="expected_transaction_amount_in_range"),
        CheckConstraint("direction IN ('credit', 'debit')", name="expected_transaction_direction_known"),
        Index(
            "expected_transaction_external_id_unique",
            "external_id",
            unique=True,
            postgresql_where=text("external_id IS NOT NULL"),
        ),
        Index(
            "expected_transaction_issued_reference_unique",
            "reference",
            unique=True,
            postgresql_where=text("reference_issued"),
        ),
        Index("expected_transaction_by_due", text("(COALESCE(due_on, 'infinity'::date))"), "id"),
        Index("expected_transaction_by_amount", "amount_minor", "id"),
        Index("expected_transaction_by_group", "group_key", "id", postgresql_where=text("group_key IS NOT NULL")),
        Index("expected_transaction_by_reference", "reference", "id", postgresql_where=text("reference IS NOT NULL")),
        Index("expected_transaction_by_key", "reference_key", postgresql_where=text("reference_key IS NOT NULL")),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    """UUIDv7 made at ``created_at``, so that its order is the order of creation."""
    amount_minor: int = Field(sa_column=column(int))
    settled_before_minor: int = Field(sa_column=column(int, default="0"))
    min_amount_minor: int | None = Field(sa_column=column(int, nullable=True))
    max_amount_minor: int | None = Field(sa_column=column(int, nullable=True))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    change_id: UUID = Field(sa_column=column(UUID))
    """The change that stored it: from when on it counts."""
    revision: int = Field(sa_column=integer(default="1"))
    """Counts changes of what matching looks at; a proposal made for an older one is stale."""
    due_on: date | None = Field(sa_column=column(date, nullable=True))
    expected_from_on: date | None = Field(sa_column=column(date, nullable=True))
    expected_to_on: date | None = Field(sa_column=column(date, nullable=True))
    currency: str = Field(sa_column=column(str))
    direction: str = Field(sa_column=column(str))
    external_id: str | None = Field(sa_column=column(str, nullable=True))
    reference: str | None = Field(sa_column=column(str, nullable=True))
    end_to_end_id: str | None = Field(sa_column=column(str, nullable=True))
    counterparty_name: str | None = Field(sa_column=column(str, nullable=True))
    counterparty_account: str | None = Field(sa_column=column(str, nullable=True))
    account: str | None = Field(sa_column=column(str, nullable=True))
    group_key: str | None = Field(sa_column=column(str, nullable=True))
    description: str | None = Field(sa_column=column(str, nullable=True))
    labels: dict[str, Any] = Field(sa_column=column(dict, default="'{}'", name="metadata"))
    """The interface's ``metadata``; SQLAlchemy keeps that name for itself."""
    reference_issued: bool = Field(sa_column=column(bool, default="false"))
    """Its reference was made here, and no other one that was has the same."""
    terms: list[dict[str, Any]] | None = Field(sa_column=column(dict, nullable=True))
    """Amounts less than its own that settle it whole until a day: ``amountMinor, until``, by day."""
    reference_key: int | None = Field(sa_column=column(int, nullable=True))
    """By what a line that quotes it in full is known when nothing is open any more."""


class ExpectedOpen(TenantTable, table=True):
    """One row for each expected transaction with an open amount: what a matching run reads, and no more.

    The keys are normalised at ingest and hashed to 64 bits. The row goes when nothing is open any more.
    """

    __tablename__ = "expected_open"
    __table_args__ = (
        *(
            Index(f"expected_open_by_{name}", f"{name}_key", postgresql_where=text(f"{name}_key IS NOT NULL"))
            for name in ("reference", "end_to_end", "group", "account", "name", "own_account")
        ),
        Index("expected_open_by_amount", "open_minor"),
        Index("expected_open_stale", "transaction_id", postgresql_where=text(f"keys_version < {KEYS_VERSION}")),
    )

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    open_minor: int = Field(sa_column=column(int))
    total_minor: int = Field(sa_column=column(int))
    min_minor: int | None = Field(sa_column=column(int, nullable=True))
    max_minor: int | None = Field(sa_column=column(int, nullable=True))
    reference_key: int | None = Field(sa_column=column(int, nullable=True))
    end_to_end_key: int | None = Field(sa_column=column(int, nullable=True))
    name_key: int | None = Field(sa_column=column(int, nullable=True))
    account_key: int | None = Field(sa_column=column(int, nullable=True))
    own_account_key: int | None = Field(sa_column=column(int, nullable=True))
    group_key: int | None = Field(sa_column=column(int, nullable=True))
    tie_key: int = Field(sa_column=column(int))
    due_day: int | None = Field(sa_column=integer(nullable=True))
    from_day: int | None = Field(sa_column=integer(nullable=True))
    to_day: int | None = Field(sa_column=integer(nullable=True))
    revision: int = Field(sa_column=integer(default="1"))
    direction: int = Field(sa_column=column(int, small=True))
    currency: str = Field(sa_column=column(str))
    terms: list[int] | None = Field(sa_column=array(int, nullable=True))
    """For each of the item's terms the amount, and then the last day on which it is enough."""
    reference_digits: int | None = Field(sa_column=column(int, nullable=True))
    """The digits of the reference as a number with a 1 before them."""
    keys_version: int = Field(sa_column=column(int, small=True, default="0"))
    """Which code has made the keys: who writes them says it, and who does not know to is one of an earlier version."""


class CounterpartyName(TenantTable, table=True):
    """The name of the counterparties of open items, as matching compares it: made anew where it is missing."""

    __tablename__ = "counterparty_name"

    name_key: int = Field(sa_column=column(int, primary_key=True))
    text: str = Field(sa_column=column(str))
    normal: str = Field(sa_column=column(str))


class OverdueNotice(TenantTable, table=True):
    """An expected transaction of which it was told that it is overdue. It is told again if it was not meanwhile."""

    __tablename__ = "overdue_notice"

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    told_at: datetime = Field(sa_column=column(datetime))
