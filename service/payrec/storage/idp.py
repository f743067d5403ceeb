"""The embedded identity provider's logins and signing keys, in the control schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from payrec.storage.database import Connection

SIGNING_KEYS_MAX: Final = 32
"""Signing keys that are looked at, newest first."""

_FIND_USER: Final = """
SELECT u.username, coalesce(a.subject, u.subject) AS subject, u.password_hash,
       a.id AS user_id, a.tenant_id, a.roles, a.environments
  FROM control.idp_user u
  JOIN control.app_user a ON a.username = u.username
 WHERE u.username = %(username)s
"""

_PUT_USER: Final = """
INSERT INTO control.idp_user (username, subject, password_hash, created_at)
VALUES (%(username)s, %(subject)s, %(password_hash)s, %(created_at)s)
ON CONFLICT (username) DO UPDATE SET password_hash = excluded.password_hash
RETURNING subject
"""

_SIGNING_KEYS: Final = """
SELECT kid, public_jwk, private_encrypted, created_at, retired_at
  FROM control.idp_signing_key
 ORDER BY retired_at DESC NULLS FIRST, created_at DESC
 LIMIT %(limit)s
"""

_INSERT_SIGNING_KEY: Final = """
INSERT INTO control.idp_signing_key (kid, public_jwk, private_encrypted, created_at, retired_at)
VALUES (%(kid)s, %(public_jwk)s, %(private_encrypted)s, %(created_at)s, NULL)
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdpAccount:
    """A login together with what its tokens say about the user."""

    username: str
    subject: str
    password_hash: str = field(repr=False)
    user_id: UUID
    tenant_id: UUID
    roles: list[str]
    environments: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSigningKey:
    """A signing key as it is stored; ``retired_at`` None marks the active one."""

    kid: str
    public_jwk: dict[str, Any]
    private_encrypted: bytes = field(repr=False)
    created_at: datetime
    retired_at: datetime | None = None


class IdpStore:
    """Reads and writes within the transaction of a connection to the control schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def find_user(self, username: str) -> IdpAccount | None:
        """Return the login of a user who is stored in the service too, active or not.

        Whether a disabled user may do anything is decided, and said, where requests are authenticated.
        """
        async with self._connection.cursor(row_factory=class_row(IdpAccount)) as cursor:
            await cursor.execute(_FIND_USER, {"username": username})
            return await cursor.fetchone()

    async def put_user(self, *, username: str, subject: str, password_hash: str, created_at: datetime) -> str:
        """Store a login, or give an existing one a new password; return its subject, which never changes."""
        cursor = await self._connection.execute(
            _PUT_USER,
            {"username": username, "subject": subject, "password_hash": password_hash, "created_at": created_at},
        )
        row = await cursor.fetchone()
        return str(row["subject"]) if row is not None else subject

    async def signing_keys(self) -> list[StoredSigningKey]:
        """Return the active key, if there is one, then the retired ones, the latest first."""
        async with self._connection.cursor(row_factory=class_row(StoredSigningKey)) as cursor:
            await cursor.execute(_SIGNING_KEYS, {"limit": SIGNING_KEYS_MAX})
            return await cursor.fetchall()

    async def insert_signing_key(self, key: StoredSigningKey) -> bool:
        """Store a key as the active one; False when another process was first, whose key then is the active one."""
        cursor = await self._connection.execute(
            _INSERT_SIGNING_KEY,
            {
                "kid": key.kid,
                "public_jwk": Jsonb(key.public_jwk),
                "private_encrypted": key.private_encrypted,
                "created_at": key.created_at,
            },
        )
        return cursor.rowcount == 1
