"""What another system had open at an instant, compared with what was open here then."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, ForeignKeyConstraint, Index, Integer
from sqlmodel import Field

from payrec.tables.base import TenantTable, column


class ExpectedSnapshot(TenantTable, table=True):
    """A snapshot that came. The import of its file has its status, its options and the instant when it was taken."""

    __tablename__ = "expected_snapshot"
    __table_args__ = (ForeignKeyConstraint(["id"], ["import.id"], name="expected_snapshot_import"),)

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    """Of the import as well."""
    figures: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    """Counts and sums by currency of both sides and of each kind of difference; None until it was compared."""


class ExpectedSnapshotDifference(TenantTable, table=True):
    """One item in which the two differ. Numbered by kind and externalId; what is not there has no amount."""

    __tablename__ = "expected_snapshot_difference"
    __table_args__ = (
        ForeignKeyConstraint(["snapshot_id"], ["expected_snapshot.id"], name="expected_snapshot_difference_snapshot"),
        CheckConstraint(
            "kind IN ('missing_here', 'missing_there', 'amount_differs')",
            name="expected_snapshot_difference_kind_known",
        ),
        Index("expected_snapshot_difference_by_kind", "snapshot_id", "kind", "ordinal"),
    )

    snapshot_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    expected_transaction_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The item here; of one that was missing, what came since or was created."""
    here_minor: int | None = Field(sa_column=column(int, nullable=True))
    there_minor: int | None = Field(sa_column=column(int, nullable=True))
    ordinal: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    kind: str = Field(sa_column=column(str))
    external_id: str | None = Field(sa_column=column(str, nullable=True))
    here_currency: str | None = Field(sa_column=column(str, nullable=True))
    here_direction: str | None = Field(sa_column=column(str, nullable=True))
    here_status: str | None = Field(sa_column=column(str, nullable=True))
    there_currency: str | None = Field(sa_column=column(str, nullable=True))
    there_direction: str | None = Field(sa_column=column(str, nullable=True))
    outcome: str | None = Field(sa_column=column(str, nullable=True))
    """Of an item that was missing here: ``came_since``, ``created`` or ``not_created``."""
    detail: str | None = Field(sa_column=column(str, nullable=True))
    """Why it was not created."""
