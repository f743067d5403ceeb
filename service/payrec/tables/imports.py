"""Uploaded files: what came, what became of every record, and the statements in them."""

from __future__ import annotations

from datetime import date, datetime
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
            "status <> 'completed' OR records = accepted + duplicates + skipped + rejected",
            name="import_counts_add_up",
        ),
        CheckConstraint("octet_length(content_key) = 32", name="import_content_key_length"),
        Index("import_content_unique", "content_key", unique=True, postgresql_where=text("status <> 'failed'")),
        Index("import_by_status", "status", "id"),
        Index("import_by_job", "job_id"),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    job_id: UUID = Field(sa_column=column(UUID))
    blob_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The file, until it is processed."""
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


class ImportProblem(TenantTable, table=True):
    """Something to tell about one record, statement or the file."""

    __tablename__ = "import_problem"
    __table_args__ = (ForeignKeyConstraint(["import_id"], ["import.id"], name="import_problem_import"),)

    import_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    line: int | None = Field(sa_column=column(int, nullable=True))
    statement_index: int | None = Field(sa_column=integer(nullable=True))
    rejects: bool = Field(sa_column=column(bool))
    severity: str = Field(sa_column=column(str))
    code: str = Field(sa_column=column(str))
    detail: str = Field(sa_column=column(str))


class Statement(TenantTable, table=True):
    """One statement of an imported file, with its balances and whether they add up."""

    __tablename__ = "statement"
    __table_args__ = (
        ForeignKeyConstraint(["import_id"], ["import.id"], name="statement_import"),
        Index("statement_by_account", "account", "last_booking_on"),
    )

    import_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    opening_minor: int | None = Field(sa_column=column(int, nullable=True))
    closing_minor: int | None = Field(sa_column=column(int, nullable=True))
    balance_difference_minor: int | None = Field(sa_column=column(int, nullable=True))
    credit_minor: int = Field(sa_column=column(int))
    debit_minor: int = Field(sa_column=column(int))
    first_booking_on: date | None = Field(sa_column=column(date, nullable=True))
    last_booking_on: date | None = Field(sa_column=column(date, nullable=True))
    entry_count: int = Field(sa_column=integer())
    transaction_count: int = Field(sa_column=integer())
    kind: str = Field(sa_column=column(str))
    account: str | None = Field(sa_column=column(str, nullable=True))
    currency: str | None = Field(sa_column=column(str, nullable=True))
    statement_id: str | None = Field(sa_column=column(str, nullable=True))
    sequence_number: str | None = Field(sa_column=column(str, nullable=True))
    balance_check: str = Field(sa_column=column(str))
    balances: list[dict[str, Any]] = Field(sa_column=column(dict))


class BlobChunk(TenantTable, table=True):
    """A piece of a stored file; deleted when the file has been used."""

    __tablename__ = "blob_chunk"

    blob_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    data: bytes = Field(sa_column=column(bytes))
