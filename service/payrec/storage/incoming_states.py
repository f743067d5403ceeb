"""What people decide about lines that nothing is matched with: ignored, classified, restored.

The line itself is held first, because its booking changes it and what is decided about it; then decisions, its
allocation, its open row, and matches, as everybody locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from uuid import UUID

from payrec.storage.allocations import hold_decisions
from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged
from payrec.storage.period_locks import LAST_LOCKED, hold_periods
from payrec.storage.reasons import end_reasons
from payrec.storage.rows import fetch_all, fetch_one

_HOLD: Final = "SELECT pending, duplicate FROM incoming_transaction WHERE id = %s FOR NO KEY UPDATE"
# Whoever touches a line first inserts the row; where it is there, it has to be as it was read.
_DECIDE: Final = allocations_logged(
    f"""
        INSERT INTO allocation AS a (side, transaction_id, amount_minor, status, reason, category, posting_code,
            effective_on, version, updated_at, change_id)
        SELECT 2, i.id, i.amount_minor, %(status)s, u.reason, u.category, u.posting_code,
            coalesce(u.effective_on, greatest(i.booking_on, {LAST_LOCKED.format(account="i.account")} + 1)),
            2, %(at)s, %(change_id)s
        FROM unnest(%(ids)s::uuid[], %(reasons)s::text[], %(categories)s::text[], %(posting_codes)s::text[],
            %(days)s::date[]) AS u (id, reason, category, posting_code, effective_on)
        JOIN incoming_transaction i ON i.id = u.id WHERE %(status)s <> 'classified' OR NOT i.pending ORDER BY i.id
        ON CONFLICT (transaction_id, side) DO UPDATE SET status = EXCLUDED.status, reason_code = NULL,
            reason = EXCLUDED.reason, category = EXCLUDED.category, posting_code = EXCLUDED.posting_code,
            effective_on = EXCLUDED.effective_on, version = a.version + 1, updated_at = EXCLUDED.updated_at,
            change_id = EXCLUDED.change_id
        WHERE a.status = %(before)s AND a.allocated_minor = 0
    """,  # noqa: S608 - our own text
    of="a.side = 2 AND a.transaction_id = ANY(%(ids)s::uuid[])",
)
_DECIDED: Final = f"{_DECIDE} SELECT transaction_id AS id FROM changed"  # noqa: S608 - our own text
_CLOSE: Final = """
    WITH held AS (
        SELECT transaction_id FROM incoming_open WHERE transaction_id = ANY(%s) ORDER BY transaction_id FOR UPDATE
    )
    DELETE FROM incoming_open o USING held WHERE o.transaction_id = held.transaction_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What cannot change of a line while it is held."""

    pending: bool
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is decided about a line."""

    id: UUID
    reason: str | None = None
    category: str | None = None
    posting_code: str | None = None
    effective_on: date | None = None
    """From when on it counts, its booking date or the first open day unless given; of one that is restored, from when
    on it does not any more."""


class IncomingStateStore:
    """What is decided about lines of ``incoming_transaction``: their ``allocation`` and ``incoming_open``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self, transaction_id: UUID) -> Held | None:
        """Hold a line until the end of the transaction, and take part in deciding; None if there is none.

        Restoring one may change it, and whoever changes a line waits for locks of periods before he decides.
        """
        await hold_periods(self._connection)
        row = await fetch_one(self._connection, _HOLD, (transaction_id,))
        if row is None:
            return None
        await hold_decisions(self._connection, alone=False)
        return Held(**row)

    async def decide(
        self, decisions: Sequence[Decision], *, before: str, status: str, change_id: UUID, at: datetime
    ) -> set[UUID]:
        """Set the status of lines of which nothing is matched; return those that still were in the one before.

        Called when ``hold_decisions`` is over. What is not booked is not classified.
        """
        parameters = {
            "ids": [d.id for d in decisions],
            "reasons": [d.reason for d in decisions],
            "categories": [d.category for d in decisions],
            "posting_codes": [d.posting_code for d in decisions],
            "days": [d.effective_on for d in decisions],
            "before": before,
            "status": status,
            "change_id": change_id,
            "at": at,
        }
        return {row["id"] for row in await fetch_all(self._connection, _DECIDED, parameters)}

    async def close(self, transaction_ids: Sequence[UUID], *, change_id: UUID) -> None:
        """Take lines out of what is open."""
        await self._connection.execute(_CLOSE, (list(transaction_ids),))
        await end_reasons(self._connection, transaction_ids, [2] * len(transaction_ids), change_id=change_id)
