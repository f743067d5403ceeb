"""What a backtest reads: rows and lessons as they were known at an instant, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import CLOSED, Side
from payrec.storage.database import Connection
from payrec.storage.history import later
from payrec.storage.history_relations import at_instant
from payrec.storage.rows import columns_of, fetch_all, fetch_one
from payrec.tables.calibration import CalibrationVersion

_TABLES: Final = {
    Side.EXPECTED: ("expected_transaction", "expected_open"),
    Side.INCOMING: ("incoming_transaction", "incoming_open"),
}
_OPEN: Final = {
    side: at_instant(stated, "allocation", opened, whole=True) + f"SELECT transaction_id, open_minor FROM {opened}"  # noqa: S608 - our own text
    for side, (stated, opened) in _TABLES.items()
}
_ARRIVED: Final = "EXISTS (SELECT FROM change ch WHERE ch.id = t.change_id AND ch.at > %(since)s)"
_STATED: Final = {
    side: f"""
        {at_instant(stated, whole=True)}
        SELECT t.*, {_ARRIVED} AS arrived FROM {stated} t WHERE {_ARRIVED} OR t.id = ANY(%(ids)s::uuid[])
    """  # noqa: S608 - our own text
    for side, (stated, _) in _TABLES.items()
}
_NEW_ITEMS: Final = """
    SELECT p.*, true AS arrived FROM change ch JOIN expected_transaction t ON t.change_id = ch.id
    LEFT JOIN LATERAL (
        SELECT s.stated FROM stated_row s JOIN change c ON c.id = s.until_change_id
        WHERE s.side = 1 AND s.transaction_id = t.id ORDER BY c.at LIMIT 1
    ) first ON true
    CROSS JOIN LATERAL jsonb_populate_record(t, coalesce(first.stated, '{}')) p
    WHERE ch.at > %(since)s AND ch.at <= %(as_of)s
"""
_CALIBRATION: Final = f"""
    SELECT {columns_of(CalibrationVersion)} FROM calibration
    WHERE created_at <= %(as_of)s AND NOT {later("change_id")} ORDER BY version DESC LIMIT 1
"""  # noqa: S608 - our own text
_REJECTED: Final = f"""
    {at_instant("match", whole=True)}
    SELECT l.expected_id, l.contra_expected_id, l.incoming_id, l.contra_incoming_id
    FROM match m JOIN leg l ON l.match_id = m.id
    WHERE m.status IN ('rejected', 'reversed') AND m.kind IN ('one_to_one', 'transfer', 'refund', 'credit_note')
        AND NOT EXISTS (
            SELECT FROM rejection_forgotten f WHERE f.match_id = m.id AND NOT {later("f.change_id")}
        )
"""  # noqa: S608 - our own text
_ENDED: Final = """
    SELECT m.id, m.decided_by, l.expected_id, l.contra_expected_id, l.incoming_id, l.contra_incoming_id
    FROM leg l JOIN match m ON m.id = l.match_id
    WHERE m.status = 'accepted'
        AND (l.incoming_id = ANY(%(ids)s::uuid[]) OR l.contra_incoming_id = ANY(%(ids)s::uuid[]))
"""
# What somebody has taken back was accepted too: who did so is named in the match, and the run in the state before.
_BY_RUNS: Final = """
    SELECT m.id, l.expected_id, l.contra_expected_id, l.incoming_id, l.contra_incoming_id
    FROM leg l JOIN match m ON m.id = l.match_id
    WHERE (l.incoming_id = ANY(%(ids)s::uuid[]) OR l.contra_incoming_id = ANY(%(ids)s::uuid[]))
        AND ((m.status = 'accepted' AND m.decided_by LIKE 'engine:%%') OR EXISTS (
            SELECT FROM match_state s
            WHERE s.match_id = m.id AND s.status = 'accepted' AND s.decided_by LIKE 'engine:%%'
        ))
    ORDER BY m.id
"""
_APART: Final = """
    SELECT transaction_id FROM allocation
    WHERE side = 2 AND transaction_id = ANY(%(ids)s::uuid[]) AND status = ANY(%(statuses)s)
"""


class BacktestStore:
    """Reads in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open_rows(self, side: Side, *, as_of: datetime) -> dict[UUID, int]:
        """Return what was open of each transaction of a side, in minor units."""
        rows = await fetch_all(self._connection, _OPEN[side], {"as_of": as_of})
        return {row["transaction_id"]: row["open_minor"] for row in rows}

    async def stated(
        self, side: Side, ids: Sequence[UUID], *, since: datetime, as_of: datetime
    ) -> list[dict[str, Any]]:
        """Return what was stated of these transactions, and of those that have ``arrived`` after ``since``."""
        return await fetch_all(self._connection, _STATED[side], {"ids": list(ids), "since": since, "as_of": as_of})

    async def new_items(self, *, since: datetime, as_of: datetime) -> list[dict[str, Any]]:
        """Return the expected transactions that have ``arrived`` in between, as they were stated first."""
        return await fetch_all(self._connection, _NEW_ITEMS, {"since": since, "as_of": as_of})

    async def calibration(self, *, as_of: datetime) -> dict[str, Any] | None:
        """Return the version that was in force."""
        return await fetch_one(self._connection, _CALIBRATION, {"as_of": as_of})

    async def rejected(self, *, as_of: datetime) -> list[dict[str, Any]]:
        """Return the pairs that were not to be proposed again, each by two of four ids."""
        return await fetch_all(self._connection, _REJECTED, {"as_of": as_of})

    async def ended(self, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return the legs of accepted matches of these lines, with the match's ``id`` and ``decided_by``."""
        return await fetch_all(self._connection, _ENDED, {"ids": list(ids)})

    async def by_runs(self, ids: Sequence[UUID]) -> list[dict[str, Any]]:
        """Return the legs of what runs have accepted of these lines, with the match's ``id``, in its order."""
        return await fetch_all(self._connection, _BY_RUNS, {"ids": list(ids)})

    async def apart(self, ids: Sequence[UUID]) -> set[UUID]:
        """Return those of these lines that nobody has to match: ignored, classified, or of a return."""
        rows = await fetch_all(self._connection, _APART, {"ids": list(ids), "statuses": sorted(CLOSED)})
        return {row["transaction_id"] for row in rows}
