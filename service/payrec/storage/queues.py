"""How much waits in the queues that all processes share, and for how long: read for metrics alone."""

from __future__ import annotations

from typing import Any, Final

from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

_EVENTS: Final = """
    WITH waiting AS (
        -- An environment that has no tables yet keeps nobody waiting.
        SELECT o.occurred_at FROM outbox o
        JOIN tenant_environment e ON e.id = o.environment_id AND e.revision IS NOT NULL
    )
    SELECT (SELECT count(*) FROM unsealed_change) + (SELECT count(*) FROM waiting) AS count,
        extract(epoch FROM clock_timestamp() - (SELECT min(occurred_at) FROM waiting))::float AS control_seconds,
        -- Ids of version 7 begin with their time; those that only say where to look are of version 4.
        (SELECT change_id FROM unsealed_change WHERE substr(change_id::text, 15, 1) = '7' ORDER BY change_id LIMIT 1)
            AS oldest_change_id
"""
_WEBHOOKS: Final = """
    SELECT count(*) AS count, extract(epoch FROM clock_timestamp() - min(due_at))::float AS seconds
    FROM webhook_queue WHERE due_at <= clock_timestamp()
"""
_WAKE_UPS: Final = """
    SELECT j.args->>'kind' AS kind, count(*) AS count,
        extract(epoch FROM clock_timestamp() - min(coalesce(j.scheduled_at, e.at, clock_timestamp())))::float AS seconds
    FROM procrastinate_jobs j
    LEFT JOIN LATERAL (SELECT min(at) AS at FROM procrastinate_events WHERE job_id = j.id) e ON true
    WHERE j.status = 'todo' AND j.task_name = 'drain' AND coalesce(j.scheduled_at <= clock_timestamp(), true)
    GROUP BY 1
"""


class QueueStore:
    """What waits to be sealed, delivered or done; through the control door, and the last through that of the queue."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def unsealed(self) -> dict[str, Any]:
        """Return how many changes have events without a place in a feed, and what tells how old the oldest one is."""
        return await fetch_one(self._connection, _EVENTS) or {}

    async def due_webhooks(self) -> dict[str, Any]:
        """Return how many endpoints are due that nobody has taken, and for how many seconds the first one has been."""
        return await fetch_one(self._connection, _WEBHOOKS) or {}

    async def wake_ups(self) -> list[dict[str, Any]]:
        """Return, by kind of job, how many environments wait for a worker, and the first one for how many seconds."""
        return await fetch_all(self._connection, _WAKE_UPS)
