"""Control: the embedded identity provider's own tables. Empty where an external provider is used."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from payrec.tables.base import CONTROL_SCHEMA, ControlTable, column


class IdpUser(ControlTable, table=True):
    """A login. What a token says about the user (tenant, roles, environments) is in ``control.app_user``."""

    __tablename__ = "idp_user"
    __table_args__ = (
        Index("idp_user_subject_unique", "subject", unique=True),
        CheckConstraint("starts_with(password_hash, '$scrypt$')", name="idp_user_password_is_hashed"),
        {"schema": CONTROL_SCHEMA},
    )

    username: str = Field(sa_column=column(str, primary_key=True))
    subject: str = Field(sa_column=column(str))
    password_hash: str = Field(sa_column=column(str))
    created_at: datetime = Field(sa_column=column(datetime))


class IdpSigningKey(ControlTable, table=True):
    """A key that signs tokens, or signed them until ``retired_at``."""

    __tablename__ = "idp_signing_key"
    __table_args__ = (
        # However many processes start at once, one key ends up active.
        Index("idp_signing_key_one_active", text("(true)"), unique=True, postgresql_where=text("retired_at IS NULL")),
        {"schema": CONTROL_SCHEMA},
    )

    kid: str = Field(sa_column=column(str, primary_key=True))
    public_jwk: dict[str, Any] = Field(sa_column=column(dict))
    private_encrypted: bytes = Field(sa_column=column(bytes))
    """The private JWK under AES-GCM; only ENCRYPTION_KEY opens it."""
    created_at: datetime = Field(sa_column=column(datetime))
    retired_at: datetime | None = Field(sa_column=column(datetime, nullable=True))
