"""Rejections that somebody has taken back: what was rejected may be proposed again."""

from __future__ import annotations

from uuid import UUID

from sqlmodel import Field

from payrec.tables.base import TenantTable, column


class RejectionForgotten(TenantTable, table=True):
    """A rejected match that stands in nobody's way any more. That it was rejected is said by the match."""

    __tablename__ = "rejection_forgotten"

    match_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID = Field(sa_column=column(UUID))
