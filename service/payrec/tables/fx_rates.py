"""Exchange rates: what one currency was worth in another on a day, as an exact decimal."""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, Index, Integer
from sqlmodel import Field

from payrec.tables.base import TenantTable, array, column, integer


class FxRate(TenantTable, table=True):
    """Units of ``quote`` for one of ``base``: ``mantissa`` by 10 to the power of ``places``."""

    __tablename__ = "fx_rate"
    __table_args__ = (
        CheckConstraint("base <> quote", name="fx_rate_joins_two"),
        CheckConstraint("mantissa > 0 AND places >= 0", name="fx_rate_positive"),
        Index("fx_rate_unique", "base", "quote", "rated_on", unique=True),
        Index("fx_rate_by_day", "rated_on", "id"),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID = Field(sa_column=column(UUID))
    mantissa: int = Field(sa_column=column(int))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    rated_on: date = Field(sa_column=column(date))
    version: int = Field(sa_column=integer(default="1"))
    places: int = Field(sa_column=column(int, small=True))
    base: str = Field(sa_column=column(str))
    quote: str = Field(sa_column=column(str))
    set_by: list[str] | None = Field(sa_column=array(str, nullable=True))
    """Who has set it last, as all that he acts as; unknown of those from before."""


class FxRateState(TenantTable, table=True):
    """What a rate that was corrected has been from a change on; one that never was has no row."""

    __tablename__ = "fx_rate_state"

    rate_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID = Field(sa_column=column(UUID))
    mantissa: int = Field(sa_column=column(int))
    version: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    places: int = Field(sa_column=column(int, small=True))
