"""Endpoints: what their owner sees of them, and the lease of whoever delivers to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.constants.events import WEBHOOK_PAUSE_MAX
from payrec.domain.webhooks import Health
from payrec.models.webhooks import WebhookQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import adapt, columns_of, fetch_one, insert
from payrec.tables.webhooks import Webhook

NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""When an endpoint is due for which there is nothing to be done."""

_COLUMNS: Final = columns_of(Webhook)
_CLAIM: Final = f"""
    UPDATE webhook SET attempt = attempt + 1, lease_until = statement_timestamp() + %(lease)s
    WHERE id = %(id)s AND status = 'active' AND (lease_until <= statement_timestamp()) IS NOT FALSE
    RETURNING {_COLUMNS}
"""  # noqa: S608 - our own text
_HELD: Final = f"""
    SELECT {_COLUMNS} FROM webhook WHERE id = %(id)s AND attempt = %(attempt)s AND status = 'active' FOR NO KEY UPDATE
"""  # noqa: S608 - our own text
_SETTLE: Final = """
    UPDATE webhook SET position = greatest(position, %(position)s), lease_until = statement_timestamp() + %(lease)s,
        failures = %(failures)s, failing_since = %(failing_since)s, paused_until = %(paused_until)s
    WHERE id = %(id)s
"""
_DISABLE: Final = """
    UPDATE webhook SET status = 'disabled', disabled_reason = %(reason)s, lease_until = NULL, updated_at = %(at)s,
        version = version + 1
    WHERE id = %(id)s AND status = 'active'
"""
_SCHEDULE: Final = "SELECT control.schedule_webhook(%s, %s, %s, true)"
_NEXT_DUE: Final = """
    SELECT CASE
        WHEN EXISTS (SELECT FROM event_feed f WHERE f.position > w.position) THEN
            -- A longer pause is one of a clock that was wrong.
            greatest(clock_timestamp(), CASE WHEN w.paused_until <= clock_timestamp() + %(pause_max)s
                THEN w.paused_until END)
    END AS events_at, (
        SELECT min(d.next_attempt_at) FROM webhook_delivery d
        WHERE d.webhook_id = w.id AND d.status = 'pending' AND NOT EXISTS (
            SELECT FROM webhook_delivery b WHERE b.webhook_id = d.webhook_id AND b.resource_id = d.resource_id
                AND b.status = 'pending' AND b.position < d.position
        )
    ) AS retry_at
    FROM webhook w WHERE w.id = %(id)s
"""


class WebhookStore:
    """``webhook`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, webhook: dict[str, Any]) -> None:
        """Add an endpoint."""
        await insert(self._connection, Webhook, webhook)

    async def count(self) -> int:
        """Return how many endpoints there are."""
        row = await fetch_one(self._connection, "SELECT count(*) AS count FROM webhook")
        return int(row["count"]) if row is not None else 0

    async def get(self, webhook_id: UUID, *, lock: bool = False) -> dict[str, Any] | None:
        """Return an endpoint; with ``lock``, nobody else changes it meanwhile."""
        query = f"SELECT {_COLUMNS} FROM webhook WHERE id = %s {'FOR UPDATE' if lock else ''}"  # noqa: S608 - our own
        return await fetch_one(self._connection, query, (webhook_id,))

    async def page(self, page: PageRequest, query: WebhookQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page of endpoints."""
        selection = Selection(columns=_COLUMNS, source="webhook", id_column="id")
        found = equalities(query, {"status": "status"})
        found += ranges(query, {"created_from": "created_at >=", "created_to": "created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def update(self, webhook_id: UUID, changes: dict[str, Any], *, at: datetime) -> None:
        """Change what is given; whoever delivers begins anew with it."""
        assignments = [sql.SQL("{} = {}").format(sql.Identifier(n), sql.Placeholder(n)) for n in changes]
        query = sql.SQL("UPDATE webhook SET {}, updated_at = %(at)s, version = version + 1 WHERE id = %(id)s").format(
            sql.SQL(", ").join(assignments)
        )
        await self._connection.execute(query, {**adapt(Webhook, changes), "id": webhook_id, "at": at})

    async def delete(self, webhook_id: UUID) -> bool:
        """Delete an endpoint; return whether it was there."""
        cursor = await self._connection.execute("DELETE FROM webhook WHERE id = %s", (webhook_id,))
        return cursor.rowcount == 1

    async def schedule(self, webhook_id: UUID, environment_id: UUID, at: datetime) -> None:
        """Have an endpoint looked at then, not earlier, when this transaction commits.

        Who schedules first and looks afterwards misses nothing: a sealer waits for the transaction meanwhile.
        """
        await self._connection.execute(_SCHEDULE, (webhook_id, environment_id, at))

    async def claim(self, webhook_id: UUID, *, lease: timedelta) -> dict[str, Any] | None:
        """Take the lease of an active endpoint that nobody delivers to; on the database's clock."""
        return await fetch_one(self._connection, _CLAIM, {"id": webhook_id, "lease": lease})

    async def held(self, webhook_id: UUID, *, attempt: int) -> dict[str, Any] | None:
        """Return the endpoint if the lease is still this attempt's, and keep it so until the transaction ends."""
        return await fetch_one(self._connection, _HELD, {"id": webhook_id, "attempt": attempt})

    async def is_as_it_was(self, row: dict[str, Any]) -> bool:
        """Tell whether the endpoint and its lease are still those of a row."""
        query = "SELECT 1 AS found FROM webhook WHERE id = %(id)s AND version = %(version)s AND attempt = %(attempt)s"
        return await fetch_one(self._connection, query, {n: row[n] for n in ("id", "version", "attempt")}) is not None

    async def settle(self, webhook_id: UUID, *, position: int, health: Health, lease: timedelta) -> None:
        """Store how far an endpoint is and how it does, and renew the lease."""
        parameters = {
            "id": webhook_id,
            "position": position,
            "lease": lease,
            "failures": health.failures,
            "failing_since": health.failing_since,
            "paused_until": health.paused_until,
        }
        await self._connection.execute(_SETTLE, parameters)

    async def disable(self, webhook_id: UUID, *, reason: str, at: datetime) -> bool:
        """Disable an active endpoint; return whether it was active."""
        cursor = await self._connection.execute(_DISABLE, {"id": webhook_id, "reason": reason, "at": at})
        return cursor.rowcount == 1

    async def give_back(self, webhook_id: UUID) -> None:
        """End the lease that this transaction holds."""
        await self._connection.execute("UPDATE webhook SET lease_until = NULL WHERE id = %s", (webhook_id,))

    async def next_due(self, webhook_id: UUID) -> datetime:
        """Return when there is something to be done for an endpoint; ``NEVER`` where there is nothing."""
        row = await fetch_one(self._connection, _NEXT_DUE, {"id": webhook_id, "pause_max": WEBHOOK_PAUSE_MAX})
        instants = (row["events_at"], row["retry_at"]) if row is not None else ()
        return min((at for at in instants if at is not None), default=NEVER)
