"""API keys that a Tenant resource asked for: never those that a person has made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

_COLUMNS: Final = """
    id, public_id, resource_key, environment, digest, read, write, state, created_at, expires_at, revoked_at,
    last_used_at
"""
_OF_RESOURCE: Final = "tenant_id = %(tenant_id)s AND resource_key IS NOT NULL"
_PROMOTE: Final = f"""
    WITH promoted AS (
        UPDATE api_key SET state = 'active' WHERE {_OF_RESOURCE} AND id = %(id)s AND state = 'pending'
    )
    UPDATE api_key SET state = 'retiring', expires_at = least(expires_at, %(until)s)
    WHERE {_OF_RESOURCE} AND resource_key = %(name)s AND id <> %(id)s AND state = 'active' AND revoked_at IS NULL
    RETURNING id
"""  # noqa: S608 - our own text


class TenantResourceKeyStore:
    """``api_key`` of one tenant, as far as its resource asked for it."""

    def __init__(self, connection: Connection, *, tenant_id: UUID) -> None:
        self._connection = connection
        self._place = {"tenant_id": tenant_id}

    async def standing(self) -> list[dict[str, Any]]:
        """Return the keys that are not revoked, oldest first; their digests too."""
        query = f"SELECT {_COLUMNS} FROM api_key WHERE {_OF_RESOURCE} AND revoked_at IS NULL ORDER BY id"  # noqa: S608
        return await fetch_all(self._connection, query, self._place)

    async def find(self, public_id: str) -> dict[str, Any] | None:
        """Return the key with a public id, unless it is revoked; its digest too."""
        query = f"""
            SELECT {_COLUMNS} FROM api_key WHERE {_OF_RESOURCE} AND revoked_at IS NULL AND public_id = %(public_id)s
        """  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, {**self._place, "public_id": public_id})

    async def get(self, key_id: UUID) -> dict[str, Any] | None:
        """Return a key, revoked or not, and let nobody else change it until the transaction ends."""
        query = f"SELECT {_COLUMNS} FROM api_key WHERE {_OF_RESOURCE} AND id = %(id)s FOR UPDATE"  # noqa: S608
        return await fetch_one(self._connection, query, {**self._place, "id": key_id})

    async def promote(self, key_id: UUID, name: str, *, retire_until: datetime) -> list[UUID]:
        """Make a pending key the active one of its name; return those that retire for it."""
        parameters = {**self._place, "id": key_id, "name": name, "until": retire_until}
        return [row["id"] for row in await fetch_all(self._connection, _PROMOTE, parameters)]

    async def set_flags(self, key_id: UUID, *, read: bool, write: bool) -> None:
        """Change what a key opens."""
        await self._connection.execute(
            f"UPDATE api_key SET read = %(read)s, write = %(write)s WHERE {_OF_RESOURCE} AND id = %(id)s",  # noqa: S608
            {**self._place, "id": key_id, "read": read, "write": write},
        )

    async def revoke(
        self, key_ids: Sequence[UUID] | None = None, *, at: datetime, environment: str | None = None
    ) -> list[UUID]:
        """Revoke these keys, or all of the resource, or all of one environment; return those that were not before."""
        query = f"""
            UPDATE api_key SET revoked_at = %(at)s WHERE {_OF_RESOURCE} AND revoked_at IS NULL
                AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s))
                AND (%(environment)s::text IS NULL OR environment = %(environment)s) RETURNING id
        """  # noqa: S608 - our own text
        ids = None if key_ids is None else list(key_ids)
        parameters = {**self._place, "ids": ids, "environment": environment, "at": at}
        return [row["id"] for row in await fetch_all(self._connection, query, parameters)]

    async def revoke_everything(self, *, at: datetime, environment: str | None = None) -> list[UUID]:
        """Revoke all keys of the tenant, or of one environment, also those that people have made."""
        query = """
            UPDATE api_key SET revoked_at = %(at)s WHERE tenant_id = %(tenant_id)s AND revoked_at IS NULL
                AND (%(environment)s::text IS NULL OR environment = %(environment)s) RETURNING id
        """
        parameters = {**self._place, "environment": environment, "at": at}
        return [row["id"] for row in await fetch_all(self._connection, query, parameters)]
