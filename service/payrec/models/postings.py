"""Postings on the wire: what the books are given, and what they have taken over."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from payrec.constants.postings import POSTINGS_PAGE_MAX, SEQUENCE_MAX
from payrec.models.common import ListQuery, Public, Request, Text

PostingKind = Literal[
    "match", "match_reversal", "return", "return_reversal", "classification", "classification_reversal"
]


class PostingLine(Public):
    """One line. Its side is that of double entry: money that comes in is a debit of its account."""

    code: str
    direction: Literal["debit", "credit"]
    amount_minor: int
    currency: str
    expected_external_id: str | None = Field(default=None, exclude_if=lambda v: v is None)
    """Of the line of what was owed, where the item has an external id."""
    incoming_transaction_id: UUID | None = Field(default=None, exclude_if=lambda v: v is None)
    """Of the line of the account: such lines of a transaction come to what is neither open nor ignored of it."""


class PostingPublic(Public):
    """What one decision means for the books, balanced in each currency. It never changes."""

    collection: ClassVar[str] = "/postings"

    sequence: int
    """1, 2, 3, … without a gap."""
    effective_on: date
    kind: PostingKind
    source_id: UUID
    """The match, the classified line, or the return."""
    reverses_sequence: int | None = Field(default=None, exclude_if=lambda v: v is None)
    """The posting that it takes back, in part or what is left of it."""
    lines: list[PostingLine]
    created_at: datetime


class PostingQuery(ListQuery):
    """Which postings: who reads goes on ``after`` the last sequence seen."""

    sort: Literal["sequence"] = "sequence"
    limit: Annotated[int, Field(ge=1, le=POSTINGS_PAGE_MAX)] = 200
    after: Annotated[int, Field(ge=0, le=SEQUENCE_MAX)] | None = None


class PostingAcknowledge(Request):
    """All postings through one are in the books, as a batch of theirs."""

    through_sequence: Annotated[int, Field(ge=1, le=SEQUENCE_MAX)]
    external_batch_id: Text


class PostingAcknowledgementPublic(Public):
    """What was taken over."""

    id: UUID
    from_sequence: int
    """The first one that had not been taken over before."""
    through_sequence: int
    external_batch_id: str
    acknowledged_by: str
    created_at: datetime


class PostingAcknowledgementQuery(ListQuery):
    """What was taken over, the newest first."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    external_batch_id: Text | None = None
