"""What is open in a tenant environment, counted: read for metrics alone, in one statement each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from payrec.domain.incoming_transactions import day_number
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one
from payrec.storage.statement_notices import LATEST_ON

_TODAY: Final = "date '1970-01-01' + %(today)s::int"
_OPEN: Final = f"""
    SELECT
        (SELECT count(*) FROM expected_open) AS expected,
        (SELECT count(*) FROM expected_open WHERE coalesce(due_day, to_day) < %(today)s) AS overdue,
        (SELECT transaction_id FROM expected_open ORDER BY transaction_id LIMIT 1) AS oldest_expected_id,
        (SELECT count(*) FROM incoming_open) AS incoming,
        (SELECT transaction_id FROM incoming_open ORDER BY transaction_id LIMIT 1) AS oldest_incoming_id,
        (SELECT count(*) FROM account a WHERE a.statement_every IS NOT NULL AND (
            SELECT max(n.begins_on) FROM statement_notice n WHERE n.account_id = a.id
        ) > coalesce({LATEST_ON.format(today=_TODAY)}, '-infinity')) AS without_statement,
        (SELECT count(*) FROM audit_unsealed) AS unsealed,
        (SELECT change_id FROM audit_unsealed ORDER BY change_id LIMIT 1) AS oldest_unsealed_id
"""  # noqa: S608 - our own text
_AMOUNTS: Final = """
    WITH lines AS (
        SELECT 'expected' AS side, direction, currency, open_minor, %(today)s - coalesce(due_day, to_day) AS days
        FROM expected_open
        UNION ALL
        SELECT 'incoming', direction, currency, open_minor, greatest(%(today)s - booking_day, 0) FROM incoming_open
    )
    SELECT side, CASE direction WHEN 1 THEN 'credit' ELSE 'debit' END AS direction, currency,
        -- What is due on no day in particular is not due yet.
        width_bucket(coalesce(days, -1), %(bounds)s::int[]) AS age,
        count(*) AS count, sum(open_minor)::float AS minor
    FROM lines GROUP BY 1, 2, 3, 4
"""
_RECENT: Final = """
    SELECT
        (SELECT count(*) FROM expected_transaction WHERE id >= %(since)s) AS expected,
        (SELECT count(*) FROM expected_open WHERE transaction_id >= %(since)s) AS expected_open,
        (SELECT count(*) FROM incoming_transaction WHERE id >= %(since)s) AS incoming,
        (SELECT count(*) FROM incoming_open WHERE transaction_id >= %(since)s) AS incoming_open
"""
_REASONS: Final = """
    SELECT CASE w.side WHEN 1 THEN 'expected' ELSE 'incoming' END AS side, w.reason, count(*) AS count
    FROM open_reason w GROUP BY 1, 2
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
        """Return how many transactions are open or overdue, how many changes in no seal, and the ids of the oldest.

        ``without_statement`` is the number of accounts of which it was told that a statement is missing, and that have
        none since.
        """
        return await fetch_one(self._connection, _OPEN, {"today": day_number(today)}) or {}

    async def open_amounts(self, *, today: date, bounds: Sequence[int]) -> list[dict[str, Any]]:
        """Return what is open, in minor units, by side, direction, currency and age.

        ``age`` is the number of bounds (days, ascending) that the days since the due or booking day have reached.
        """
        return await fetch_all(self._connection, _AMOUNTS, {"today": day_number(today), "bounds": list(bounds)})

    async def recent(self, *, since: UUID) -> dict[str, int]:
        """Return how many transactions of each side have an id from ``since`` on, and how many of these are open."""
        return await fetch_one(self._connection, _RECENT, {"since": since}) or {}

    async def reasons(self) -> list[dict[str, Any]]:
        """Return, by side and number of the reason, how many transactions the last run left open."""
        return await fetch_all(self._connection, _REASONS)

    async def webhooks(self) -> dict[str, Any]:
        """Return how many endpoints there are, and for how many of their events they have yet to be told or tried."""
        return await fetch_one(self._connection, _TOLD) or {}

    async def data_sources(self) -> dict[str, int]:
        """Return how many pulled data sources there are, by how they do."""
        return {row["state"]: row["count"] for row in await fetch_all(self._connection, _SOURCES)}

    async def jobs(self) -> list[dict[str, Any]]:
        """Return, by kind and status, how many jobs have not ended, and the age of the oldest one in seconds."""
        return await fetch_all(self._connection, _JOBS)
