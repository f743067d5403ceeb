"""Why transactions stay open, as the last run said.

Apart from the open rows: a run says it of hundreds of thousands at once, and writing them anew, with their indexes,
took ten times as long.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlmodel import Field

from payrec.tables.base import TenantTable, column


class OpenReason(TenantTable, table=True):
    """Why the last run proposed nothing for an open transaction of one side (1 expected, 2 incoming)."""

    __tablename__ = "open_reason"
    __table_args__ = (CheckConstraint("side IN (1, 2)", name="open_reason_side_known"),)

    transaction_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    side: int = Field(sa_column=column(int, primary_key=True, small=True))
    reason: int = Field(sa_column=column(int, small=True))
    """The number of a ``Reason``."""
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that said so; null for what was said before history began."""
