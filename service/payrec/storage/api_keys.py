"""API keys: metadata and digests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.models.api_keys import ApiKeyQuery
from payrec.storage.database import Connection
from payrec.storage.filters import ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import fetch_one, insert
from payrec.tables.api_keys import ApiKey

_COLUMNS: Final = (
    "id, public_id, tenant_id, environment, name, read, write, expires_at, revoked_at, last_used_at, created_at,"
    " CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= %(now)s THEN 'expired' ELSE 'active' END"
    " AS status"
)
_PLACE: Final = "tenant_id = %(tenant_id)s AND environment = %(environment)s"
_ACTIVE: Final = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(now)s)"
_STATES: Final = {
    "revoked": "revoked_at IS NOT NULL",
    "expired": "revoked_at IS NULL AND expires_at <= %(now)s",
    "active": _ACTIVE,
}


class ApiKeyStore:
    """``api_key`` of one tenant environment."""

    def __init__(self, connection: Connection, *, tenant_id: UUID, environment: str, now: datetime) -> None:
        self._connection = connection
        self._place = {"tenant_id": tenant_id, "environment": environment, "now": now}

    async def add(self, key: dict[str, Any]) -> None:
        """Add a key."""
        await insert(self._connection, ApiKey, {**key, **{k: v for k, v in self._place.items() if k != "now"}})

    async def count_active(self) -> int:
        """Count the keys that open something now; the environment's keys are locked against another such count."""
        await self._connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext(%(tenant_id)s::text), hashtext(%(environment)s))", self._place
        )
        query = f"SELECT count(*) AS count FROM api_key WHERE {_PLACE} AND {_ACTIVE}"  # noqa: S608 - our own text
        row = await fetch_one(self._connection, query, self._place)
        return int(row["count"]) if row is not None else 0

    async def get(self, key_id: UUID) -> dict[str, Any] | None:
        """Return a key's metadata."""
        query = sql.SQL("SELECT {} FROM api_key WHERE {} AND id = %(id)s").format(sql.SQL(_COLUMNS), sql.SQL(_PLACE))
        return await fetch_one(self._connection, query, {**self._place, "id": key_id})

    async def page(self, page: PageRequest, query: ApiKeyQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of the environment's keys."""
        selection = Selection(columns=_COLUMNS, source="api_key", id_column="id")
        selection.where(_PLACE, **self._place)
        if query.status is not None:
            selection.where(_STATES[query.status])
        for condition, parameters in ranges(query, {"created_from": "created_at >=", "created_to": "created_at <="}):
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def revoke(self, key_id: UUID) -> bool:
        """Revoke a key; return whether it exists. Revoking again changes nothing."""
        query = sql.SQL(
            "UPDATE api_key SET revoked_at = coalesce(revoked_at, %(now)s) WHERE {} AND id = %(id)s"
        ).format(sql.SQL(_PLACE))
        cursor = await self._connection.execute(query, {**self._place, "id": key_id})
        return cursor.rowcount > 0
