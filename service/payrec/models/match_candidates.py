"""Candidates of one open transaction on the wire."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field

from payrec.models.common import Public
from payrec.models.matches import EvidencePublic


class MatchCandidatePublic(Public):
    """A transaction of the other side that shares something with this one, and why it is not proposed."""

    expected_transaction_id: UUID
    incoming_transaction_id: UUID
    score: float
    """Log-odds that the two belong together."""
    reason_code: str | None = Field(description="What forbids the pair; null when nothing does.")
    would_match_if: str | None = Field(description="What is missing, as the end of a sentence.")
    difference_minor: int | None
    """Incoming less expected, in minor units; null between two currencies."""
    days_outside: int
    """Days beyond the date window: negative before it, positive after it."""
    match_id: UUID | None
    """The proposal that joins the two, if there is one."""
    evidence: list[EvidencePublic]


class ClosedItemPublic(Public):
    """An expected transaction that the incoming one quotes in full, though nothing of it is open any more."""

    expected_transaction_id: UUID
    status: str
    match_ids: list[UUID]
    """The accepted matches that settle it, the latest first, at most 10."""


class MatchCandidateList(Public):
    """The nearest candidates, the best first; none where nothing is open, or a blind review waits."""

    data: list[MatchCandidatePublic]
    closed: list[ClosedItemPublic]
    """What may be paid twice: at most 5, the latest first; none of an expected transaction."""
