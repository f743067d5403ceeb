"""Control: API keys. Only a keyed digest of the key is here."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, column


class ApiKey(ControlTable, table=True):
    """A key of exactly one tenant environment."""

    __tablename__ = "api_key"
    __table_args__ = (
        UniqueConstraint("public_id", name="api_key_public_id_unique"),
        ForeignKeyConstraint(["tenant_id"], ["control.tenant.id"], name="api_key_tenant"),
        CheckConstraint("read OR write", name="api_key_opens_something"),
        CheckConstraint("octet_length(digest) = 32", name="api_key_digest_length"),
        CheckConstraint("state IN ('pending', 'active', 'retiring')", name="api_key_state_known"),
        CheckConstraint("state <> 'retiring' OR expires_at IS NOT NULL", name="api_key_retiring_ends"),
        Index(
            "api_key_by_resource_key",
            "tenant_id",
            "resource_key",
            postgresql_where=text("resource_key IS NOT NULL AND revoked_at IS NULL"),
        ),
        Index("api_key_by_environment", "tenant_id", "environment", "id"),
        Index(
            "api_key_by_expiry",
            "expires_at",
            postgresql_where=text("expiry_announced_at IS NULL AND revoked_at IS NULL AND expires_at IS NOT NULL"),
        ),
        {"schema": CONTROL_SCHEMA},
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    public_id: str = Field(sa_column=column(str))
    tenant_id: UUID = Field(sa_column=column(UUID))
    environment: str = Field(sa_column=column(str))
    name: str | None = Field(sa_column=column(str, nullable=True))
    digest: bytes = Field(sa_column=column(bytes))
    """HMAC-SHA-256 of the whole key under the server's pepper."""
    read: bool = Field(sa_column=column(bool))
    write: bool = Field(sa_column=column(bool))
    expires_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    revoked_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    last_used_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    created_by: str = Field(sa_column=column(str))
    created_at: datetime = Field(sa_column=column(datetime))
    expiry_announced_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """When ``api_key.expiring`` was sent for this key."""
    resource_key: str | None = Field(sa_column=column(str, nullable=True))
    """Name of the key in the tenant's resource; null where a person has made it."""
    state: str = Field(sa_column=column(str, default="'active'"))
    """Where the key is in a rotation: ``pending``, ``active``, or ``retiring`` until it expires. Only such of a
    resource are ever anything but active, and all of them open the same until they are revoked."""
