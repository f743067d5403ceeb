"""Where files come from, and what is known of the files of each."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class DataSource(TenantTable, table=True):
    """A bank or a program whose files are uploaded or pulled; what an upload does not say is taken from here."""

    __tablename__ = "data_source"
    __table_args__ = (
        CheckConstraint("kind IN ('upload', 's3', 'gcs', 'azure', 'http', 'sftp')", name="data_source_kind_known"),
        Index("data_source_name_unique", "name", unique=True),
        Index("data_source_due", "next_sync_at", postgresql_where=text("next_sync_at IS NOT NULL AND enabled")),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID = Field(sa_column=column(UUID))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    last_sync_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """When a file of it was read last, well or not."""
    version: int = Field(sa_column=integer(default="1"))
    """Counts what people change; not what its files do to ``last_sync_at``, ``failing`` and ``last_error``."""
    enabled: bool = Field(sa_column=column(bool))
    failing: bool = Field(sa_column=column(bool, default="false"))
    """The last file could not be read, or the last sync left something that could not."""
    kind: str = Field(sa_column=column(str))
    name: str = Field(sa_column=column(str))
    format: str = Field(sa_column=column(str))
    account: str | None = Field(sa_column=column(str, nullable=True))
    schedule: str | None = Field(sa_column=column(str, nullable=True))
    """When it is pulled; null for what is uploaded, here and in the three below."""
    secret_ref: str | None = Field(sa_column=column(str, nullable=True))
    secret: bytes | None = Field(sa_column=column(bytes, nullable=True))
    """Encrypted; never told."""
    config: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    profile: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    last_error: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    """Why the last file could not be read; null after one that could."""
    next_sync_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """When it is looked at again: by its schedule, or earlier where a sync left something to do."""
    sync_job_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The last sync, which may still run."""
