"""Locks of periods: what binds, what is incomplete when one is made, and lines that come late.

Whoever locks a period waits for everybody who stores lines (``hold_periods``) and then for everybody who decides
(``hold_decisions``), and they for him. So who stores or decides sees each lock that is there, and what he does is
either known to the lock or done after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants.accounts import INCOMPLETE_SHOWN_MAX
from payrec.domain.period_locks import LockSpan, OpenDays
from payrec.models.period_locks import PeriodLockQuery
from payrec.storage.allocations import hold_decisions
from payrec.storage.database import Connection
from payrec.storage.filters import created, equalities
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.reconciliations import LATE_OF_ALL
from payrec.storage.rows import Ids, array_text, column_names, fetch_all, fetch_one, insert
from payrec.tables.period_locks import PeriodLock

_COLUMNS: Final = ", ".join(f'"{name}"' for name in column_names(PeriodLock) if name != "sums")
_HOLD: Final = "LOCK TABLE incoming_transaction IN {mode} MODE"
_BINDING: Final = """
    SELECT account, max(through_on) AS through_on FROM period_lock WHERE reopened_at IS NULL {of} GROUP BY account
"""
LAST_LOCKED: Final = """
    greatest(
        (SELECT max(p.through_on) FROM period_lock p WHERE p.reopened_at IS NULL AND p.account IS NULL),
        (SELECT max(p.through_on) FROM period_lock p WHERE p.reopened_at IS NULL AND p.account = {account})
    )
"""
"""The SQL of the last locked day of an account, an expression; null where none is."""

# Most have no lock, or have what is newer: neither is looked at row by row.
_LATE: Final = f"""
    UPDATE incoming_transaction t SET late = true
    WHERE {{which}} AND NOT t.late AND NOT t.pending AND EXISTS (SELECT FROM period_lock WHERE reopened_at IS NULL)
        AND t.booking_on <= (SELECT max(through_on) FROM period_lock WHERE reopened_at IS NULL)
        AND t.booking_on <= {LAST_LOCKED.format(account="t.account")}
"""  # noqa: S608 - our own text
_ACCOUNTS: Final = """
    SELECT l.match_id, array_agg(DISTINCT i.account) AS accounts FROM leg l CROSS JOIN LATERAL (
        SELECT i.account FROM incoming_transaction i WHERE i.id IN (l.incoming_id, l.contra_incoming_id)
    ) i WHERE l.match_id = ANY(%(ids)s) GROUP BY l.match_id
"""
# What a run has just stored, before anybody can see it, has no history yet.
_MOVE: Final = f"""
    UPDATE match m SET effective_on = t.last_on + 1
    FROM (
        SELECT l.match_id, max({LAST_LOCKED.format(account="i.account")}) AS last_on
        FROM match m JOIN leg l ON l.match_id = m.id
        JOIN incoming_transaction i ON i.id IN (l.incoming_id, l.contra_incoming_id)
        WHERE m.id BETWEEN %(first)s AND %(last)s AND l.match_id BETWEEN %(first)s AND %(last)s
            AND EXISTS (SELECT FROM period_lock WHERE reopened_at IS NULL) AND m.created_change_id = %(change_id)s
            AND m.effective_on <= (SELECT max(through_on) FROM period_lock WHERE reopened_at IS NULL)
        GROUP BY l.match_id
    ) t WHERE m.id = t.match_id AND m.id BETWEEN %(first)s AND %(last)s AND m.effective_on <= t.last_on
"""  # noqa: S608 - our own text
_SPANS: Final = """
    SELECT p.locked_at, p.reopened_at FROM period_lock p
    WHERE p.through_on >= %(on)s AND (p.account IS NULL OR p.account = %(account)s)
"""
_OF_ACCOUNT: Final = "(%(account)s::text IS NULL OR {column} = %(account)s)"
# What is open is counted by itself; only those that are named are looked up. What is open at the end of the day and not
# any more, as its statement has it, is looked at line by line: what is decided from a later day on, and what returns
# took that are booked later; what is in transit is not open.
_OPEN_LINES: Final = f"""
    SELECT told.* FROM (
        WITH {LATE_OF_ALL}, apart AS MATERIALIZED (
            SELECT i.id, i.booking_on, CASE
                    WHEN a.status IN ('ignored', 'classified') AND coalesce(a.effective_on <= %(cut_off)s, true) THEN 0
                    ELSE a.amount_minor - a.allocated_minor END
                + coalesce(l.minor - l.transit_minor, 0) + coalesce(b.minor - b.allocated_minor, 0) AS open_minor
            FROM (
                SELECT id FROM late UNION SELECT id FROM later_return UNION
                SELECT transaction_id FROM allocation
                WHERE side = 2 AND status IN ('ignored', 'classified') AND effective_on > %(cut_off)s
            ) s JOIN incoming_transaction i ON i.id = s.id
            JOIN allocation a ON a.side = 2 AND a.transaction_id = i.id
            LEFT JOIN late l ON l.id = i.id LEFT JOIN later_return b ON b.id = i.id
            WHERE NOT i.pending AND i.amount_minor > 0 AND i.booking_on <= %(cut_off)s
        )
        SELECT i.id AS incoming_transaction_id, i.account, i.booking_on AS booking_date,
            o.open_minor AS open_amount_minor, i.currency, o.total
        FROM (
            SELECT o.id, o.open_minor, count(*) OVER () AS total FROM (
                SELECT o.transaction_id AS id, o.open_minor, o.booking_day FROM incoming_open o
                WHERE NOT o.pending AND o.booking_day <= %(cut_off)s::date - date '1970-01-01'
                    AND NOT EXISTS (SELECT FROM apart t WHERE t.id = o.transaction_id)
                UNION ALL
                SELECT t.id, t.open_minor, t.booking_on - date '1970-01-01' FROM apart t WHERE t.open_minor > 0
            ) o
            WHERE %(account)s::text IS NULL OR EXISTS (
                SELECT FROM incoming_transaction i WHERE i.id = o.id AND i.account = %(account)s
            )
            ORDER BY o.booking_day, o.id LIMIT %(limit)s
        ) o JOIN incoming_transaction i ON i.id = o.id
    ) told ORDER BY booking_date, incoming_transaction_id
"""  # noqa: S608 - our own text
# What was locked with a gap was locked by somebody who knew of it.
_GAPS: Final = f"""
    SELECT s.import_id, s.ordinal AS statement_index, s.account, s.currency, s.chained_on AS closed_on,
        count(*) OVER () AS total
    FROM statement s
    WHERE s.continuity = 'gap' AND s.chained_on <= %(through)s AND {_OF_ACCOUNT.format(column="s.account")}
        AND s.chained_on > coalesce({LAST_LOCKED.format(account="s.account")}, '-infinity')
    ORDER BY s.chained_on, s.import_id, s.ordinal LIMIT %(limit)s
"""  # noqa: S608 - our own text
_WAITING: Final = f"""
    SELECT m.id AS match_id, m.effective_on, m.amount_minor, m.currency, count(*) OVER () AS total
    FROM match m
    WHERE m.status = 'pending_approval' AND m.effective_on <= %(through)s AND (%(account)s::text IS NULL OR EXISTS (
        SELECT FROM leg l JOIN incoming_transaction i ON i.id IN (l.incoming_id, l.contra_incoming_id)
        WHERE l.match_id = m.id AND {_OF_ACCOUNT.format(column="i.account")}
    ))
    ORDER BY m.id LIMIT %(limit)s
"""  # noqa: S608 - our own text
_COVERING: Final = """
    SELECT id FROM period_lock
    WHERE reopened_at IS NULL AND through_on >= %(through)s AND (account IS NULL OR account = %(account)s)
    ORDER BY id LIMIT 1
"""
_BOUND: Final = f"""
    SELECT id, identifier, currency, opening_minor, opening_on FROM account
    WHERE {_OF_ACCOUNT.format(column="identifier")} ORDER BY id
"""  # noqa: S608 - our own text
_SUMS: Final = """
    SELECT sums -> %(account_id)s AS sums FROM period_lock
    WHERE locked_at = %(locked_at)s AND through_on = %(on)s AND sums ? %(account_id)s LIMIT 1
"""
_REOPEN: Final = f"""
    UPDATE period_lock SET reopened_at = statement_timestamp(), reopened_by = %(actor)s, reopen_reason = %(reason)s,
        updated_at = %(at)s, version = version + 1
    WHERE id = %(id)s RETURNING {_COLUMNS}
"""  # noqa: S608 - our own text


async def hold_periods(connection: Connection, *, alone: bool = False) -> None:
    """Let nobody lock a period until the end of the transaction, or ``alone``, before deciding: lock one.

    Whoever inserts or updates a line does the former by that.
    """
    mode = "SHARE" if alone else "ROW EXCLUSIVE"
    await connection.execute(_HOLD.format(mode=mode).encode())
    if alone:
        await hold_decisions(connection, alone=True)


class PeriodLockStore:
    """``period_lock``, and the flag of ``incoming_transaction`` that comes of it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open_days(self, accounts: Collection[str | None] | None = None) -> OpenDays:
        """Return which days are open, of these accounts or of all."""
        of = "" if accounts is None else "AND (account IS NULL OR account = ANY(%(accounts)s))"
        parameters = None if accounts is None else {"accounts": [name for name in accounts if name is not None]}
        rows = await fetch_all(self._connection, _BINDING.format(of=of), parameters)
        return OpenDays(through={row["account"]: row["through_on"] for row in rows})

    async def accounts_of(self, match_ids: Iterable[UUID]) -> dict[UUID, list[str | None]]:
        """Return of which accounts the lines of matches are; those without lines are missing."""
        rows = await fetch_all(self._connection, _ACCOUNTS, {"ids": array_text(match_ids)})
        return {row["match_id"]: row["accounts"] for row in rows}

    async def move_days(self, first: UUID, last: UUID, *, change_id: UUID) -> None:
        """Let what a change has stored between two ids of matches count from the first open day, where it is locked."""
        await self._connection.execute(_MOVE, {"first": first, "last": last, "change_id": change_id})

    async def flag_late(self, ids: Ids) -> None:
        """Flag those of lines that were just stored whose day is locked."""
        await self._connection.execute(_LATE.format(which="t.id = ANY(%(ids)s)").encode(), {"ids": array_text(ids)})

    async def flag_late_of(self, import_id: UUID) -> None:
        """Flag the same of all lines of an import."""
        await self._connection.execute(_LATE.format(which="t.import_id = %(id)s").encode(), {"id": import_id})

    async def spans(self, account: str, on: date) -> list[LockSpan]:
        """Return the locks that a day of an account ever had."""
        rows = await fetch_all(self._connection, _SPANS, {"account": account, "on": on})
        return [LockSpan(**row) for row in rows]

    async def incomplete(self, through: date, account: str | None) -> dict[str, tuple[int, list[dict[str, Any]]]]:
        """Return what is open through a day: how much of each kind, and the first of it."""
        parameters = {
            "through": through,
            "cut_off": through,
            "account": account,
            "limit": INCOMPLETE_SHOWN_MAX,
        }
        found = {}
        for kind, query in (("open_lines", _OPEN_LINES), ("gaps", _GAPS), ("waiting", _WAITING)):
            rows = await fetch_all(self._connection, query, parameters)
            found[kind] = (rows[0].pop("total") if rows else 0, rows)
            for row in rows[1:]:
                del row["total"]
        return found

    async def covering(self, through: date, account: str | None) -> UUID | None:
        """Return a lock that binds all that one through this day would bind."""
        row = await fetch_one(self._connection, _COVERING, {"through": through, "account": account})
        return None if row is None else row["id"]

    async def is_account(self, identifier: str) -> bool:
        """Tell whether there is an account of an identifier."""
        query = "SELECT FROM account WHERE identifier = %s LIMIT 1"
        return await fetch_one(self._connection, query, (identifier,)) is not None

    async def bound(self, account: str | None) -> list[dict[str, Any]]:
        """Return the accounts that a lock binds: those of an identifier, or all."""
        return await fetch_all(self._connection, _BOUND, {"account": account})

    async def sums(self, account_id: UUID, on: date, locked_at: datetime) -> dict[str, tuple[int, int]] | None:
        """Return what the parts of an account's statement were on a day when its lock was made, if that is kept."""
        parameters = {"account_id": str(account_id), "on": on, "locked_at": locked_at}
        row = await fetch_one(self._connection, _SUMS, parameters)
        return None if row is None else {part: (count, minor) for part, (count, minor) in row["sums"].items()}

    async def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """Lock a period, which is held, from now on."""
        await insert(self._connection, PeriodLock, row)
        return await self.get(row["id"]) or {}

    async def get(self, lock_id: UUID, *, lock: bool = False) -> dict[str, Any] | None:
        """Return one; with ``lock``, nobody else changes it meanwhile."""
        query = f"SELECT {_COLUMNS} FROM period_lock WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, f"{query} FOR NO KEY UPDATE" if lock else query, (lock_id,))

    async def reopen(self, lock_id: UUID, *, actor: str, reason: str, at: datetime) -> dict[str, Any]:
        """Reopen a locked row; return it."""
        parameters = {"id": lock_id, "actor": actor, "reason": reason, "at": at}
        return await fetch_one(self._connection, _REOPEN, parameters) or {}

    async def page(self, page: PageRequest, query: PeriodLockQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page."""
        selection = Selection(columns=_COLUMNS, source="period_lock p", id_column="p.id")
        for condition, parameters in [*equalities(query, {"account": "p.account"}), *created(query, "p")]:
            selection.where(condition, **parameters)
        if query.status is not None:
            selection.where(f"p.reopened_at IS {'NULL' if query.status == 'locked' else 'NOT NULL'}")
        return await select_page(self._connection, selection, page)
