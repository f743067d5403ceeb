"""Accounts: made by whoever first names one, with the opening balance of the earliest statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants.accounts import STATEMENTS_APART_MAX
from payrec.models.accounts import AccountQuery
from payrec.storage.database import Connection
from payrec.storage.filters import equalities, ranges
from payrec.storage.history import later
from payrec.storage.listing import PageRequest, Selection, select_page
from payrec.storage.rows import adapt, columns_of, fetch_all, fetch_one, insert
from payrec.tables.accounts import Account

_COLUMNS: Final = columns_of(Account)
_OF_ACCOUNT: Final = "s.account = n.identifier AND s.currency = n.currency"
# A statement takes its day in the chain; pages and statements of one day begin where no other of that day ends.
EARLIEST: Final = f"""
    SELECT s.opening_minor, s.opening_on FROM (
        SELECT t.*, coalesce(least(t.from_on, t.first_booking_on), t.opened_on, t.chained_on) AS opening_on FROM (
            SELECT s.* FROM statement s
            WHERE {_OF_ACCOUNT} AND s.opening_minor IS NOT NULL AND s.chained_on = (
                SELECT min(s.chained_on) FROM statement s
                WHERE {_OF_ACCOUNT} AND s.chained_on IS NOT NULL AND s.opening_minor IS NOT NULL
            )
            UNION ALL
            (SELECT s.* FROM statement s
             WHERE {_OF_ACCOUNT} AND s.chained_on IS NULL AND s.opening_minor IS NOT NULL
                AND s.kind NOT IN ('interim', 'notification')
             ORDER BY s.import_id, s.ordinal LIMIT {STATEMENTS_APART_MAX})
        ) t
    ) s
    WHERE s.opening_on IS NOT NULL
    ORDER BY coalesce(s.chained_on, s.to_on, s.last_booking_on, s.opened_on), EXISTS (
        SELECT FROM statement e
        WHERE e.account = s.account AND e.currency = s.currency AND e.chained_on = s.chained_on
            AND e.closing_minor = s.opening_minor AND (e.import_id, e.ordinal) <> (s.import_id, s.ordinal)
    ), s.page_number NULLS FIRST, s.import_id, s.ordinal LIMIT 1
"""  # noqa: S608 - our own text
"""The opening balance of the earliest statement of the account ``n``, and the day that begins with it."""

_KNOWN: Final = """
    SELECT a.identifier, a.currency FROM unnest(%s::text[], %s::text[]) AS n (identifier, currency)
    JOIN account a ON a.identifier = n.identifier AND a.currency = n.currency
"""
_NAMED_BY_FILES: Final = """
    SELECT DISTINCT a.identifier FROM account a WHERE EXISTS (SELECT FROM statement s WHERE s.account = a.identifier)
"""
_MAKE: Final = f"""
    WITH named AS (
        SELECT * FROM unnest(%(ids)s::uuid[], %(identifiers)s::text[], %(currencies)s::text[], %(kinds)s::text[])
            AS n (id, identifier, currency, kind)
    )
    INSERT INTO account (id, change_id, created_at, updated_at, identifier, kind, currency, opening_minor, opening_on)
    SELECT n.id, %(change_id)s, %(at)s, %(at)s, n.identifier, n.kind, n.currency, s.opening_minor, s.opening_on
    FROM named n LEFT JOIN LATERAL ({EARLIEST}) s ON true
    WHERE NOT EXISTS (SELECT FROM account a WHERE a.identifier = n.identifier AND a.currency = n.currency)
    -- In one order for everybody, so that nobody waits in a circle.
    ORDER BY n.identifier, n.currency ON CONFLICT DO NOTHING
    RETURNING {_COLUMNS}
"""  # noqa: S608 - our own text
_KEPT: Final = """
    kept AS (
        INSERT INTO account_state (account_id, change_id, opening_minor, opening_on, version)
        SELECT h.id, h.change_id, h.opening_minor, h.opening_on, h.version FROM {held} h ON CONFLICT DO NOTHING
    )
"""
_MOVE: Final = f"""
    WITH held AS (
        SELECT * FROM (
            SELECT a.* FROM unnest(%(identifiers)s::text[], %(currencies)s::text[]) AS n (identifier, currency)
            JOIN account a ON n.identifier = a.identifier AND n.currency = a.currency
            WHERE NOT a.opening_given ORDER BY a.identifier, a.currency FOR NO KEY UPDATE OF a
        ) h
    ), moved AS (
        SELECT n.*, s.opening_minor AS told_minor, s.opening_on AS told_on
        FROM held n CROSS JOIN LATERAL ({EARLIEST}) s
        WHERE (n.opening_minor, n.opening_on) IS DISTINCT FROM (s.opening_minor, s.opening_on)
    ), {_KEPT.format(held="moved")}
    UPDATE account a SET opening_minor = m.told_minor, opening_on = m.told_on, version = a.version + 1,
        change_id = %(change_id)s, updated_at = %(at)s
    FROM moved m WHERE a.id = m.id
    RETURNING a.id, a.opening_minor, a.opening_on, m.opening_minor AS minor_before, m.opening_on AS on_before
"""  # noqa: S608 - our own text
_UPDATE: Final = f"""
    WITH held AS (SELECT * FROM account WHERE id = %(id)s FOR NO KEY UPDATE), {_KEPT.format(held="held")}
    UPDATE account a SET name = %(name)s, kind = %(kind)s, opening_minor = %(opening_minor)s,
        opening_on = %(opening_on)s, opening_given = %(opening_given)s, statement_every = %(statement_every)s,
        statement_due_after_hours = %(statement_due_after_hours)s, statements_from = %(statements_from)s,
        version = a.version + 1, change_id = %(change_id)s, updated_at = %(at)s
    FROM held h WHERE a.id = h.id
"""  # noqa: S608 - our own text
_AT: Final = f"""
    SELECT a.id, a.identifier, a.currency, k.opening_minor, k.opening_on
    FROM account a CROSS JOIN LATERAL (
        SELECT a.opening_minor, a.opening_on, a.version WHERE NOT {later("a.change_id")}
        UNION ALL
        SELECT s.opening_minor, s.opening_on, s.version FROM account_state s
        WHERE s.account_id = a.id AND NOT {later("s.change_id")}
        ORDER BY version DESC LIMIT 1
    ) k
    WHERE a.id = %(id)s
"""  # noqa: S608 - our own text
# Whoever stored a line has made its account: where there is none, there are no lines to look for.
_OTHERS: Final = """
    SELECT coalesce(i.net_currency, i.currency) AS currency FROM incoming_transaction i
    WHERE i.account = %(identifier)s AND EXISTS (SELECT FROM account a WHERE a.identifier = %(identifier)s) LIMIT 1
"""
_PUT_BALANCE: Final = """
    WITH before AS (
        SELECT balance_minor, version FROM book_balance
        WHERE account_id = %(account_id)s AND balance_on = %(on)s ORDER BY version DESC LIMIT 1
    ), stored AS (
        INSERT INTO book_balance (account_id, change_id, balance_minor, created_at, balance_on, version)
        SELECT %(account_id)s, %(change_id)s, %(balance_minor)s, %(at)s, %(on)s,
            coalesce((SELECT version FROM before), 0) + 1
        WHERE %(balance_minor)s IS DISTINCT FROM (SELECT balance_minor FROM before)
        RETURNING version
    )
    SELECT (SELECT version FROM stored) AS stored, (SELECT version FROM before) AS version,
        (SELECT balance_minor FROM before) AS balance_minor
"""


class AccountStore:
    """``account`` and ``book_balance`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, row: dict[str, Any]) -> None:
        """Add an account.

        Raises
        ------
        AccountTakenError
        """
        await insert(self._connection, Account, row)

    async def get(self, account_id: UUID, *, lock: bool = False) -> dict[str, Any] | None:
        """Return one; with ``lock``, nobody else changes it meanwhile."""
        query = f"SELECT {_COLUMNS} FROM account WHERE id = %s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, f"{query} FOR NO KEY UPDATE" if lock else query, (account_id,))

    async def at(self, account_id: UUID, as_of: datetime | None) -> dict[str, Any] | None:
        """Return ``id, identifier, currency, opening_minor, opening_on`` of one, now or as of an instant."""
        if as_of is None:
            return await self.get(account_id)
        return await fetch_one(self._connection, _AT, {"id": account_id, "as_of": as_of})

    async def page(self, page: PageRequest, query: AccountQuery) -> tuple[Sequence[dict[str, Any]], bool]:
        """Return a page."""
        selection = Selection(columns=_COLUMNS, source="account", id_column="id")
        found = equalities(query, {"kind": "kind", "currency": "currency", "identifier": "identifier"})
        found += ranges(query, {"created_from": "created_at >=", "created_to": "created_at <="})
        for condition, parameters in found:
            selection.where(condition, **parameters)
        return await select_page(self._connection, selection, page)

    async def named_by_files(self) -> frozenset[str]:
        """Return what accounts are called of which a file was loaded."""
        return frozenset(row["identifier"] for row in await fetch_all(self._connection, _NAMED_BY_FILES))

    async def known(self, named: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return those of these identifiers and currencies that are there."""
        identifiers, currencies = zip(*named, strict=True)
        rows = await fetch_all(self._connection, _KNOWN, (list(identifiers), list(currencies)))
        return {(row["identifier"], row["currency"]) for row in rows}

    async def make(
        self, named: Collection[tuple[UUID, str, str, str]], *, change_id: UUID, at: datetime
    ) -> list[dict[str, Any]]:
        """Make the accounts that are not there yet, and return them; each is an id, identifier, currency and kind."""
        ids, identifiers, currencies, kinds = zip(*named, strict=True)
        parameters = {
            "ids": list(ids),
            "identifiers": list(identifiers),
            "currencies": list(currencies),
            "kinds": list(kinds),
            "change_id": change_id,
            "at": at,
        }
        return await fetch_all(self._connection, _MAKE, parameters)

    async def move_openings(
        self, named: Collection[tuple[str, str]], *, change_id: UUID, at: datetime
    ) -> list[dict[str, Any]]:
        """Give accounts of which nobody has set it the opening balance of their earliest statement.

        Return ``id, opening_minor, opening_on`` of those whose it was not, and ``minor_before, on_before``.
        """
        identifiers, currencies = zip(*named, strict=True)
        parameters = {
            "identifiers": list(identifiers),
            "currencies": list(currencies),
            "change_id": change_id,
            "at": at,
        }
        return await fetch_all(self._connection, _MOVE, parameters)

    async def earliest(self, identifier: str, currency: str) -> dict[str, Any] | None:
        """Return ``opening_minor, opening_on`` of the account's earliest statement."""
        query = f"SELECT s.* FROM (SELECT %s::text, %s::text) n (identifier, currency), LATERAL ({EARLIEST}) s"  # noqa: S608 - our own text
        return await fetch_one(self._connection, query, (identifier, currency))

    async def currency_of_lines(self, identifier: str) -> str | None:
        """Return a currency that lines of an identifier move, None where it has no lines."""
        row = await fetch_one(self._connection, _OTHERS, {"identifier": identifier})
        return None if row is None else str(row["currency"])

    async def update(self, account_id: UUID, values: dict[str, Any], *, change_id: UUID, at: datetime) -> None:
        """Set all that people may change, and keep what it was."""
        given = adapt(Account, values)
        await self._connection.execute(_UPDATE, {**given, "id": account_id, "change_id": change_id, "at": at})

    async def put_balance(
        self, account_id: UUID, on: date, balance_minor: int, *, change_id: UUID, at: datetime
    ) -> dict[str, Any]:
        """Store what the books say of a day; the account is locked.

        Return ``stored``, the version that it has got, None where it was so already, and ``version, balance_minor`` of
        what was there before.
        """
        parameters = {
            "account_id": account_id,
            "on": on,
            "balance_minor": balance_minor,
            "change_id": change_id,
            "at": at,
        }
        row = await fetch_one(self._connection, _PUT_BALANCE, parameters)
        assert row is not None, "a row of scalars"
        return row
