"""Many proposals decided about in one statement each, by nobody else at the same time.

What they take of their transactions is added up by each statement itself, from the ids of the matches. Ids of
transactions come as text and go back as they came: ten thousand times, a value costs more than its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.rows import tuple_row

from payrec.storage.allocations import CLOSED, Side, allocated, hold_allocations, hold_open, set_open
from payrec.storage.database import Connection
from payrec.storage.history import allocations_logged
from payrec.storage.reasons import end_reasons
from payrec.storage.rows import Ids, array_text, fetch_all

# What is not proposed any more has been asked about in vain, and is no part of what is taken; its legs may be here.
_PARTS: Final = """
    joined AS (
        SELECT * FROM leg WHERE match_id = ANY(%(ids)s) AND valid_from IS NULL
    ), ends AS (
        SELECT match_id, 1 AS side, expected_id AS id, settled_minor AS minor, expected_revision AS revision
        FROM joined WHERE expected_id IS NOT NULL
        UNION ALL
        SELECT match_id, 1, contra_expected_id, amount_minor, contra_revision
        FROM joined WHERE contra_expected_id IS NOT NULL
        UNION ALL
        SELECT match_id, 2, incoming_id, amount_minor, incoming_revision FROM joined WHERE incoming_id IS NOT NULL
        UNION ALL
        SELECT match_id, 2, contra_incoming_id, settled_minor, contra_revision
        FROM joined WHERE contra_incoming_id IS NOT NULL
        UNION ALL
        SELECT m.id, CASE a.side WHEN 'expected' THEN 1 ELSE 2 END, a.id, a.minor, NULL
        FROM match m CROSS JOIN LATERAL jsonb_to_recordset(m.adjustments) AS a (side text, id uuid, minor bigint)
        WHERE m.id = ANY(%(ids)s) AND m.status = 'proposed' AND m.adjustments IS NOT NULL
    ), parts AS (
        SELECT match_id, side, id, sum(minor)::bigint AS minor, max(revision) AS revision
        FROM ends GROUP BY match_id, side, id
    ), wanted AS (
        SELECT side, id, sum(minor)::bigint AS minor FROM parts GROUP BY side, id
    )
"""
"""``parts``: what each of the proposals ``ids`` takes of each of its transactions, legs and adjustments together;
``wanted``: what all of them take of a transaction."""

_NAMES: Final = f"WITH {_PARTS} SELECT side, array_agg(id::text) AS ids FROM wanted GROUP BY side"  # noqa: S608
_ENDS: Final = """
    SELECT p.match_id, p.side, p.id, p.minor, p.revision, e.revision AS revision_now,
        coalesce(a.amount_minor - a.allocated_minor, e.amount_minor - e.settled_before_minor) AS left_minor,
        coalesce(a.status, 'open') AS status, NULL::date AS booking_on
    FROM parts p JOIN expected_transaction e ON e.id = p.id
    LEFT JOIN allocation a ON a.side = 1 AND a.transaction_id = p.id WHERE p.side = 1
    UNION ALL
    SELECT p.match_id, p.side, p.id, p.minor, p.revision, i.revision,
        coalesce(a.amount_minor - a.allocated_minor, i.amount_minor),
        CASE WHEN i.pending THEN 'pending' ELSE coalesce(a.status, 'unmatched') END, i.booking_on
    FROM parts p JOIN incoming_transaction i ON i.id = p.id
    LEFT JOIN allocation a ON a.side = 2 AND a.transaction_id = p.id WHERE p.side = 2
"""
_CANDIDATES: Final = f"""
    WITH {_PARTS}, free AS (
        SELECT e.match_id, max(e.booking_on) AS booking_on,
            bool_and(e.revision = e.revision_now AND w.minor <= e.left_minor AND e.status <> ALL(%(shut)s)) AS is_free
        FROM ({_ENDS}) e JOIN wanted w ON w.side = e.side AND w.id = e.id GROUP BY e.match_id
    )
    SELECT m.id, m.status, m.superseded_by, m.amount_minor, f.booking_on, coalesce(f.is_free, false)
    FROM match m LEFT JOIN free f ON f.match_id = m.id WHERE m.id = ANY(%(ids)s)
"""  # noqa: S608 - our own text
_TAKEN: Final = """
    taken AS (
        SELECT w.side, w.id, e.amount_minor - e.settled_before_minor AS amount, w.minor AS taken
        FROM wanted w JOIN expected_transaction e ON e.id = w.id WHERE w.side = 1
        UNION ALL
        SELECT w.side, w.id, i.amount_minor, w.minor
        FROM wanted w JOIN incoming_transaction i ON i.id = w.id WHERE w.side = 2
    )
"""
ALLOCATED_BY_STATUS: Final = """
    SELECT side, status, array_agg(transaction_id::text) AS ids, array_agg(amount_minor - allocated_minor) AS minors
    FROM changed GROUP BY side, status
"""
"""What ``close_taken`` takes, of ``changed`` rows of ``allocation``."""

_TAKE: Final = {
    are_new: allocations_logged(
        allocated("taken", are_new=are_new),
        of=None if are_new else "a.transaction_id IN (SELECT id FROM wanted)",
        before=f"{_PARTS}, {_TAKEN}",
        alone=True,
    )
    + ALLOCATED_BY_STATUS
    for are_new in (False, True)
}
_TAKERS: Final = """
    SELECT t.id, l.match_id FROM leg l CROSS JOIN LATERAL (
        VALUES (l.expected_id), (l.contra_expected_id), (l.incoming_id), (l.contra_incoming_id)
    ) AS t (id) WHERE l.match_id = ANY(%(ids)s) AND t.id = ANY(%(names)s)
"""


class Candidate(NamedTuple):
    """A match that somebody wants to decide about."""

    id: UUID
    status: str
    superseded_by: UUID | None
    amount_minor: int
    booking_on: date | None
    """The last day on which a line of it was booked."""
    is_free: bool
    """Nothing keeps it from being accepted: there is enough for it and all others that were asked about as well."""


class End(NamedTuple):
    """What a proposal takes of one transaction, all legs and adjustments together, and what there is of it."""

    match_id: UUID
    side: int
    id: UUID
    minor: int
    revision: int
    """What the proposal was made for."""
    revision_now: int
    left_minor: int
    status: str
    booking_on: date | None


class Allocated(NamedTuple):
    """Transactions of a side that have one status now that something of them was taken."""

    side: Side
    status: str
    ids: list[str]


async def close_taken(connection: Connection, rows: Sequence[dict[str, Any]], *, change_id: UUID) -> list[Allocated]:
    """Say what is still open of transactions of which something was taken, as ALLOCATED_BY_STATUS tells of them."""
    found = []
    for row in rows:
        side, ids = Side(row["side"]), row["ids"]
        await set_open(connection, side, ids, row["minors"])
        await end_reasons(connection, ids, [int(side)] * len(ids), change_id=change_id)
        found.append(Allocated(side=side, status=row["status"], ids=ids))
    return found


class MatchBulkStore:
    """Reads and writes what many decisions rest on; who calls decides alone (``hold_decisions``)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hold(self, match_ids: Sequence[UUID]) -> bool:
        """Lock what the proposals take of: allocations, then open rows. Nobody changes what is read from now on.

        Tell whether none of it has an allocation yet.
        """
        rows = await fetch_all(self._connection, _NAMES, {"ids": array_text(match_ids)})
        names = {Side(row["side"]): row["ids"] for row in rows}
        held = [await hold_allocations(self._connection, side, names[side]) for side in sorted(names)]
        for side in sorted(names):
            await hold_open(self._connection, side, names[side])
        return not any(held)

    async def candidates(self, match_ids: Sequence[UUID]) -> dict[UUID, Candidate]:
        """Return matches by id; those that there are not are missing."""
        parameters = {"ids": array_text(match_ids), "shut": [*CLOSED, "pending"]}
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_CANDIDATES, parameters)
            return {row[0]: Candidate(*row) for row in await cursor.fetchall()}

    async def ends(self, match_ids: Sequence[UUID]) -> dict[UUID, list[End]]:
        """Return what each of those that are proposals takes."""
        found: dict[UUID, list[End]] = {}
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(f"WITH {_PARTS} {_ENDS}".encode(), {"ids": array_text(match_ids)})
            for row in await cursor.fetchall():
                found.setdefault(row[0], []).append(End(*row))
        return found

    async def take(self, match_ids: Sequence[UUID], *, are_new: bool, change_id: UUID, at: datetime) -> list[Allocated]:
        """Allocate what proposals take of what is held, and close what they leave nothing of.

        ``are_new`` is what ``hold`` has told.

        Raises
        ------
        AlreadyMatchedError
            Through the constraint ``allocation_within_amount``: a transaction would be allocated beyond its amount.
        """
        parameters = {"ids": array_text(match_ids), "closed": list(CLOSED), "change_id": change_id, "at": at}
        rows = await fetch_all(self._connection, _TAKE[are_new], parameters)
        return await close_taken(self._connection, rows, change_id=change_id)

    async def takers(self, names: Sequence[UUID], match_ids: Ids) -> dict[UUID, UUID]:
        """Return for transactions which of these accepted matches takes of each; of several any."""
        parameters = {"names": list(names), "ids": array_text(match_ids)}
        return {row["id"]: row["match_id"] for row in await fetch_all(self._connection, _TAKERS, parameters)}
