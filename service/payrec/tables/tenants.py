"""Control: tenants and their environments. One environment is one schema, owned by one role."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, array, column, integer


class Tenant(ControlTable, table=True):
    """A customer of the installation."""

    __tablename__ = "tenant"
    __table_args__ = (
        UniqueConstraint("slug", name="tenant_slug_unique"),
        CheckConstraint("status IN ('provisioning', 'active', 'suspended', 'deleting')", name="tenant_status_known"),
        CheckConstraint(
            "(resource_namespace IS NULL) = (resource_name IS NULL)"
            " AND (resource_uid IS NULL OR resource_name IS NOT NULL)",
            name="tenant_resource_whole",
        ),
        CheckConstraint(
            "orphaned_at IS NULL OR (resource_uid IS NULL AND resource_name IS NOT NULL)",
            name="tenant_orphan_without_owner",
        ),
        Index(
            "tenant_resource_uid_unique",
            "resource_uid",
            unique=True,
            postgresql_where=text("resource_uid IS NOT NULL"),
        ),
        Index(
            "tenant_resource_unique",
            "resource_namespace",
            "resource_name",
            unique=True,
            postgresql_where=text("resource_name IS NOT NULL AND orphaned_at IS NULL"),
        ),
        {"schema": CONTROL_SCHEMA},
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    slug: str = Field(sa_column=column(str))
    name: str = Field(sa_column=column(str))
    status: str = Field(sa_column=column(str))
    settings: dict[str, Any] = Field(sa_column=column(dict, default="'{}'"))
    version: int = Field(sa_column=integer(default="1"))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    resource_uid: str | None = Field(sa_column=column(str, nullable=True))
    """UID of the Tenant resource that the tenant belongs to."""
    resource_namespace: str | None = Field(sa_column=column(str, nullable=True))
    """Where that resource is, or, without a UID, is expected."""
    resource_name: str | None = Field(sa_column=column(str, nullable=True))
    resource_fields: list[str] = Field(sa_column=array(str, default="'{}'"))
    """What the resource names, and nobody else changes: JSON pointers (``/name``, ``/settings/matching/autoRun``)."""
    orphaned_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """When its resource left it behind; a resource of the same namespace and name may take it over."""


class TenantEnvironment(ControlTable, table=True):
    """One environment of a tenant: where its schema is and how far it is migrated."""

    __tablename__ = "tenant_environment"
    __table_args__ = (
        UniqueConstraint("tenant_id", "environment", name="tenant_environment_unique"),
        UniqueConstraint("schema_name", name="tenant_environment_schema_unique"),
        UniqueConstraint("role_name", name="tenant_environment_role_unique"),
        ForeignKeyConstraint(["tenant_id"], ["control.tenant.id"], name="tenant_environment_tenant"),
        CheckConstraint(
            "environment IN ('development', 'staging', 'production', 'test')", name="tenant_environment_name_known"
        ),
        CheckConstraint("status IN ('provisioning', 'active', 'suspended')", name="tenant_environment_status_known"),
        {"schema": CONTROL_SCHEMA},
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    tenant_id: UUID = Field(sa_column=column(UUID))
    environment: str = Field(sa_column=column(str))
    schema_name: str = Field(sa_column=column(str))
    role_name: str = Field(sa_column=column(str))
    status: str = Field(sa_column=column(str))
    revision: str | None = Field(sa_column=column(str, nullable=True))
    """Head of the tenant migrations that the schema is at; null until the tables are there."""
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
