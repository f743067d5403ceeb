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
from payrec.storage.rows import Ids, array_text, fetch_all


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


def allocated(source: str, *, are_new: bool = False) -> str:
    """Return the statement that allocates what ``source`` has as ``side, id, amount, taken``, each transaction once.

    Its parameters are ``closed``, ``change_id`` and ``at``. ``amount`` is what the transaction has in all. Where none
    of them has an allocation, as only who decides alone can say, not to look for it saves half of the time.
    """
    there = """
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
    return f"""
        INSERT INTO allocation AS a
            (side, transaction_id, amount_minor, allocated_minor, status, version, updated_at, change_id)
        SELECT side, id, amount, taken,
               CASE WHEN taken = amount THEN 'matched' ELSE 'partially_matched' END, 2, %(at)s, %(change_id)s
        FROM {source} t
        ORDER BY side, id{"" if are_new else there}
    """  # noqa: S608 - our own text


_GIVEN: Final = """(
            -- Several legs may take of the same transaction, and one statement may not meet a row twice.
            SELECT side, id, max(amount) AS amount, sum(taken)::bigint AS taken
            FROM unnest(%(sides)s::smallint[], %(ids)s::uuid[], %(amounts)s::bigint[], %(takes)s::bigint[])
                 AS u (side, id, amount, taken)
            GROUP BY side, id
        )"""
_TAKE: Final = allocations_logged(allocated(_GIVEN), of="a.transaction_id = ANY(%(ids)s::uuid[])") + _CHANGED
_RELEASE: Final = (
    allocations_logged(
        """
        UPDATE allocation a SET allocated_minor = a.allocated_minor - t.minor,
            status = CASE WHEN a.allocated_minor > t.minor THEN 'partially_matched'
                          WHEN a.side = 1 THEN 'open' ELSE 'unmatched' END,
            version = a.version + 1, reason_code = NULL, change_id = %(change_id)s, updated_at = %(at)s
        FROM unnest(%(sides)s::smallint[], %(ids)s::uuid[], %(minors)s::bigint[]) AS t (side, id, minor)
        WHERE a.side = t.side AND a.transaction_id = t.id
        """,
        of="a.transaction_id = ANY(%(ids)s::uuid[])",
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


async def hold_allocations(connection: Connection, side: Side, ids: Ids) -> int:
    """Lock the allocations of transactions of a side, in the order of their ids as everybody does; return how many."""
    cursor = await connection.execute(_HOLD, (int(side), array_text(ids)))
    return cursor.rowcount


async def hold_open(connection: Connection, side: Side, ids: Ids) -> None:
    """Lock the open rows of transactions of a side: a run holds them in the order of their ids, so everybody does."""
    await connection.execute(_LOCK.format(table=OPEN_TABLES[side]).encode(), (array_text(ids),))


async def set_open(connection: Connection, side: Side, ids: Ids, minors: Sequence[int]) -> None:
    """Say what is open of transactions of a side, of which several are held; of what is 0 the open row goes."""
    closed = [name for name, minor in zip(ids, minors, strict=True) if minor == 0]
    reduced = [(name, minor) for name, minor in zip(ids, minors, strict=True) if minor > 0]
    table = OPEN_TABLES[side]
    if closed:
        await connection.execute(_CLOSE.format(table=table).encode(), (array_text(closed),))
    if reduced:
        columns = tuple(array_text(values) for values in zip(*reduced, strict=True))
        await connection.execute(_REDUCE.format(table=table).encode(), columns)


class AllocationStore:
    """``allocation``, and with it the two sets of what is open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def take(self, takes: Sequence[Take], *, change_id: UUID, at: datetime) -> list[dict[str, Any]]:
        """Allocate amounts, in one order for everybody so that nobody waits for each other in a circle.

        Return of each transaction ``side, transaction_id, open_minor, status`` as they are now.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``: a transaction would be allocated beyond its amount.
        ConflictError
            A transaction has been closed meanwhile.
        """
        await hold_decisions(self._connection, alone=False)
        rows = await fetch_all(
            self._connection,
            _TAKE,
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
        for side in OPEN_TABLES:
            mine = [r for r in rows if r["side"] == side]
            if len(mine) > 1:
                await hold_open(self._connection, side, [r["transaction_id"] for r in mine])
            names, minors = [r["transaction_id"] for r in mine], [r["open_minor"] for r in mine]
            await set_open(self._connection, side, names, minors)
        await end_reasons(
            self._connection, [r["transaction_id"] for r in rows], [r["side"] for r in rows], change_id=change_id
        )
        return rows

    async def hold(self, *, expected: Sequence[UUID], incoming: Sequence[UUID]) -> None:
        """Hold the allocations of transactions until the commit; one that has none yet has nothing to hold."""
        await hold_decisions(self._connection, alone=False)
        for side, ids in ((Side.EXPECTED, expected), (Side.INCOMING, incoming)):
            if ids:
                await hold_allocations(self._connection, side, ids)

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
