"""What returns have taken back. That nothing is taken back twice is for ``allocation`` to say.

A payment that was taken back in part has that much less to allocate, and so has the return: the constraint
``allocation_within_amount`` holds for both, whatever runs at once.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column


class ReversalLink(TenantTable, table=True):
    """An amount of a return, and from where it takes it: from what a match settled, or from what was open."""

    __tablename__ = "reversal_link"
    __table_args__ = (
        CheckConstraint("amount_minor > 0 AND settled_minor >= 0", name="reversal_link_amounts_positive"),
        CheckConstraint("reversal_id <> incoming_id", name="reversal_link_joins_two"),
        CheckConstraint("expected_id IS NULL OR match_id IS NOT NULL", name="reversal_link_item_has_match"),
        Index("reversal_link_by_incoming", "incoming_id"),
        Index("reversal_link_early", "created_at", postgresql_where=text("match_id IS NULL")),
    )

    reversal_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    """The return."""
    incoming_id: UUID = Field(sa_column=column(UUID))
    """The payment."""
    expected_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    match_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    change_id: UUID = Field(sa_column=column(UUID))
    """The change that made it: from when on it counts."""
    amount_minor: int = Field(sa_column=column(int))
    settled_minor: int = Field(sa_column=column(int, default="0"))
    """What of the item's amount is open again, in the item's currency."""
    created_at: datetime = Field(sa_column=column(datetime))
    ordinal: int = Field(sa_column=column(int, primary_key=True, small=True))
    """Of the links of the return, from 1."""
    created_by: str = Field(sa_column=column(str))


class ReversalLinkState(TenantTable, table=True):
    """A link that held until a change: the payment was given back what was taken of it, so that it could pay first."""

    __tablename__ = "reversal_link_state"

    reversal_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    incoming_id: UUID = Field(sa_column=column(UUID))
    expected_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    match_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    change_id: UUID = Field(sa_column=column(UUID))
    until_change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    amount_minor: int = Field(sa_column=column(int))
    settled_minor: int = Field(sa_column=column(int, default="0"))
    created_at: datetime = Field(sa_column=column(datetime))
    ordinal: int = Field(sa_column=column(int, primary_key=True, small=True))
    created_by: str = Field(sa_column=column(str))
