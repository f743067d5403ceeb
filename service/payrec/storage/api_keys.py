"""API keys: metadata and digests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.models.api_keys import ApiKeyQuery
from payrec.storage.database import Connection
from payrec.storage.filters import ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import fetch_all, fetch_one, insert
from payrec.tables.api_keys import ApiKey

_COLUMNS: Final = (
    "id, public_id, tenant_id, environment, name, read, write, expires_at, revoked_at, last_used_at, created_at,"
    " CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= %(now)s THEN 'expired' ELSE 'active' END"
    " AS status"
)
_PLACE: Final = "tenant_id = %(tenant_id)s AND environment = %(environment)s"
_NOTE_USES: Final = """
    WITH use AS (
        SELECT * FROM unnest(%(ids)s::uuid[], %(instants)s::timestamptz[], %(digests)s::bytea[]) AS u (id, at, digest)
    ), held AS MATERIALIZED (
        SELECT k.id FROM api_key k JOIN use u ON u.id = k.id FOR NO KEY UPDATE OF k SKIP LOCKED
    ), noted AS (
        UPDATE api_key k SET last_used_at = greatest(k.last_used_at, u.at), digest = coalesce(u.digest, k.digest)
        FROM use u JOIN held h ON h.id = u.id
        WHERE k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at < u.at OR u.digest <> k.digest)
    )
    SELECT k.id FROM api_key k JOIN use u ON u.id = k.id WHERE NOT EXISTS (SELECT 1 FROM held h WHERE h.id = k.id)
"""
_EXPIRING: Final = """
    SELECT k.id, k.public_id, k.name, k.expires_at, e.id AS environment_id
    FROM api_key k JOIN tenant_environment e ON e.tenant_id = k.tenant_id AND e.environment = k.environment
    WHERE k.expiry_announced_at IS NULL AND k.revoked_at IS NULL AND k.state <> 'retiring'
        AND (k.expires_at, k.id) > (%(after_at)s, %(after_id)s) AND k.expires_at <= %(until)s
    ORDER BY k.expires_at, k.id LIMIT %(limit)s
"""
_ANNOUNCED: Final = """
    WITH held AS MATERIALIZED (
        SELECT id FROM api_key WHERE id = ANY(%(ids)s) AND expiry_announced_at IS NULL FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE api_key k SET expiry_announced_at = %(at)s FROM held h WHERE k.id = h.id RETURNING k.id
"""
_ACTIVE: Final = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(now)s)"
_ACTIVE_OF: Final = f"""
    SELECT t.slug, k.environment, k.public_id, k.id, k.name
    FROM (SELECT * FROM api_key WHERE created_by = %(actor)s AND {_ACTIVE}) k JOIN tenant t ON t.id = k.tenant_id
    ORDER BY k.id
"""  # noqa: S608 - constants of this module
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

    async def made_by(self, actor: str) -> list[str]:
        """Return as whom the keys act that somebody has made, those that open nothing any more among them."""
        query = f"SELECT 'api_key:' || public_id AS actor FROM api_key WHERE {_PLACE} AND created_by = %(actor)s"  # noqa: S608 - our own text
        return [row["actor"] for row in await fetch_all(self._connection, query, {**self._place, "actor": actor})]

    async def names(self, public_ids: Sequence[str]) -> dict[str, str]:
        """Return what keys are called, those that open nothing any more among them."""
        query = f"SELECT public_id, name FROM api_key WHERE {_PLACE} AND public_id = ANY(%(public_ids)s)"  # noqa: S608 - our own text
        rows = await fetch_all(self._connection, query, {**self._place, "public_ids": list(public_ids)})
        return {row["public_id"]: row["name"] for row in rows}

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

    async def revoke(self, key_id: UUID) -> bool | None:
        """Revoke a key; return whether it was not revoked before, and None where there is no such key."""
        query = sql.SQL(
            "UPDATE api_key SET revoked_at = %(now)s WHERE {} AND id = %(id)s AND revoked_at IS NULL"
        ).format(sql.SQL(_PLACE))
        cursor = await self._connection.execute(query, {**self._place, "id": key_id})
        if cursor.rowcount > 0:
            return True
        return None if await self.get(key_id) is None else False


class EveryApiKeyStore:
    """``api_key`` of all tenant environments: what the service itself keeps up.

    Several processes do that at once, each with many keys. No statement here waits for a row, so none of them can be
    part of a deadlock; what another one holds is left for the next time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def note_uses(self, uses: Mapping[UUID, tuple[datetime, bytes | None]]) -> set[UUID]:
        """Note when keys were last used, never earlier than is stored, and replace the digests that are given.

        Returns the keys that another transaction holds: nothing was noted of them.
        """
        parameters = {
            "ids": list(uses),
            "instants": [at for at, _ in uses.values()],
            "digests": [digest for _, digest in uses.values()],
        }
        return {row["id"] for row in await fetch_all(self._connection, _NOTE_USES, parameters)}

    async def active_of(self, actor: str, *, now: datetime) -> list[dict[str, Any]]:
        """Return the keys that somebody has made and that open something, each with its tenant, oldest first."""
        return await fetch_all(self._connection, _ACTIVE_OF, {"actor": actor, "now": now})

    async def expiring(self, *, after: tuple[datetime, UUID], until: datetime, limit: int) -> list[dict[str, Any]]:
        """Return keys that expire up to ``until`` and were not announced, with their environment's id.

        In the order of expiry, beginning behind the expiry and id ``after``. Keys whose place another one has taken in
        a rotation end as planned, and are left out.
        """
        parameters = {"after_at": after[0], "after_id": after[1], "until": until, "limit": limit}
        return await fetch_all(self._connection, _EXPIRING, parameters)

    async def mark_announced(self, key_ids: Sequence[UUID], *, at: datetime) -> set[UUID]:
        """Remember that the expiry of these keys is announced; return of which of them it was not, and is by this."""
        return {row["id"] for row in await fetch_all(self._connection, _ANNOUNCED, {"ids": list(key_ids), "at": at})}
