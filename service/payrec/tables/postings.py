"""What the books are given: postings in one order without a gap, and how far they were taken over.

A posting is written once, by whoever numbers it, and never changed: what is taken back is another one.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, ForeignKeyConstraint, Index, Integer, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class Posting(TenantTable, table=True):
    """What one decision means for the books, balanced in each currency."""

    __tablename__ = "posting"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('match', 'match_reversal', 'return', 'return_reversal', 'classification',"
            " 'classification_reversal')",
            name="posting_kind_known",
        ),
        CheckConstraint("reverses_sequence < sequence", name="posting_reverses_earlier"),
        CheckConstraint(
            "CASE WHEN kind IN ('match', 'classification') THEN num_nonnulls(reverses_sequence, reverses_id) = 0"
            " WHEN kind = 'return' THEN num_nonnulls(reverses_sequence, reverses_id) <= 1"
            " ELSE num_nonnulls(reverses_sequence, reverses_id) = 1 END",
            name="posting_reverses_another",
        ),
        ForeignKeyConstraint(["codes_version"], ["posting_codes.version"], name="posting_codes_known"),
        Index(
            "posting_once",
            "source_id",
            "kind",
            "change_id",
            "reverses_sequence",
            "reverses_id",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        Index("posting_by_reversed", "reverses_sequence", postgresql_where=text("reverses_sequence IS NOT NULL")),
        Index("posting_by_reversed_match", "reverses_id", postgresql_where=text("reverses_id IS NOT NULL")),
    )

    sequence: int = Field(sa_column=column(int, primary_key=True))
    """Given after the commit of what it tells, without a gap: who has read up to one has missed none before it."""
    source_id: UUID = Field(sa_column=column(UUID))
    """The match, the line that is classified, or the return."""
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that classified or returned, which may happen again; null where it happens once."""
    reverses_sequence: int | None = Field(sa_column=column(int, nullable=True))
    created_at: datetime = Field(sa_column=column(datetime, default="clock_timestamp()"))
    effective_on: date = Field(sa_column=column(date))
    line_count: int = Field(sa_column=integer())
    codes_version: int = Field(sa_column=integer())
    kind: str = Field(sa_column=column(str))
    lines: list[dict[str, Any]] = Field(sa_column=column(dict))
    """As the interface tells them."""
    reverses_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The match that it takes back, where that has no posting: it was decided elsewhere, or rejected."""
    charged: dict[str, int] | None = Field(sa_column=column(dict, nullable=True))
    """What it says that providers have kept of lines, by their ids."""


class PostingCodes(TenantTable, table=True):
    """Codes by which postings were made, each time that they were others than before."""

    __tablename__ = "posting_codes"

    version: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    created_at: datetime = Field(sa_column=column(datetime, default="clock_timestamp()"))
    codes: dict[str, Any] = Field(sa_column=column(dict))


class PostingFeed(TenantTable, table=True):
    """How far postings are: one row, once there was something to look at."""

    __tablename__ = "posting_feed"
    __table_args__ = (CheckConstraint("id = 1", name="posting_feed_is_one"),)

    id: int = Field(sa_column=column(int, primary_key=True, small=True))
    sequence: int = Field(sa_column=column(int))
    """The last one that was given."""
    position: int = Field(sa_column=column(int))
    """Up to which place of the feed of events decisions were looked at."""


class PostingAcknowledgement(TenantTable, table=True):
    """Somebody has taken over all postings through one, as a batch of his."""

    __tablename__ = "posting_acknowledgement"
    __table_args__ = (
        Index("posting_acknowledgement_batch_unique", "external_batch_id", unique=True),
        Index("posting_acknowledgement_through_unique", "through_sequence", unique=True),
        CheckConstraint("through_sequence >= from_sequence", name="posting_acknowledgement_has_postings"),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    created_at: datetime = Field(sa_column=column(datetime))
    from_sequence: int = Field(sa_column=column(int))
    """The first one that had not been taken over before."""
    through_sequence: int = Field(sa_column=column(int))
    external_batch_id: str = Field(sa_column=column(str))
    acknowledged_by: str = Field(sa_column=column(str))
