"""Uploaded files: what came, and what became of every record."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import TenantTable, column, integer


class Import(TenantTable, table=True):
    """One upload. Records = accepted + duplicates + skipped + rejected, always, once it is completed."""

    __tablename__ = "import"
    __table_args__ = (
        CheckConstraint("status IN ('processing', 'completed', 'failed')", name="import_status_known"),
        CheckConstraint(
            "resource IN ('incoming-transactions', 'expected-transactions', 'expected-snapshots', 'matches')",
            name="import_resource_known",
        ),
        CheckConstraint(
            "status <> 'completed' OR records = accepted + duplicates + skipped + rejected",
            name="import_counts_add_up",
        ),
        CheckConstraint("octet_length(content_key) = 32", name="import_content_key_length"),
        Index("import_content_unique", "content_key", unique=True, postgresql_where=text("status <> 'failed'")),
        Index("import_by_status", "status", "id"),
        Index("import_by_job", "job_id"),
        Index(
            "import_by_data_source",
            "data_source_id",
            "id",
            postgresql_where=text("data_source_id IS NOT NULL"),
        ),
        Index("import_with_file", "created_at", postgresql_where=text("blob_id IS NOT NULL")),
        Index("import_by_object", "object_id", postgresql_where=text("object_id IS NOT NULL")),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    job_id: UUID = Field(sa_column=column(UUID))
    blob_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The file as it came; None when nothing was stored of it, and after its retention."""
    content_key: bytes = Field(sa_column=column(bytes))
    """SHA-256 over the bytes and the options: the same upload again is the same import."""
    bytes_: int = Field(sa_column=column(int, name="bytes"))
    records: int = Field(sa_column=column(int, default="0"))
    accepted: int = Field(sa_column=column(int, default="0"))
    duplicates: int = Field(sa_column=column(int, default="0"))
    skipped: int = Field(sa_column=column(int, default="0"))
    rejected: int = Field(sa_column=column(int, default="0"))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    version: int = Field(sa_column=integer(default="1"))
    status: str = Field(sa_column=column(str))
    name: str = Field(sa_column=column(str))
    sha256: str = Field(sa_column=column(str))
    format: str | None = Field(sa_column=column(str, nullable=True))
    format_version: str | None = Field(sa_column=column(str, nullable=True))
    encoding: str | None = Field(sa_column=column(str, nullable=True))
    options: dict[str, Any] = Field(sa_column=column(dict))
    error: dict[str, Any] | None = Field(sa_column=column(dict, nullable=True))
    data_source_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """Whose file it is; the data source may have been deleted since."""
    object_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The file's object in the object store; None while it is kept in ``blob_chunk``, and when it is not kept."""
    resource: str = Field(sa_column=column(str, default="'incoming-transactions'"))
    """What the records of the file are of."""


class ImportProblem(TenantTable, table=True):
    """Something to tell about one record, statement or the file."""

    __tablename__ = "import_problem"
    __table_args__ = (
        ForeignKeyConstraint(["import_id"], ["import.id"], name="import_problem_import"),
        # What is told of how statements follow each other changes when one comes that was missing.
        Index(
            "import_problem_of_continuity",
            "import_id",
            "statement_index",
            postgresql_where=text("code IN ('statement_gap', 'statement_overlap')"),
        ),
    )

    import_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    line: int | None = Field(sa_column=column(int, nullable=True))
    statement_index: int | None = Field(sa_column=integer(nullable=True))
    rejects: bool = Field(sa_column=column(bool))
    severity: str = Field(sa_column=column(str))
    code: str = Field(sa_column=column(str))
    detail: str = Field(sa_column=column(str))


class BlobChunk(TenantTable, table=True):
    """A piece of a stored file."""

    __tablename__ = "blob_chunk"

    blob_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    data: bytes = Field(sa_column=column(bytes))
