"""What became of the objects that data sources show."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Uuid, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class DataSourceObject(TenantTable, table=True):
    """One content of one name at a source: read once, and known again whenever it is listed."""

    __tablename__ = "data_source_object"
    __table_args__ = (
        CheckConstraint("state IN ('seen', 'importing', 'imported', 'failed')", name="data_source_object_state_known"),
        Index("data_source_object_importing", "source_id", postgresql_where=text("state = 'importing'")),
    )

    source_id: UUID = Field(sa_column=Column(Uuid, ForeignKey("data_source.id", ondelete="CASCADE"), primary_key=True))
    import_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    size: int | None = Field(sa_column=column(int, nullable=True))
    created_at: datetime = Field(sa_column=column(datetime))
    """When it was listed first; it has not changed since, or it would be another row."""
    updated_at: datetime = Field(sa_column=column(datetime))
    attempts: int = Field(sa_column=integer(default="0"))
    """How often it was tried since its source was changed last."""
    source_version: int = Field(sa_column=integer())
    """The version of the source that ``attempts`` are counted for."""
    object_key: bytes = Field(sa_column=column(bytes, primary_key=True))
    """SHA-256 of name and version, which may be too long for an index."""
    state: str = Field(sa_column=column(str, default="'seen'"))
    name: str = Field(sa_column=column(str))
    version: str = Field(sa_column=column(str))
    sha256: str | None = Field(sa_column=column(str, nullable=True))
    error: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    """Why it could not be read, the last time."""
