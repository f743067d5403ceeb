"""Exports: what is known of a file that was made of a list."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.storage.database import Connection
from payrec.storage.rows import columns_of, fetch_all, fetch_one, insert
from payrec.tables.exports import Export

_GET: Final = sql.SQL("SELECT {} FROM export WHERE id = %s AND expires_at > %s").format(sql.SQL(columns_of(Export)))
_KEPT: Final = """
    SELECT coalesce(sum(bytes), 0)::bigint AS bytes, min(expires_at) AS next_at FROM export WHERE expires_at > %s
"""
_DROP: Final = """
    WITH over AS (
        SELECT id FROM export WHERE expires_at <= %(at)s ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ), chunks AS (
        DELETE FROM blob_chunk USING over WHERE blob_id = over.id
    )
    DELETE FROM export USING over WHERE export.id = over.id
    RETURNING export.id, export.created_at, export.object_id
"""


class ExportStore:
    """``export`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self) -> None:
        """Keep others from adding any until this transaction ends."""
        await self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('export'), hashtext(current_schema()))")

    async def add(self, row: dict[str, Any]) -> None:
        """Add an export, whose blob is stored in the same transaction, or is an object already."""
        await insert(self._connection, Export, row)

    async def get(self, export_id: UUID, *, now: datetime) -> dict[str, Any] | None:
        """Return an export that has not expired."""
        return await fetch_one(self._connection, _GET, (export_id, now))

    async def kept(self, *, now: datetime) -> tuple[int, datetime | None]:
        """Return how many bytes those have that have not expired, and when the first of them does."""
        row = await fetch_one(self._connection, _KEPT, (now,))
        assert row is not None, "an aggregate has a row"
        return int(row["bytes"]), row["next_at"]

    async def has_expired(self, *, now: datetime) -> bool:
        """Tell whether there is anything to drop."""
        query = "SELECT EXISTS (SELECT 1 FROM export WHERE expires_at <= %s) AS found"
        row = await fetch_one(self._connection, query, (now,))
        return row is not None and bool(row["found"])

    async def drop_expired(self, *, now: datetime, limit: int) -> list[dict[str, Any]]:
        """Delete exports that have expired, with their files.

        Return their ``id`` and ``created_at``, and ``object_id``, which is to be deleted after the commit.
        """
        return await fetch_all(self._connection, _DROP, {"at": now, "limit": limit})
