"""Matches and their legs, partitioned by the time-ordered id so that a big run can attach its own partition.

Legs have no foreign keys to transactions: a million of them would cost more than all the rest of a run, nothing ever
deletes a transaction, and a leg is only written by a statement that has just read both of its sides.

The indexes that hold many of their rows are those of the partitions, see ``payrec.storage.partitions``.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, array, column, integer


class Match(TenantTable, table=True):
    """A proposal or decision that transactions belong together."""

    __tablename__ = "match"
    __table_args__ = (
        CheckConstraint(
            "status IN ('proposed', 'pending_approval', 'accepted', 'rejected', 'superseded', 'reversed')",
            name="match_status_known",
        ),
        CheckConstraint("confidence IN ('exact', 'high', 'medium', 'low')", name="match_confidence_known"),
        Index("match_by_person", "decided_at", postgresql_where=text("left(decided_by, 7) <> 'engine:'")),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    run_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    superseded_by: UUID | None = Field(sa_column=column(UUID, nullable=True))
    amount_minor: int = Field(sa_column=column(int))
    returned_minor: int = Field(sa_column=column(int, default="0"))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    decided_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    effective_on: date | None = Field(sa_column=column(date, nullable=True))
    version: int = Field(sa_column=integer(default="1"))
    score: int = Field(sa_column=integer())
    """Log-odds in thousandths."""
    candidates: int = Field(sa_column=integer(default="1"))
    """How many proposals competed for the same transactions, this one included."""
    sampled: bool = Field(sa_column=column(bool, default="false"))
    status: str = Field(sa_column=column(str))
    kind: str = Field(sa_column=column(str))
    confidence: str = Field(sa_column=column(str))
    uniqueness: str = Field(sa_column=column(str))
    currency: str = Field(sa_column=column(str))
    created_by: str = Field(sa_column=column(str))
    decided_by: str | None = Field(sa_column=column(str, nullable=True))
    decision_reason: str | None = Field(sa_column=column(str, nullable=True))
    levels: list[int] | None = Field(sa_column=array(int, nullable=True, small=True))
    """The evidence: one small level a feature, in the engine's order of features; rendered when read."""
    alternatives: list[dict[str, Any]] | None = Field(sa_column=column(dict, nullable=True))
    adjustments: list[dict[str, Any]] | None = Field(sa_column=column(dict, nullable=True))
    """What the match settles without money: ``type, side, id, minor, currency, rate``, on a transaction of a leg."""
    proof: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    """Of a group, how it was found and within what bounds; null for a pair."""
    content_key: int | None = Field(sa_column=column(int, nullable=True))
    """A hash of all that the engine says of a proposal: a later run that says the same keeps it."""
    created_change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made it: from when on it is there; null for one from before history began."""
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that made its present state; null while that is its first one, or from before history began."""
    reversed_on: date | None = Field(sa_column=column(date, nullable=True))
    """The day from which it does not count any more: that of the decision that took it back."""


class Leg(TenantTable, table=True):
    """Two transactions that settle each other by an amount. Counts while valid: from acceptance to reversal.

    ``amount_minor`` is taken from the incoming one, ``settled_minor`` from the expected one. Where both are of one
    side, the contra transaction has what the other side would have.
    """

    __tablename__ = "leg"
    __table_args__ = (
        CheckConstraint(
            "num_nonnulls(expected_id, contra_expected_id, incoming_id, contra_incoming_id) = 2", name="leg_joins_two"
        ),
        CheckConstraint("amount_minor > 0 AND settled_minor > 0", name="leg_amounts_positive"),
        {"postgresql_partition_by": "RANGE (match_id)"},
    )

    match_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True, small=True))
    expected_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    contra_expected_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    incoming_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    contra_incoming_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    valid_from: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that allocated it; null while it is only proposed."""
    valid_to: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that released it again."""
    amount_minor: int = Field(sa_column=column(int))
    settled_minor: int = Field(sa_column=column(int))
    expected_revision: int | None = Field(sa_column=integer(nullable=True, default="1"))
    """Null where there is no such transaction, as the other two."""
    incoming_revision: int | None = Field(sa_column=integer(nullable=True, default="1"))
    settled_currency: str = Field(sa_column=column(str))
    contra_revision: int | None = Field(sa_column=integer(nullable=True))
    """Of the contra transaction, of which a leg has one at most."""
