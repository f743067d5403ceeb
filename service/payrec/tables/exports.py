"""Lists that were written into files."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column


class Export(TenantTable, table=True):
    """A file made of a list; its bytes are the blob of the same id, or an object. Both go when it expires."""

    __tablename__ = "export"
    __table_args__ = (
        ForeignKeyConstraint(["job_id"], ["job.id"], name="export_job"),
        CheckConstraint("format IN ('csv', 'parquet')", name="export_format_known"),
        CheckConstraint("bytes >= 0 AND rows >= 0", name="export_counted"),
        Index("export_by_expiry", "expires_at"),
        Index("export_by_object", "object_id", postgresql_where=text("object_id IS NOT NULL")),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    job_id: UUID = Field(sa_column=column(UUID))
    rows: int = Field(sa_column=column(int))
    """Lines of the file besides its header."""
    bytes: int = Field(sa_column=column(int))
    created_at: datetime = Field(sa_column=column(datetime))
    expires_at: datetime = Field(sa_column=column(datetime))
    resource: str = Field(sa_column=column(str))
    format: str = Field(sa_column=column(str))
    sha256: str = Field(sa_column=column(str))
    object_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The file's object in the object store; None when it is kept in ``blob_chunk``."""
