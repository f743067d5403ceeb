"""Users: who may act for a tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.storage.database import Connection
from payrec.storage.rows import columns_of, fetch_all, fetch_one, insert
from payrec.tables.users import AppUser

_COLUMNS: Final = columns_of(AppUser)


class UserStore:
    """``app_user``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, user: dict[str, Any]) -> None:
        """Add a user.

        Raises
        ------
        UsernameTakenError
            Through the constraint ``app_user_username_unique`` or the index ``app_user_subject_unique``.
        """
        await insert(self._connection, AppUser, user)

    async def get(self, user_id: UUID) -> dict[str, Any] | None:
        """Return a user."""
        query = sql.SQL("SELECT {} FROM app_user WHERE id = %s").format(sql.SQL(_COLUMNS))
        return await fetch_one(self._connection, query, (user_id,))

    async def find(self, username: str) -> dict[str, Any] | None:
        """Return the user of a name."""
        query = sql.SQL("SELECT {} FROM app_user WHERE username = %s").format(sql.SQL(_COLUMNS))
        return await fetch_one(self._connection, query, (username,))

    async def has_subject(self, subject: str) -> bool:
        """Tell whether a user has this subject."""
        query = "SELECT 1 FROM app_user WHERE subject = %s"
        return await fetch_one(self._connection, query, (subject,)) is not None

    async def of_tenant(self, tenant_id: UUID) -> list[dict[str, Any]]:
        """Return all users of a tenant, oldest first."""
        query = sql.SQL("SELECT {} FROM app_user WHERE tenant_id = %s ORDER BY id").format(sql.SQL(_COLUMNS))
        return await fetch_all(self._connection, query, (tenant_id,))

    async def names(self, tenant_id: UUID, user_ids: Sequence[UUID]) -> dict[UUID, str]:
        """Return what users of a tenant are called: their display name, or the one they sign in with."""
        query = (
            "SELECT id, coalesce(display_name, username) AS name FROM app_user WHERE tenant_id = %s AND id = ANY(%s)"
        )
        rows = await fetch_all(self._connection, query, (tenant_id, list(user_ids)))
        return {row["id"]: row["name"] for row in rows}

    async def concerned(
        self, tenant_id: UUID, *, usernames: Sequence[str], subjects: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the users that the tenant's resource has made, and whoever has one of the names or subjects."""
        query = sql.SQL(
            "SELECT {} FROM app_user WHERE (tenant_id = %s AND of_resource) OR username = ANY(%s) OR subject = ANY(%s)"
        ).format(sql.SQL(_COLUMNS))
        return await fetch_all(self._connection, query, (tenant_id, list(usernames), list(subjects)))

    async def link(self, user_id: UUID, subject: str, *, at: datetime) -> bool:
        """Give an active user without subject this one; return whether that was done.

        Raises
        ------
        UsernameTakenError
            Through the index ``app_user_subject_unique``: another user has the subject.
        """
        cursor = await self._connection.execute(
            "UPDATE app_user SET subject = %s, version = version + 1, updated_at = %s"
            " WHERE id = %s AND subject IS NULL AND status = 'active'",
            (subject, at, user_id),
        )
        return cursor.rowcount == 1

    async def update(
        self,
        user_id: UUID,
        *,
        at: datetime,
        status: str | None = None,
        roles: Sequence[str] | None = None,
        environments: Sequence[str] | None = None,
        subject: str | None = None,
    ) -> None:
        """Change what is given.

        Raises
        ------
        UsernameTakenError
            Another user has the subject.
        """
        await self._connection.execute(
            "UPDATE app_user SET subject = coalesce(%s, subject), status = coalesce(%s, status),"
            " roles = coalesce(%s, roles), environments = coalesce(%s, environments), version = version + 1,"
            " updated_at = %s WHERE id = %s",
            (
                subject,
                status,
                list(roles) if roles is not None else None,
                list(environments) if environments is not None else None,
                at,
                user_id,
            ),
        )
