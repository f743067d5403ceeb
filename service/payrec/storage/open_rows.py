"""Transactions put back among what is open: by a reversal, a return, a restore, or because they were changed.

Their open rows are made anew of what they state, because whoever closed them has deleted these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlmodel import SQLModel

from payrec.domain import expected_transactions, incoming_transactions
from payrec.storage.allocations import OPEN_TABLES, Side
from payrec.storage.database import Connection
from payrec.storage.reasons import end_reasons
from payrec.storage.rows import adapt, column_names, fetch_all
from payrec.tables.expected_transactions import ExpectedOpen
from payrec.tables.incoming_transactions import IncomingOpen

_STATED: Final = {
    Side.EXPECTED: """
        SELECT t.*, coalesce(a.amount_minor - a.allocated_minor, t.amount_minor - t.settled_before_minor) AS open_minor
        FROM expected_transaction t LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = t.id
        WHERE t.id = ANY(%s) ORDER BY t.id
    """,
    Side.INCOMING: """
        SELECT t.*, coalesce(a.amount_minor - a.allocated_minor, t.amount_minor) AS open_minor,
            coalesce(a.amount_minor, t.amount_minor) AS left_minor
        FROM incoming_transaction t LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = t.id
        WHERE t.id = ANY(%s) ORDER BY t.id
    """,
}
OPEN_ROWS: Final[dict[Side, type[SQLModel]]] = {Side.EXPECTED: ExpectedOpen, Side.INCOMING: IncomingOpen}
_REOPEN: Final = """
    INSERT INTO {table} ({columns}) VALUES ({values})
    ON CONFLICT (transaction_id) DO UPDATE SET open_minor = EXCLUDED.open_minor, total_minor = EXCLUDED.total_minor
"""


async def reopen(
    connection: Connection, *, expected: Sequence[UUID] = (), incoming: Sequence[UUID] = (), change_id: UUID
) -> None:
    """Have what the allocations leave of transactions among what is open; nobody says any more why it is.

    Called when their allocations are held and changed, and before matches are locked. Open rows are written in the
    order of their ids, as everybody locks them; one that is there gets its amount.
    """
    for side, ids in ((Side.EXPECTED, expected), (Side.INCOMING, incoming)):
        if not ids:
            continue
        stated = await fetch_all(connection, _STATED[side], (list(ids),))
        rows = [_open_row(side, row) for row in stated if row["open_minor"] > 0]
        if not rows:
            continue
        names = [name for name in column_names(OPEN_ROWS[side]) if name in rows[0]]
        query = _REOPEN.format(
            table=OPEN_TABLES[side], columns=", ".join(names), values=", ".join(f"%({name})s" for name in names)
        )
        async with connection.cursor() as cursor:
            await cursor.executemany(query.encode(), [adapt(OPEN_ROWS[side], row) for row in rows])
        opened = [row["transaction_id"] for row in rows]
        await end_reasons(connection, opened, [int(side)] * len(rows), change_id=change_id)


def stated_open_row(side: Side, row: dict[str, Any]) -> dict[str, Any]:
    """Return the open row of a stored transaction of which everything is open; ``row`` has the columns of its table."""
    return expected_transactions.open_row(row) if side is Side.EXPECTED else incoming_transactions.open_row_of(row)


def _open_row(side: Side, row: dict[str, Any]) -> dict[str, Any]:
    made = {**stated_open_row(side, row), "open_minor": row["open_minor"]}
    if side is Side.EXPECTED:
        return {**made, "revision": row["revision"]}
    # What a return has taken back is no part of the line any more.
    return {**made, "total_minor": row["left_minor"]}
