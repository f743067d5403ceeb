"""What waits for workers in one tenant environment, whether they have been told of it or not."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from payrec.storage.database import Connection
from payrec.storage.jobs import IS_WAITING, JobStore
from payrec.storage.rows import fetch_all, fetch_one
from payrec.storage.sealing import wake_webhooks

_LEFT: Final = f"""
    SELECT EXISTS (SELECT FROM job WHERE {IS_WAITING}) OR EXISTS (SELECT FROM outbox) OR EXISTS (
        SELECT FROM webhook w WHERE w.status = 'active' AND coalesce(w.lease_until <= statement_timestamp(), true)
            AND w.position < (SELECT max(f.position) FROM event_feed f)
    ) AS is_left
"""  # noqa: S608 - our own text
_OPEN_KINDS: Final = "SELECT DISTINCT kind FROM job WHERE status IN ('queued', 'running')"
_WAKE_SEALER: Final = "SELECT control.note_unsealed(gen_random_uuid(), %(environment_id)s)"
_ACTIVE_WEBHOOKS: Final = "SELECT id FROM webhook WHERE status = 'active'"


class WaitingStore:
    """``job``, ``outbox`` and ``webhook`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def is_left(self) -> bool:
        """Tell whether there is something that somebody should do now, and that nobody holds."""
        row = await fetch_one(self._connection, _LEFT)
        return row is not None and bool(row["is_left"])

    async def tell(self, environment_id: UUID) -> None:
        """Tell the workers, when this transaction commits, of open jobs, of events without a place, and of webhooks."""
        for row in await fetch_all(self._connection, _OPEN_KINDS):
            await JobStore(self._connection).wake(environment_id, row["kind"])
        await self._connection.execute(_WAKE_SEALER, {"environment_id": environment_id})
        endpoints = [row["id"] for row in await fetch_all(self._connection, _ACTIVE_WEBHOOKS)]
        await wake_webhooks(self._connection, environment_id, endpoints)
