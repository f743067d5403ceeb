"""Matches that were rejected or reversed and are not proposed again, on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from payrec.models.common import ListQuery, Public
from payrec.models.matches import MatchKind

RejectionStatus = Literal["rejected", "reversed"]


class RejectedLegPublic(Public):
    """Two transactions that do not belong together."""

    expected_transaction_id: UUID | None
    contra_expected_transaction_id: UUID | None
    incoming_transaction_id: UUID | None
    contra_incoming_transaction_id: UUID | None


class MatchRejectionPublic(Public):
    """A match that somebody rejected or reversed, by its own id: while it stands here, it is not proposed again."""

    id: UUID
    created_at: datetime
    """When the match was proposed."""
    kind: MatchKind
    amount_minor: int
    amount: str
    currency: str
    legs: list[RejectedLegPublic]
    """The first of them."""
    leg_count: int
    status: RejectionStatus
    decided_at: datetime
    decided_by: str
    reason: str | None
    is_open: bool
    """All of its transactions are open still, so that it could be proposed."""


class MatchRejectionQuery(ListQuery):
    """Filters of the rejections."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: RejectionStatus | None = None
