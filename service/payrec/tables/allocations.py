"""How much of a transaction is allocated, and its status: the row that makes double allocation impossible.

There is no row while a transaction is untouched (``open`` or ``unmatched``, nothing matched, version 1). Whoever
touches it first inserts the row; everyone after updates it, and the constraint decides, whatever runs at once.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Final
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer

RARE_STATUSES: Final = ("partially_matched", "void", "ignored", "classified", "reversed", "linked")
"""Statuses of few transactions, which have an index."""

RARE_STATUS: Final = f"status IN ({', '.join(repr(status) for status in RARE_STATUSES)})"
"""The predicate of that index."""


class Allocation(TenantTable, table=True):
    """The state of one transaction of one side (1 expected, 2 incoming)."""

    __tablename__ = "allocation"
    __table_args__ = (
        CheckConstraint("side IN (1, 2)", name="allocation_side_known"),
        CheckConstraint("allocated_minor BETWEEN 0 AND amount_minor", name="allocation_within_amount"),
        CheckConstraint(
            "status IN ('open', 'unmatched', 'pending', 'partially_matched', 'matched', 'void', 'ignored',"
            " 'classified', 'reversed', 'linked')",
            name="allocation_status_known",
        ),
        Index(
            "allocation_by_status",
            "side",
            "status",
            "transaction_id",
            postgresql_where=text(RARE_STATUS),
        ),
    )

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    amount_minor: int = Field(sa_column=column(int))
    """What may be allocated: the amount less what was settled before, and less what a return has taken back."""
    allocated_minor: int = Field(sa_column=column(int, default="0"))
    """The interface's ``matchedAmountMinor``."""
    updated_at: datetime = Field(sa_column=column(datetime))
    version: int = Field(sa_column=integer())
    side: int = Field(sa_column=column(int, primary_key=True, small=True))
    status: str = Field(sa_column=column(str))
    reason_code: str | None = Field(sa_column=column(str, nullable=True))
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made the present state; null for one from before history began."""
    reason: str | None = Field(sa_column=column(str, nullable=True))
    """Why it is ``void``, ``ignored`` or ``classified``, in the words of who said so."""
    category: str | None = Field(sa_column=column(str, nullable=True))
    """As what a line is ``classified``."""
    posting_code: str | None = Field(sa_column=column(str, nullable=True))
    """Where the books have what is classified."""
    effective_on: date | None = Field(sa_column=column(date, nullable=True))
    """Of what was decided about a line: the day from which it counts, or from which it does not any more."""
