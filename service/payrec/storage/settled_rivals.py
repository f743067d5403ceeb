"""Transactions that runs have settled, as far as they may have been rivals of what is still open."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from payrec.domain.matching.rules import FEATURES
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.history_relations import at_instant
from payrec.storage.rows import fetch_all, fetch_one

COLUMNS: Final = ("currency", "direction", "amount_minor", "came")
"""What is known of open transactions: all that they are, and the greatest id of the two that a match would join."""

# What a person has decided tells something of the rest, and what waits for one is not decided yet.
_BY_RUN: Final = "(m.status = 'pending_approval' OR (m.status = 'accepted' AND starts_with(m.decided_by, 'engine:')))"
_NEWEST: Final = f"SELECT m.id FROM match m WHERE {_BY_RUN} ORDER BY m.id DESC LIMIT 1"  # noqa: S608 - our own text
# Ids begin with the instant at which they were made: a match that is greater has seen both.
_SETTLED: Final = """
    wanted AS MATERIALIZED (
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
_TABLES: Final = {Side.EXPECTED: "expected_transaction", Side.INCOMING: "incoming_transaction"}
_SETTLED_OF: Final = {
    side: _SETTLED.format(columns=", ".join(COLUMNS), table=table, end=f"{side.name.lower()}_id", by_run=_BY_RUN)
    for side, table in _TABLES.items()
}

_SAID: Final = ("reference", "end_to_end", "amount", "account", "name", "own_account")
"""Features that tell what speaks for a pair, whatever becomes of its line and its days."""

PAIR_COLUMNS: Final = ("proposal", "expected_id", "incoming_id", *(f"{name}_level" for name in _SAID))
"""What is known of pairs: the number of the proposal, the two, and what speaks for them."""

# Ids begin with the instant at which they were made: what a run has accepted is greater than the run.
_TOLD: Final = f"""
    wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(proposal)s::integer[], %(expected_id)s::uuid[], %(incoming_id)s::uuid[],
            {", ".join(f"%({name}_level)s::smallint[]" for name in _SAID)}
        ) w ({", ".join(PAIR_COLUMNS)})
    ), rival AS MATERIALIZED (
        SELECT DISTINCT w.proposal, m.run_id, r.side, r.transaction_id FROM wanted w
        JOIN leg l ON l.incoming_id = w.incoming_id AND l.expected_id = w.expected_id
        JOIN match m ON m.id = l.match_id
            AND {" AND ".join(f"m.levels[{list(FEATURES).index(name) + 1}] = w.{name}_level" for name in _SAID)}
        CROSS JOIN LATERAL jsonb_array_elements(m.alternatives) a
        CROSS JOIN LATERAL (
            VALUES ({Side.EXPECTED.value}, (a.value->>'expected')::uuid),
                ({Side.INCOMING.value}, (a.value->>'incoming')::uuid)
        ) r (side, transaction_id)
        WHERE m.status IN ('proposed', 'superseded') AND m.uniqueness <> 'unique' AND m.run_id IS NOT NULL
            AND r.transaction_id NOT IN (w.expected_id, w.incoming_id)
    )
    SELECT DISTINCT r.proposal, r.side FROM rival r
    CROSS JOIN LATERAL (
        SELECT match_id FROM leg WHERE expected_id = r.transaction_id
        UNION ALL SELECT match_id FROM leg WHERE contra_expected_id = r.transaction_id
        UNION ALL SELECT match_id FROM leg WHERE incoming_id = r.transaction_id
        UNION ALL SELECT match_id FROM leg WHERE contra_incoming_id = r.transaction_id
    ) l
    JOIN match m ON m.id = l.match_id
    WHERE l.match_id > r.run_id AND {_BY_RUN}
"""  # noqa: S608 - our own text


class SettledRivalStore:
    """Reads the matches that runs have made without a person, in the transaction of ``connection``.

    With ``as_of`` those that there were at that instant, as they were then.
    """

    def __init__(self, connection: Connection, *, as_of: datetime | None = None) -> None:
        self._connection = connection
        self._as_of = as_of

    async def newest(self) -> UUID | None:
        """Return the newest of these matches."""
        begin = "" if self._as_of is None else at_instant("match", whole=True)
        row = await fetch_one(self._connection, begin + _NEWEST, {"as_of": self._as_of})
        return None if row is None else row["id"]

    async def like(self, side: Side, wanted: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
        """Return what such matches have settled of one side since then: ``wanted`` has lists for COLUMNS.

        Rows have the first three of them, ``counterparty_name`` and ``counterparty_account``, and ``match_id``, the
        newest of the matches, as text.
        """
        return await self._read(_SETTLED_OF[side], wanted, "match", _TABLES[side])

    async def told(self, wanted: Mapping[str, list[Any]]) -> dict[Side, list[int]]:
        """Return the proposals with a rival, on each side, that such matches have settled since a run told of it.

        ``wanted`` has lists for PAIR_COLUMNS. A run told of what it kept as an alternative of just this pair, when it
        left that to a person for the same reasons as there are now.
        """
        rows = await self._read(_TOLD, wanted, "match")
        return {side: [row["proposal"] for row in rows if row["side"] == side.value] for side in Side}

    async def _read(self, statement: str, wanted: Mapping[str, list[Any]], *tables: str) -> list[dict[str, Any]]:
        """Return the rows of a statement without its WITH, which reads ``tables``."""
        begin = "WITH " if self._as_of is None else f"{at_instant(*tables, whole=True)}, "
        return await fetch_all(self._connection, begin + statement, {**wanted, "as_of": self._as_of})
