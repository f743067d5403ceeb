"""Overdue expected transactions: which there are that nobody was told of, and that they were."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final
from uuid import UUID

from payrec.domain.incoming_transactions import day_number
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

_UNTOLD: Final = """
    FROM expected_open o
    WHERE coalesce(o.due_day, o.to_day) < %(today)s
        AND NOT EXISTS (SELECT FROM overdue_notice n WHERE n.transaction_id = o.transaction_id)
"""
_WAITS: Final = f"SELECT EXISTS (SELECT {_UNTOLD}) AS waits"
# Whoever changes its dates at the same time would not see the notice: such an item is left for the next time.
_NOTE: Final = f"""
    INSERT INTO overdue_notice (transaction_id, told_at)
    SELECT o.transaction_id, %(at)s {_UNTOLD} ORDER BY o.transaction_id LIMIT %(limit)s FOR SHARE OF o SKIP LOCKED
    ON CONFLICT (transaction_id) DO NOTHING RETURNING transaction_id
"""


class OverdueNoticeStore:
    """``overdue_notice`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def waits(self, *, today: date) -> bool:
        """Return whether there is anything open and overdue of which nobody was told."""
        row = await fetch_one(self._connection, _WAITS, {"today": day_number(today)})
        return row is not None and bool(row["waits"])

    async def note(self, *, today: date, at: datetime, limit: int) -> list[UUID]:
        """Note at most ``limit`` of them as told, and return them. Who notes the same at the same time gets none."""
        parameters = {"today": day_number(today), "at": at, "limit": limit}
        return [row["transaction_id"] for row in await fetch_all(self._connection, _NOTE, parameters)]
