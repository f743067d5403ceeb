"""Transactions that runs have settled, as far as they may have been rivals of what is still open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_all, fetch_one

COLUMNS: Final = ("currency", "direction", "amount_minor", "came")
"""What is known of open transactions: all that they are, and the greatest id of the two that a match would join."""

# What a person has decided tells something of the rest, and what waits for one is not decided yet.
_BY_RUN: Final = "(m.status = 'pending_approval' OR (m.status = 'accepted' AND starts_with(m.decided_by, 'engine:')))"
_NEWEST: Final = f"SELECT m.id FROM match m WHERE {_BY_RUN} ORDER BY m.id DESC LIMIT 1"  # noqa: S608 - our own text
# Ids begin with the instant at which they were made: a match that is greater has seen both.
_SETTLED: Final = """
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(currency)s::text[], %(direction)s::smallint[], %(amount_minor)s::bigint[], %(came)s::uuid[]
        ) w ({columns})
    )
    SELECT w.currency, w.direction, w.amount_minor, t.counterparty_name, t.counterparty_account,
        max(l.match_id::text) AS match_id
    FROM wanted w
    JOIN {table} t ON t.amount_minor = w.amount_minor AND t.currency = w.currency
        AND t.direction = CASE w.direction WHEN 1 THEN 'credit' ELSE 'debit' END
    CROSS JOIN LATERAL (
        SELECT match_id FROM leg WHERE {end} = t.id UNION ALL SELECT match_id FROM leg WHERE contra_{end} = t.id
    ) l
    JOIN match m ON m.id = l.match_id
    WHERE l.match_id > w.came AND {by_run}
    GROUP BY 1, 2, 3, 4, 5
"""
_SETTLED_OF: Final = {
    side: _SETTLED.format(columns=", ".join(COLUMNS), table=f"{name}_transaction", end=f"{name}_id", by_run=_BY_RUN)
    for side, name in ((Side.EXPECTED, "expected"), (Side.INCOMING, "incoming"))
}


class SettledRivalStore:
    """Reads the matches that runs have made without a person, in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def newest(self) -> UUID | None:
        """Return the newest of these matches."""
        row = await fetch_one(self._connection, _NEWEST)
        return None if row is None else row["id"]

    async def like(self, side: Side, wanted: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
        """Return what such matches have settled of one side since then: ``wanted`` has lists for COLUMNS.

        Rows have the first three of them, ``counterparty_name`` and ``counterparty_account``, and ``match_id``, the
        newest of the matches, as text.
        """
        return await fetch_all(self._connection, _SETTLED_OF[side], dict(wanted))
