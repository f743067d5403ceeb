"""Statements of imported files, and which of an account are each other's neighbours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from psycopg import sql

from payrec.constants.accounts import STATEMENTS_APART_MAX, TIMELINE_DAYS
from payrec.storage.database import Connection
from payrec.storage.rows import adapt, columns_of, fetch_all, insert_statement
from payrec.tables.statements import Statement

Place = tuple[str, str, date]
"""An account, a currency and a day: where a statement has its neighbours."""

LOCKS_OF_ACCOUNTS: Final = 64
"""Locks that all accounts of a tenant environment share, so that a file of thousands does not take thousands."""

_HOLD: Final = """
    SELECT pg_advisory_xact_lock(hashtext('statement ' || current_schema()), slot) FROM (
        SELECT DISTINCT hashtext(account) & %(mask)s AS slot FROM unnest(%(accounts)s::text[]) AS a (account)
        ORDER BY slot OFFSET 0
    ) s
"""
_NEIGHBOURS: Final = """
    WITH touched AS (
        SELECT * FROM unnest(%(accounts)s::text[], %(currencies)s::text[], %(days)s::date[])
            AS t (account, currency, chained_on)
    ), wanted AS (
        SELECT account, currency, chained_on FROM touched
        UNION
        SELECT t.account, t.currency, earlier.chained_on FROM touched t CROSS JOIN LATERAL (
            SELECT s.chained_on FROM statement s
            WHERE s.account = t.account AND s.currency = t.currency AND s.chained_on < t.chained_on
            ORDER BY s.chained_on DESC LIMIT 1
        ) earlier
        UNION
        SELECT t.account, t.currency, later.chained_on FROM touched t CROSS JOIN LATERAL (
            SELECT s.chained_on FROM statement s
            WHERE s.account = t.account AND s.currency = t.currency AND s.chained_on > t.chained_on
            ORDER BY s.chained_on LIMIT 1
        ) later
    )
    SELECT s.import_id, s.ordinal, s.account, s.currency, s.chained_on, s.opened_on, s.from_on, s.to_on,
        s.opening_minor, s.closing_minor, s.sequence_number, s.page_number, s.is_last_page, s.statement_id,
        s.entry_count, s.credit_minor, s.debit_minor, s.continuity, s.expected_opening_minor, s.expected_on
    FROM wanted w CROSS JOIN LATERAL (
        SELECT * FROM statement s
        WHERE s.account = w.account AND s.currency = w.currency AND s.chained_on = w.chained_on
        ORDER BY s.import_id, s.ordinal LIMIT %(limit)s
    ) s
    ORDER BY s.account, s.currency, s.chained_on, s.import_id, s.ordinal
"""
_JUDGE: Final = """
    UPDATE statement s SET continuity = v.continuity, expected_opening_minor = v.expected_opening_minor,
        expected_on = v.expected_on
    FROM unnest(
        %(import_ids)s::uuid[], %(ordinals)s::bigint[], %(continuities)s::text[], %(minors)s::bigint[],
        %(days)s::date[]
    ) AS v (import_id, ordinal, continuity, expected_opening_minor, expected_on)
    WHERE s.import_id = v.import_id AND s.ordinal = v.ordinal
"""
# A statement takes its day in the chain; a table without balances has the days of its entries. What closes long after
# the last day is not looked at, so that an old day costs no more than a new one.
_TIMELINE: Final = f"""
    SELECT a.id AS account_id, s.import_id, s.begins_on, s.ends_on, s.opening_minor, s.closing_minor, s.entry_count,
        s.balance_check, s.continuity, s.expected_opening_minor, s.expected_on
    FROM account a CROSS JOIN LATERAL (
        SELECT t.*,
            least(t.ends_on, coalesce(least(t.from_on, t.first_booking_on), t.opened_on, t.ends_on)) AS begins_on
        FROM (
            SELECT s.*, s.chained_on AS ends_on FROM statement s
            WHERE s.account = a.identifier AND s.currency = a.currency
                AND s.chained_on BETWEEN %(since)s AND %(until)s::date + {TIMELINE_DAYS}
            UNION ALL
            (SELECT s.*, coalesce(s.to_on, s.last_booking_on) AS ends_on FROM statement s
             WHERE s.account = a.identifier AND s.currency = a.currency AND s.chained_on IS NULL
                AND s.kind NOT IN ('interim', 'notification') AND coalesce(s.to_on, s.last_booking_on) >= %(since)s
             ORDER BY s.import_id, s.ordinal LIMIT {STATEMENTS_APART_MAX})
        ) t
    ) s
    WHERE a.id = %(account_id)s AND s.begins_on <= %(until)s
    ORDER BY s.ends_on, s.begins_on, s.import_id LIMIT %(limit)s
"""  # noqa: S608 - our own text


class StatementStore:
    """``statement`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add the statements of an import."""
        if rows:
            query = insert_statement(Statement, rows[0])
            async with self._connection.cursor() as cursor:
                await cursor.executemany(query, [adapt(Statement, row) for row in rows])

    async def of_imports(self, import_ids: Sequence[UUID], *, limit: int) -> list[dict[str, Any]]:
        """Return the first statements of each import, in file order."""
        query = sql.SQL(
            "SELECT {} FROM statement WHERE import_id = ANY(%s) AND ordinal < %s ORDER BY import_id, ordinal"
        ).format(sql.SQL(columns_of(Statement)))
        return await fetch_all(self._connection, query, (list(import_ids), limit))

    async def hold_accounts(self, accounts: Collection[str]) -> None:
        """Let nobody else judge statements of these accounts until the transaction ends.

        What was committed meanwhile is seen by whatever reads after this.
        """
        parameters = {"accounts": list(accounts), "mask": LOCKS_OF_ACCOUNTS - 1}
        await self._connection.execute(_HOLD, parameters)

    async def neighbours(self, places: Collection[Place], *, limit: int) -> list[dict[str, Any]]:
        """Return the statements of these days, and of the nearest day before and after each that has any.

        At most ``limit`` of a day, those that came first. Ordered by account, currency and day.
        """
        accounts, currencies, days = zip(*places, strict=True)
        parameters = {"accounts": list(accounts), "currencies": list(currencies), "days": list(days), "limit": limit}
        return await fetch_all(self._connection, _NEIGHBOURS, parameters)

    async def timeline(self, account_id: UUID, since: date, until: date, *, limit: int) -> list[dict[str, Any]]:
        """Return the statements of an account that speak of days from one to another, those that end first."""
        parameters = {"account_id": account_id, "since": since, "until": until, "limit": limit}
        return await fetch_all(self._connection, _TIMELINE, parameters)

    async def judge(self, rows: Sequence[dict[str, Any]]) -> None:
        """Store how statements follow those before them."""
        await self._connection.execute(
            _JUDGE,
            {
                "import_ids": [row["import_id"] for row in rows],
                "ordinals": [row["ordinal"] for row in rows],
                "continuities": [row["continuity"] for row in rows],
                "minors": [row["expected_opening_minor"] for row in rows],
                "days": [row["expected_on"] for row in rows],
            },
        )
