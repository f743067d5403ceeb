"""Control: attempts at ``/auth/token``, counted here for all processes. Neither names nor addresses are stored."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, column, integer


class TokenAttempt(ControlTable, table=True):
    """What is known of the attempts for one username, or from one address; forgotten when it is old."""

    __tablename__ = "token_attempt"
    __table_args__ = (
        CheckConstraint("octet_length(key) = 32", name="token_attempt_key_length"),
        CheckConstraint("failures >= 0", name="token_attempt_failures_counted"),
        Index("token_attempt_by_age", "touched_at"),
        {"schema": CONTROL_SCHEMA},
    )

    key: bytes = Field(sa_column=column(bytes, primary_key=True))
    """HMAC-SHA-256 of the username or the address: people type their passwords into the wrong field."""
    full_at: datetime = Field(sa_column=column(datetime))
    """When as many attempts are free again as a minute allows (the theoretical arrival time of GCRA)."""
    failures: int = Field(sa_column=integer())
    """Attempts since the last one that succeeded, less those that time has taken."""
    faded_at: datetime = Field(sa_column=column(datetime))
    """Up to when time has taken some."""
    touched_at: datetime = Field(sa_column=column(datetime))
