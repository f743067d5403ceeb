"""Seals of the audit log: what was recorded is committed to, so that nobody can change it unnoticed."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from payrec.tables.base import TenantTable, column


class AuditSeal(TenantTable, table=True):
    """One batch of records, sealed after their commit. Each root covers the one before it. Appended, never updated."""

    __tablename__ = "audit_seal"
    __table_args__ = (
        CheckConstraint("octet_length(root) = 32 AND octet_length(previous_root) = 32", name="audit_seal_root_lengths"),
    )

    sequence: int = Field(sa_column=column(int, primary_key=True))
    """1, 2, 3, …, without a gap."""
    id: UUID = Field(sa_column=column(UUID))
    """The resource of the event ``audit.sealed``."""
    sealed_at: datetime = Field(sa_column=column(datetime))
    count: int = Field(sa_column=column(int))
    """Records in it."""
    previous_root: bytes = Field(sa_column=column(bytes))
    root: bytes = Field(sa_column=column(bytes))


class AuditCommitment(TenantTable, table=True):
    """What a seal says of one record: a hash of who did what, and of the hash of a salt and what that was.

    It stays when the content goes, then the salt goes as well; and when the record goes, then the hash of the content
    too. So nobody can find out by guessing what was there.
    """

    __tablename__ = "audit_commitment"
    __table_args__ = (
        CheckConstraint("octet_length(commitment) = 32 AND octet_length(salt) = 16", name="audit_commitment_lengths"),
        CheckConstraint("octet_length(content) = 32", name="audit_commitment_content_length"),
        Index("audit_commitment_by_seal", "seal"),
    )

    change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    ordinal: int = Field(sa_column=column(int, primary_key=True))
    seal: int = Field(sa_column=column(int))
    """Its ``sequence``."""
    salt: bytes | None = Field(sa_column=column(bytes, nullable=True))
    commitment: bytes = Field(sa_column=column(bytes))
    content: bytes | None = Field(sa_column=column(bytes, nullable=True))


class AuditUnsealed(TenantTable, table=True):
    """A committed change whose records are in no seal yet; written with them."""

    __tablename__ = "audit_unsealed"

    change_id: UUID = Field(sa_column=column(UUID, primary_key=True))
