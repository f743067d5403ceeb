"""Control: what is left of environments that were dropped, until their schemas and roles are gone as well."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Index
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, column, integer


class Tombstone(ControlTable, table=True):
    """A dropped environment: its schema under another name, if it had one, and its role."""

    __tablename__ = "tombstone"
    __table_args__ = (Index("tombstone_by_attempt", "next_attempt_at"), {"schema": CONTROL_SCHEMA})

    schema_name: str = Field(sa_column=column(str, primary_key=True))
    """What the schema is called now."""
    role_name: str = Field(sa_column=column(str))
    """Who owns it; another environment may have the role again."""
    tenant_id: UUID = Field(sa_column=column(UUID))
    """Whose it was; the tenant may be gone."""
    dropped_name: str = Field(sa_column=column(str))
    """What the schema was called."""
    dropped_at: datetime = Field(sa_column=column(datetime))
    attempts: int = Field(sa_column=integer(default="0"))
    next_attempt_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
    """Null when nobody tries any more."""
    error: str | None = Field(sa_column=column(str, nullable=True))
    """The class of what went wrong last."""
