"""Erasures: that texts were erased, how many, and what had to stay; never which texts these were."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlmodel import Field

from payrec.tables.base import TenantTable, column


class Erasure(TenantTable, table=True):
    """One erasure."""

    __tablename__ = "erasure"
    __table_args__ = (
        CheckConstraint(
            "subject IN ('counterparty_name', 'counterparty_account', 'user')", name="erasure_subject_known"
        ),
    )

    id: UUID = Field(sa_column=column(UUID, primary_key=True))
    change_id: UUID = Field(sa_column=column(UUID))
    user_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """Of whom texts were erased, where it was a user: the id stays, because decisions name it."""
    job_id: UUID | None = Field(sa_column=column(UUID, nullable=True))
    """The job that erases; null where the request has done it."""
    created_at: datetime = Field(sa_column=column(datetime))
    subject: str = Field(sa_column=column(str))
    reason: str = Field(sa_column=column(str))
    """In the words of who erased, without what was erased."""
    created_by: str = Field(sa_column=column(str))
    erased: list[dict[str, Any]] = Field(sa_column=column(dict))
    """``resource`` and ``count``."""
    kept: list[dict[str, Any]] = Field(sa_column=column(dict))
    """``resource``, ``why``, ``count`` and ``until``, a day or null."""
