"""Names on statements and whom they mean, on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from payrec.models.common import ListQuery, Public

AliasStatus = Literal["active", "contradicted"]


class AliasLessonPublic(Public):
    """What one match has said of a name."""

    match_id: UUID
    taught_by: str
    """Who decided the match; `engine:` and its version where a reference proved it."""
    taught_at: datetime
    """When it was decided."""
    agrees: bool
    """It was accepted, not rejected."""
    counterparty_name: str


class AliasPublic(Public):
    """A name on statements, learned of accepted matches."""

    id: UUID
    created_at: datetime
    updated_at: datetime
    version: int
    statement_name: str
    counterparty_name: str
    confirmations: int
    """Accepted matches that say so, as many as are kept."""
    disagreements: int
    """Accepted matches of this name and another counterparty."""
    rejections: int
    """Rejected matches of this name and this counterparty."""
    status: AliasStatus
    """`contradicted` where another counterparty is meant as well, or as many matches were rejected as accepted."""
    first_taught_at: datetime | None
    last_taught_at: datetime | None
    lessons: list[AliasLessonPublic]
    """The newest of them."""
    explanation: str


class AliasQuery(ListQuery):
    """Filters of the aliases."""

    sort: Literal["createdAt", "-createdAt"] = "-createdAt"
    status: AliasStatus | None = None
