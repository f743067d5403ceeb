"""How much of each transaction is allocated. The row's constraint decides, whatever runs at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from payrec.errors import ConflictError
from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged
from payrec.storage.reasons import end_reasons
from payrec.storage.rows import fetch_all


class Side(IntEnum):
    """The two sides, as they are stored."""

    EXPECTED = 1
    INCOMING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """An amount of one transaction to allocate. ``amount_minor`` is what the transaction has in all."""

    side: Side
    transaction_id: UUID
    amount_minor: int
    taken_minor: int


_CHANGED: Final = "SELECT side, transaction_id, amount_minor - allocated_minor AS open_minor, status FROM changed"
_TAKEN: Final = """
        INSERT INTO allocation AS a
            (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at, change_id)
        SELECT side, id, amount, taken,
               CASE WHEN taken = amount THEN 'matched' ELSE 'partially_matched' END, 2, %(at)s, %(change_id)s
        FROM (
            -- Several legs may take of the same transaction, and one statement may not meet a row twice.
            SELECT side, id, max(amount) AS amount, sum(taken)::bigint AS taken
            FROM unnest(%(sides)s::smallint[], %(ids)s::uuid[], %(amounts)s::bigint[], %(takes)s::bigint[])
                 AS u (side, id, amount, taken)
            GROUP BY side, id
        ) AS t
        ORDER BY side, id
        ON CONFLICT (transaction_id, side) DO UPDATE SET
            allocated_minor = a.allocated_minor + EXCLUDED.allocated_minor,
            status = CASE WHEN a.allocated_minor + EXCLUDED.allocated_minor = a.amount_minor
                          THEN 'matched' ELSE 'partially_matched' END,
            version = a.version + 1,
            reason_code = NULL,
            change_id = EXCLUDED.change_id,
            updated_at = EXCLUDED.updated_at
        WHERE a.status <> ALL(%(closed)s)
"""
_TAKE: Final = {alone: allocations_logged(_TAKEN, alone=alone) + _CHANGED for alone in (False, True)}
_RELEASE: Final = (
    allocations_logged(
        """
        UPDATE allocation a SET allocated_minor = a.allocated_minor - t.minor,
            status = CASE WHEN a.allocated_minor > t.minor THEN 'partially_matched'
                          WHEN a.side = 1 THEN 'open' ELSE 'unmatched' END,
            version = a.version + 1, reason_code = NULL, change_id = %(change_id)s, updated_at = %(at)s
        FROM unnest(%(sides)s::smallint[], %(ids)s::uuid[], %(minors)s::bigint[]) AS t (side, id, minor)
        WHERE a.side = t.side AND a.transaction_id = t.id
        """
    )
    + _CHANGED
)
_HOLD: Final = """
    SELECT 1 FROM allocation WHERE side = %s AND transaction_id = ANY(%s) ORDER BY transaction_id FOR UPDATE
"""

CLOSED: Final = frozenset({"void", "ignored", "classified", "reversed", "linked"})
"""Statuses in which nothing is taken of a transaction."""

_DECISIONS_LOCK: Final = 0x6D61_7463
"""Key of the advisory lock that those who take amounts share, and that a run has alone while it commits."""

_LOCK: Final = "SELECT 1 FROM {table} WHERE transaction_id = ANY(%s) ORDER BY transaction_id FOR UPDATE"
_CLOSE: Final = "DELETE FROM {table} WHERE transaction_id = ANY(%s)"
_REDUCE: Final = """
    UPDATE {table} o SET open_minor = t.open_minor
    FROM unnest(%s::uuid[], %s::bigint[]) AS t (id, open_minor) WHERE o.transaction_id = t.id
"""
OPEN_TABLES: Final = {Side.EXPECTED: "expected_open", Side.INCOMING: "incoming_open"}


async def hold_decisions(connection: Connection, *, alone: bool) -> None:
    """Take part in deciding until the end of the transaction, before any other lock.

    A run decides alone. So nobody takes an amount while its proposals are written but cannot be seen yet: who takes one
    afterwards sees them and supersedes them. And no two of its locks can be part of a circle with somebody else's.
    """
    kind = "" if alone else "_shared"
    query = f"SELECT pg_advisory_xact_lock{kind}(%s, hashtext(current_schema()))"
    await connection.execute(query.encode(), (_DECISIONS_LOCK,))


class AllocationStore:
    """``allocation``, and with it the two sets of what is open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def take(
        self, takes: Sequence[Take], *, change_id: UUID, at: datetime, alone: bool = False
    ) -> list[dict[str, Any]]:
        """Allocate amounts, in one order for everybody so that nobody waits for each other in a circle.

        Return of each transaction ``side, transaction_id, open_minor, status`` as they are now. Who decides ``alone``
        holds the decisions already.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``: a transaction would be allocated beyond its amount.
        ConflictError
            A transaction has been closed meanwhile.
        """
        if not alone:
            await hold_decisions(self._connection, alone=False)
        rows = await fetch_all(
            self._connection,
            _TAKE[alone],
            {
                "sides": [int(t.side) for t in takes],
                "ids": [t.transaction_id for t in takes],
                "amounts": [t.amount_minor for t in takes],
                "takes": [t.taken_minor for t in takes],
                "closed": list(CLOSED),
                "change_id": change_id,
                "at": at,
            },
        )
        if len(rows) < len({(t.side, t.transaction_id) for t in takes}):
            raise ConflictError("a transaction of the match is not open any more")
        for side, table in OPEN_TABLES.items():
            mine = [r for r in rows if r["side"] == side]
            if len(mine) > 1:
                # A run holds open rows in the order of their ids: whoever needs several must take them in it too.
                await self._connection.execute(_LOCK.format(table=table), ([r["transaction_id"] for r in mine],))
            closed = [r["transaction_id"] for r in mine if r["open_minor"] == 0]
            reduced = [r for r in mine if r["open_minor"] > 0]
            if closed:
                await self._connection.execute(_CLOSE.format(table=table), (closed,))
            if reduced:
                await self._connection.execute(
                    _REDUCE.format(table=table),
                    ([r["transaction_id"] for r in reduced], [r["open_minor"] for r in reduced]),
                )
        await end_reasons(
            self._connection, [r["transaction_id"] for r in rows], [r["side"] for r in rows], change_id=change_id
        )
        return rows

    async def hold(self, *, expected: Sequence[UUID], incoming: Sequence[UUID]) -> None:
        """Hold the allocations of transactions until the commit; one that has none yet has nothing to hold."""
        await hold_decisions(self._connection, alone=False)
        for side, ids in ((Side.EXPECTED, expected), (Side.INCOMING, incoming)):
            if ids:
                await self._connection.execute(_HOLD, (int(side), list(ids)))

    async def release(
        self, minors: Mapping[tuple[Side, UUID], int], *, change_id: UUID, at: datetime
    ) -> list[dict[str, Any]]:
        """Give amounts back that are held; return as ``take``. Their open rows are for who calls."""
        parameters = {
            "sides": [int(side) for side, _ in minors],
            "ids": [transaction_id for _, transaction_id in minors],
            "minors": list(minors.values()),
            "change_id": change_id,
            "at": at,
        }
        return await fetch_all(self._connection, _RELEASE, parameters)
