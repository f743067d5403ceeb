"""Control: dropped environments whose files may still be in an object store."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Index
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, column


class BlobRemnant(ControlTable, table=True):
    """An environment that is no more; its files are deleted, and it is forgotten when there are none."""

    __tablename__ = "blob_remnant"
    __table_args__ = (Index("blob_remnant_by_age", "dropped_at"), {"schema": CONTROL_SCHEMA})

    environment_id: UUID = Field(sa_column=column(UUID, primary_key=True))
    tenant_id: UUID = Field(sa_column=column(UUID))
    dropped_at: datetime = Field(sa_column=column(datetime))
