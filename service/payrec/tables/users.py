"""Control: people. Their passwords are the identity provider's, never ours."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, array, column, integer


class AppUser(ControlTable, table=True):
    """A user of one tenant, or a platform administrator."""

    __tablename__ = "app_user"
    __table_args__ = (
        UniqueConstraint("username", name="app_user_username_unique"),
        Index("app_user_subject_unique", "subject", unique=True, postgresql_where=text("subject IS NOT NULL")),
        ForeignKeyConstraint(["tenant_id"], ["control.tenant.id"], name="app_user_tenant"),
        CheckConstraint("status IN ('active', 'disabled')", name="app_user_status_known"),
        Index("app_user_by_tenant", "tenant_id", "id"),
        {"schema": CONTROL_SCHEMA},
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    tenant_id: UUID = Field(sa_column=column(UUID))
    subject: str | None = Field(sa_column=column(str, nullable=True))
    username: str = Field(sa_column=column(str))
    email: str | None = Field(sa_column=column(str, nullable=True))
    display_name: str | None = Field(sa_column=column(str, nullable=True))
    roles: list[str] = Field(sa_column=array(str))
    environments: list[str] = Field(sa_column=array(str))
    status: str = Field(sa_column=column(str))
    version: int = Field(sa_column=integer(default="1"))
    created_at: datetime = Field(sa_column=column(datetime))
    updated_at: datetime = Field(sa_column=column(datetime))
    of_resource: bool = Field(sa_column=column(bool, default="false"))
    """Whether the tenant's resource has made the user, and may disable it."""
