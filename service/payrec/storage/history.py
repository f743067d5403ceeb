"""How every state is kept, and how any instant is shown again.

A transaction's instant is ``change.at`` of its last statement, so a row names changes and no instants: a change counts
at an instant if it is not ``later``. What a transaction that is still open has written never counts. A change of which
nothing is known (null: from before history began) counts always.

**To write.** Whoever changes ...

- ``allocation``: sets ``change_id`` and writes the statement by ``allocations_logged``. New rows that are copied in
  need no log: ``change_id`` is enough for a first state.
- ``match``: sets ``change_id`` and writes the statement by ``matches_logged``; a new match has ``created_change_id``.
  Who supersedes many proposals at once keeps what is not implied (``matches_kept``) and needs no log.
- ``expected_transaction`` or ``incoming_transaction``: calls ``keep_stated`` before, which also locks the rows.
- ``open_reason``: says by ``keep_reasons`` or ``payrec.storage.reasons.end_reasons`` what ends.

The log gets every new state by the very statement that makes it, so nobody needs to know what was there before; and the
state before, if it is not there yet. That is read by a part of the statement that comes before the one that changes it:
on PostgreSQL all parts see the same, on Citus (decision 12) each sees what those before it did.

**To read.** ``payrec.storage.history_relations`` puts relations as of ``%(as_of)s`` before a statement, each by its
table's name, so that the statement is the one that reads the present. ``HistoryStore.check`` says whether an instant
can be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from sqlmodel import SQLModel

from payrec.domain.retention import Removed, removed
from payrec.errors import AsOfOutOfRangeError
from payrec.storage.database import Connection
from payrec.storage.rows import column_names, columns_of, fetch_all, fetch_one
from payrec.tables.expected_transactions import ExpectedTransaction
from payrec.tables.history import AllocationState, MatchState
from payrec.tables.incoming_transactions import IncomingTransaction

STATED_TABLES: Final[dict[int, type[SQLModel]]] = {1: ExpectedTransaction, 2: IncomingTransaction}
"""What is stated, by side."""

_ALLOCATION: Final = columns_of(AllocationState)
_MATCH: Final = columns_of(MatchState)
_MATCH_STATE: Final = column_names(MatchState)[1:]
"""What of a state is a column of ``match`` as well."""

_MATCH_BEFORE: Final = ", ".join(
    "coalesce(m.change_id, m.created_change_id) AS change_id" if name == "change_id" else f'm."{name}"'
    for name in _MATCH_STATE
)
_IS_TOLD: Final = "(m.version > 1 OR m.status <> 'proposed' OR m.sampled)"
"""What a proposal was at first is implied."""


def later(change: str) -> str:
    """Return the SQL of whether a change, an expression of ours, is later than the instant ``as_of``."""
    return f"EXISTS (SELECT FROM change lh WHERE lh.id = {change} AND lh.at > %(as_of)s)"


def allocations_logged(
    statement: str, *, of: str | None, before: str = "", returning: str = "", alone: bool = False
) -> str:
    """Return a statement's beginning: ``changed`` is what ``statement`` has changed of ``allocation a``, and is logged.

    ``statement`` is an INSERT or UPDATE of ``allocation`` called ``a`` without RETURNING, which sets ``change_id`` and
    the next ``version``. ``of`` is a condition that all rows of ``a`` which it may change fulfil, and no others that
    are many; None where they are new, and were nothing before. ``before`` are other CTEs that either needs,
    ``returning`` more columns. ``SELECT … FROM changed`` (or any main statement) follows. Who decides ``alone`` logs
    nothing but what was before: whoever changes the rows next has waited for the commit, and keeps what he finds.
    """
    columns = columns_of(AllocationState, "a")
    was = f"was AS MATERIALIZED (SELECT {columns} FROM allocation a WHERE {of}), "  # noqa: S608 - our own text
    kept = f""", kept AS (
            -- Only of rows that the change holds already, so that nobody waits for each other in a circle.
            INSERT INTO allocation_state ({_ALLOCATION})
            SELECT {columns} FROM changed c JOIN was a ON a.transaction_id = c.transaction_id AND a.side = c.side
            ON CONFLICT DO NOTHING
        )"""  # noqa: S608 - our own text
    return f"""
        WITH {f"{before}, " if before else ""}{was if of else ""}changed AS (
            {statement} RETURNING {columns}{f", {returning}" if returning else ""}
        ){kept if of else ""}{"" if alone else _logged("allocation_state", _ALLOCATION)}
    """


def matches_logged(statement: str, *, of: str, returning: str = "", alone: bool = False) -> str:
    """Return a statement's beginning, as ``allocations_logged``: ``statement`` is an UPDATE of ``match m``.

    ``changed`` has the columns of ``match_state``: the id is ``match_id``.
    """
    columns = ", ".join(f'm."{name}"' for name in _MATCH_STATE)
    return f"""
        WITH was AS MATERIALIZED (SELECT m.id, {_MATCH_BEFORE} FROM match m WHERE {of} AND {_IS_TOLD}), changed AS (
            {statement} RETURNING m.id AS match_id, {columns}{f", {returning}" if returning else ""}
        ), kept AS (
            INSERT INTO match_state ({_MATCH}) SELECT was.* FROM changed c JOIN was ON was.id = c.match_id
            ON CONFLICT DO NOTHING
        ){"" if alone else _logged("match_state", _MATCH)}
    """  # noqa: S608 - our own text


def _logged(table: str, columns: str) -> str:
    return f""", logged AS (
            INSERT INTO {table} ({columns}) SELECT {columns} FROM changed
        )"""  # noqa: S608 - our own text


def matches_kept(held: str) -> str:
    """Return the CTE that keeps what matches were before: those whose ``match_id`` the CTE ``held`` gives.

    The part that changes them comes after it.
    """
    return f"""kept AS (
            INSERT INTO match_state ({_MATCH}) SELECT m.id, {_MATCH_BEFORE} FROM {held} c
            JOIN match m ON m.id = c.match_id WHERE {_IS_TOLD} ON CONFLICT DO NOTHING
        )"""  # noqa: S608 - our own text


_KEEP_STATED: Final = """
    WITH held AS (
        SELECT t.id, t.revision, to_jsonb(t) AS stated FROM {table} t WHERE t.id = ANY(%(ids)s) ORDER BY t.id FOR UPDATE
    )
    INSERT INTO stated_row (side, transaction_id, until_change_id, revision, stated)
    SELECT {side}, id, %(change_id)s, revision, stated FROM held ON CONFLICT DO NOTHING
"""
_KEEP_REASONS: Final = """
    INSERT INTO open_reason_state (side, transaction_id, until_change_id, change_id, reason)
    SELECT w.side, w.transaction_id, %(change_id)s, w.change_id, w.reason FROM {source} ON CONFLICT DO NOTHING
"""


async def keep_stated(connection: Connection, side: int, ids: Sequence[UUID], *, change_id: UUID) -> None:
    """Lock transactions of a side by id, and keep what they say until this change; to be called before changing it.

    Once for each row and change: what is called again keeps what was said before all of the change.
    """
    query = _KEEP_STATED.format(table=STATED_TABLES[side].__tablename__, side=int(side))
    await connection.execute(query.encode(), {"ids": list(ids), "change_id": change_id})


def keep_reasons(source: str) -> str:
    """Return the statement that keeps reasons that end: those of ``source``, of which ``open_reason`` is called ``w``.

    Its parameter is ``change_id``.
    """
    return _KEEP_REASONS.format(source=source)


_ENDED: Final = """
    {table}_gone AS (
        DELETE FROM {table} WHERE ({key}) IN (
            SELECT {key} FROM {table} s JOIN change h ON h.id = s.until_change_id AND h.at <= %(as_of)s LIMIT %(limit)s
        ) RETURNING until_change_id
    )
"""
_REPLACED: Final = """
    {table}_state_gone AS (
        DELETE FROM {table}_state WHERE ({key}, version) IN (
            SELECT {key}, s.version FROM {table}_state s WHERE EXISTS (
                SELECT FROM {table}_state t WHERE {same_state} AND t.version > s.version AND NOT {later}
            ) OR EXISTS (
                SELECT FROM {table} t WHERE {same} AND t.version > s.version AND NOT {later}
            ) LIMIT %(limit)s
        ) RETURNING updated_at
    )
"""
_OF_TRANSACTION: Final = "transaction_id, until_change_id, side"
_DROP: Final = f"""
    WITH {_ENDED.format(table="stated_row", key=_OF_TRANSACTION)},
    {_ENDED.format(table="open_reason_state", key=_OF_TRANSACTION)},
    {_ENDED.format(table="reversal_link_state", key="reversal_id, until_change_id, ordinal")},
    {
    _REPLACED.format(
        table="allocation",
        key="transaction_id, side",
        same_state="t.transaction_id = s.transaction_id AND t.side = s.side",
        same="t.transaction_id = s.transaction_id AND t.side = s.side",
        later=later("t.change_id"),
    )
},
    {
    _REPLACED.format(
        table="match",
        key="match_id",
        same_state="t.match_id = s.match_id",
        same="t.id = s.match_id",
        later=later("t.change_id"),
    )
}
    SELECT h.at FROM stated_row_gone g JOIN change h ON h.id = g.until_change_id
    UNION ALL SELECT h.at FROM open_reason_state_gone g JOIN change h ON h.id = g.until_change_id
    UNION ALL SELECT h.at FROM reversal_link_state_gone g JOIN change h ON h.id = g.until_change_id
    UNION ALL SELECT updated_at FROM allocation_state_gone
    UNION ALL SELECT updated_at FROM match_state_gone
"""  # noqa: S608 - our own text
HISTORY_STEP: Final = timedelta(days=1)
"""By how much the beginning of history moves at least: to find what is over, all of it is looked at."""


class HistoryStore:
    """``history_span``: which instants can be shown, and what is kept for them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def check(self, as_of: datetime | None) -> None:
        """Look whether an instant can be shown; None is the present.

        Raises
        ------
        AsOfOutOfRangeError
            It is in the future by the database's clock, or before history began.
        """
        if as_of is None:
            return
        row = await fetch_one(
            self._connection,
            "SELECT %(as_of)s > clock_timestamp() AS future, min(begun_at) AS begun_at FROM history_span",
            {"as_of": as_of},
        )
        if row is None or row["future"]:
            raise AsOfOutOfRangeError("the instant is in the future")
        # Every environment has the row, from its first moment on.
        begun = row["begun_at"]
        if as_of < begun:
            raise AsOfOutOfRangeError(f"history begins here at {begun.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")

    async def reached(self, instant: datetime) -> datetime:
        """Return an instant, or the one at which history begins if that is later."""
        query = "SELECT greatest(min(begun_at), %s) AS at FROM history_span"
        row = await fetch_one(self._connection, query, (instant,))
        return instant if row is None else row["at"]

    async def begins_before(self, instant: datetime) -> bool:
        """Tell whether history reaches back so far beyond an instant that its beginning should move."""
        query = "SELECT FROM history_span WHERE begun_at < %s"
        return await fetch_one(self._connection, query, (instant - HISTORY_STEP,)) is not None

    async def drop_states(self, *, before: datetime, limit: int) -> Removed:
        """Let history begin at an instant, and delete states that were over by then, at most ``limit`` of each kind."""
        await self._connection.execute("UPDATE history_span SET begun_at = greatest(begun_at, %s)", (before,))
        rows = await fetch_all(self._connection, _DROP, {"as_of": before, "limit": limit})
        return removed(row["at"] for row in rows)
