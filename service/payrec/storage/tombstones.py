"""Schemas of dropped environments, renamed at once and dropped later."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.storage.database import Connection
from payrec.storage.provisioning import owner_of
from payrec.storage.rows import fetch_one, insert
from payrec.tables.tombstones import Tombstone

_TAKE: Final = """
    UPDATE tombstone SET attempts = attempts + 1, next_attempt_at = %(lease)s WHERE schema_name = (
        SELECT schema_name FROM tombstone WHERE next_attempt_at <= %(now)s
        ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING schema_name, role_name, tenant_id, dropped_name, attempts
"""
_ROLE_IN_USE: Final = """
    SELECT 1 FROM tenant_environment WHERE role_name = %(role)s
    UNION ALL SELECT 1 FROM tombstone WHERE role_name = %(role)s AND schema_name <> %(schema)s LIMIT 1
"""


class TombstoneStore:
    """``tombstone``, and the schemas and roles that it is about; through the provisioning door."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self, name: str) -> None:
        """Let nobody else provision the schema or role until the transaction ends."""
        await self._connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (name,))

    async def add(
        self, name: str, *, schema: str, role: str, tenant_id: UUID, dropped_at: datetime, due_at: datetime
    ) -> None:
        """Remember what is to be dropped."""
        values = {
            "schema_name": name,
            "role_name": role,
            "tenant_id": tenant_id,
            "dropped_name": schema,
            "dropped_at": dropped_at,
            "next_attempt_at": due_at,
        }
        await insert(self._connection, Tombstone, values)

    async def rename(self, schema: str, role: str, name: str) -> bool:
        """Rename the role's schema; return whether it was there. Another's of that name stays."""
        if await owner_of(self._connection, schema) != role:
            return False
        names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role), "name": sql.Identifier(name)}
        # Renaming takes its owner's rights and CREATE on the database together, which only the administrator can have.
        await self._connection.execute(sql.SQL("GRANT {role} TO CURRENT_USER WITH INHERIT TRUE").format(**names))
        await self._connection.execute(sql.SQL("ALTER SCHEMA {schema} RENAME TO {name}").format(**names))
        await self._connection.execute(sql.SQL("GRANT {role} TO CURRENT_USER WITH INHERIT FALSE").format(**names))
        return True

    async def take(self, *, now: datetime, lease: datetime) -> dict[str, Any] | None:
        """Take the one that has waited longest; nobody else does until ``lease``."""
        return await fetch_one(self._connection, _TAKE, {"now": now, "lease": lease})

    async def drop_role(self, role: str, *, but_for: str) -> bool:
        """Drop the role unless an environment, or another tombstone than this one, has it; return whether that was so.

        The caller holds the role.
        """
        if await fetch_one(self._connection, _ROLE_IN_USE, {"role": role, "schema": but_for}) is not None:
            return False
        await self._connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))
        return True

    async def forget(self, name: str) -> None:
        """Forget what has been dropped."""
        await self._connection.execute("DELETE FROM tombstone WHERE schema_name = %s", (name,))

    async def failed(self, name: str, *, error: str, next_attempt_at: datetime | None) -> None:
        """Remember what went wrong, and when to try again; None: never."""
        await self._connection.execute(
            "UPDATE tombstone SET error = %s, next_attempt_at = %s WHERE schema_name = %s",
            (error, next_attempt_at, name),
        )
