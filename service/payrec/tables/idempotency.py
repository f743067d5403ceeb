"""Both trees: requests that were answered, so that a repetition gets the same answer and has no second effect.

``key`` is SHA-256 over principal, method, path and Idempotency-Key; ``fingerprint`` is over the body. A
request of several transactions keeps a 202 with the row that it creates first, and the last one replaces it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, TenantTable, column, integer


def _constraints(prefix: str) -> tuple[Any, ...]:
    return (
        CheckConstraint("octet_length(key) = 32 AND octet_length(fingerprint) = 32", name=f"{prefix}_lengths"),
        Index(f"{prefix}_by_age", "created_at"),
    )


class ControlIdempotency(ControlTable, table=True):
    """Answers of requests whose effect is in the control schema."""

    __tablename__ = "idempotency"
    __table_args__ = (*_constraints("control_idempotency"), {"schema": CONTROL_SCHEMA})

    key: bytes = Field(sa_column=column(bytes, primary_key=True))
    fingerprint: bytes = Field(sa_column=column(bytes))
    status: int | None = Field(sa_column=integer(nullable=True))
    body: str | None = Field(sa_column=column(str, nullable=True))
    headers: dict[str, str] | None = Field(sa_column=column(dict, nullable=True))
    created_at: datetime = Field(sa_column=column(datetime))


class Idempotency(TenantTable, table=True):
    """Answers of requests whose effect is in this tenant environment."""

    __tablename__ = "idempotency"
    __table_args__ = _constraints("idempotency")

    key: bytes = Field(sa_column=column(bytes, primary_key=True))
    fingerprint: bytes = Field(sa_column=column(bytes))
    status: int | None = Field(sa_column=integer(nullable=True))
    body: str | None = Field(sa_column=column(str, nullable=True))
    headers: dict[str, str] | None = Field(sa_column=column(dict, nullable=True))
    created_at: datetime = Field(sa_column=column(datetime))
