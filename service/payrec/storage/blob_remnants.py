"""Dropped environments whose files may still be in an object store."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, insert
from payrec.tables.blob_remnants import BlobRemnant


class BlobRemnantStore:
    """``blob_remnant`` of the control schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, environment_id: UUID, *, tenant_id: UUID, dropped_at: datetime) -> None:
        """Remember an environment, in the transaction that forgets it otherwise."""
        values = {"environment_id": environment_id, "tenant_id": tenant_id, "dropped_at": dropped_at}
        await insert(self._connection, BlobRemnant, values)

    async def all(self, *, limit: int) -> list[dict[str, Any]]:
        """Return what there is, the oldest first."""
        query = "SELECT environment_id, tenant_id, dropped_at FROM blob_remnant ORDER BY dropped_at LIMIT %s"
        return await fetch_all(self._connection, query, (limit,))

    async def forget(self, environment_id: UUID) -> None:
        """Forget an environment of which nothing is left."""
        await self._connection.execute("DELETE FROM blob_remnant WHERE environment_id = %s", (environment_id,))
