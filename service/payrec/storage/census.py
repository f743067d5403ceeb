"""What is open in a tenant environment, counted: read for metrics alone, in one statement each."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from payrec.domain.incoming_transactions import day_number
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

_OPEN: Final = """
    SELECT
        (SELECT count(*) FROM expected_open) AS expected,
        (SELECT count(*) FROM expected_open WHERE coalesce(due_day, to_day) < %(today)s) AS overdue,
        (SELECT transaction_id FROM expected_open ORDER BY transaction_id LIMIT 1) AS oldest_expected_id,
        (SELECT count(*) FROM incoming_open) AS incoming,
        (SELECT transaction_id FROM incoming_open ORDER BY transaction_id LIMIT 1) AS oldest_incoming_id,
        (SELECT count(*) FROM audit_unsealed) AS unsealed,
        (SELECT change_id FROM audit_unsealed ORDER BY change_id LIMIT 1) AS oldest_unsealed_id
"""
_TOLD: Final = """
    SELECT count(*) FILTER (WHERE status = 'active' AND failing_since IS NULL) AS active,
        count(*) FILTER (WHERE status = 'active' AND failing_since IS NOT NULL) AS failing,
        count(*) FILTER (WHERE status = 'disabled') AS disabled,
        coalesce(sum(
            (SELECT max(position) FROM event_feed) - w.position
            + (SELECT count(*) FROM webhook_delivery d WHERE d.webhook_id = w.id AND d.status = 'pending')
        ) FILTER (WHERE status = 'active'), 0)::bigint AS backlog
    FROM webhook w
"""
_SOURCES: Final = """
    SELECT CASE WHEN NOT enabled THEN 'disabled' WHEN failing THEN 'failing' ELSE 'ok' END AS state, count(*) AS count
    FROM data_source WHERE kind <> 'upload' GROUP BY 1
"""
_JOBS: Final = """
    SELECT kind, status, count(*) AS count,
        extract(epoch FROM clock_timestamp() - min(created_at))::float AS seconds
    FROM job WHERE status IN ('queued', 'running') GROUP BY 1, 2
"""


class CensusStore:
    """Counts one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open_rows(self, *, today: date) -> dict[str, Any]:
        """Return how many transactions are open or overdue, how many changes in no seal, and the ids of the oldest."""
        return await fetch_one(self._connection, _OPEN, {"today": day_number(today)}) or {}

    async def webhooks(self) -> dict[str, Any]:
        """Return how many endpoints there are, and for how many of their events they have yet to be told or tried."""
        return await fetch_one(self._connection, _TOLD) or {}

    async def data_sources(self) -> dict[str, int]:
        """Return how many pulled data sources there are, by how they do."""
        return {row["state"]: row["count"] for row in await fetch_all(self._connection, _SOURCES)}

    async def jobs(self) -> list[dict[str, Any]]:
        """Return, by kind and status, how many jobs have not ended, and the age of the oldest one in seconds."""
        return await fetch_all(self._connection, _JOBS)
