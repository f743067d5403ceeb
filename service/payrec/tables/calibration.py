"""What was learned of the decisions of a tenant environment: each version for good, the last one in force."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class CalibrationVersion(TenantTable, table=True):
    """One version. Matches name theirs, so none is ever changed or deleted."""

    __tablename__ = "calibration"
    __table_args__ = (
        CheckConstraint("version > 0", name="calibration_version_positive"),
        CheckConstraint("wrong BETWEEN 0 AND reviewed", name="calibration_wrong_within_reviewed"),
    )

    version: int = Field(sa_column=column(int, primary_key=True))
    created_at: datetime = Field(sa_column=column(datetime))
    since: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """Decisions up to here are forgotten; null when none are."""
    decisions: int = Field(sa_column=integer(default="0"))
    """Of how many it was learned."""
    reviewed: int = Field(sa_column=integer(default="0"))
    wrong: int = Field(sa_column=integer(default="0"))
    bound_ppm: int = Field(sa_column=integer(default="0"))
    threshold_milli: int | None = Field(sa_column=integer(nullable=True))
    corrections: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    """Lists of thousandths of log-odds, one for each level, by feature."""
    curve: list[Any] = Field(sa_column=column(dict, default="'[]'"))
    """Least score in thousandths and probability in millionths, both rising."""
    counts: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    """Decisions and right ones, a pair for each level, by feature."""
    change_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The change that learned it or reset everything."""
