"""Accounts whose statements are waited for: how far they have come, and of which missing ones it was told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants.accounts import STATEMENT_DUE_HOURS_DEFAULT
from payrec.storage.database import Connection
from payrec.storage.rows import database_now, fetch_all

# What claims to be of a day to come would keep everything until then from being missed.
LATEST_ON: Final = """
    greatest(
        (SELECT max(s.chained_on) FROM statement s
         WHERE s.account = a.identifier AND s.currency = a.currency AND s.chained_on <= {today}),
        (SELECT max(coalesce(s.to_on, s.last_booking_on)) FROM statement s
         WHERE s.account = a.identifier AND s.currency = a.currency AND s.chained_on IS NULL
            AND s.kind NOT IN ('interim', 'notification') AND coalesce(s.to_on, s.last_booking_on) <= {today})
    )
"""
"""The SQL of the day until which the account ``a`` has statements, of those until ``{today}``."""

_ACCOUNTS: Final = f"""
    SELECT a.id, a.identifier, a.currency, a.statement_every,
        coalesce(a.statement_due_after_hours, {STATEMENT_DUE_HOURS_DEFAULT}) AS hours,
        coalesce(a.statements_from, a.updated_at::date) AS statements_from,
        {LATEST_ON.format(today="%(today)s")} AS latest_on
    FROM account a
"""  # noqa: S608 - our own text
_WATCHED: Final = _ACCOUNTS + "WHERE a.statement_every IS NOT NULL AND a.id > %(after)s ORDER BY a.id LIMIT %(limit)s"
_AMONG: Final = _ACCOUNTS + "WHERE a.id = ANY(%(ids)s) ORDER BY a.id"
_TOLD: Final = "SELECT account_id, begins_on FROM statement_notice WHERE account_id = ANY(%s)"
# In one order for everybody, so that nobody waits in a circle.
_NOTE: Final = """
    INSERT INTO statement_notice (account_id, told_at, begins_on)
    SELECT a.id, %(at)s, u.begins_on
    FROM unnest(%(ids)s::uuid[], %(days)s::date[], %(every)s::text[]) AS u (id, begins_on, every)
    JOIN account a ON a.id = u.id AND a.statement_every = u.every
    ORDER BY a.id, u.begins_on ON CONFLICT DO NOTHING RETURNING account_id, begins_on
"""

Missing = tuple[UUID, date, str]
"""An account, the first day of a period of which it has no statement, and how long such periods are."""


class StatementNoticeStore:
    """``statement_notice`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def now(self) -> datetime:
        """Return the present instant of the database's clock, because the workers' clocks may differ."""
        return await database_now(self._connection)

    async def watched(self, *, after: UUID, today: date, limit: int) -> list[dict[str, Any]]:
        """Return accounts whose statements are waited for, with ``latest_on``, the day until which they have come."""
        return await fetch_all(self._connection, _WATCHED, {"after": after, "today": today, "limit": limit})

    async def among(self, account_ids: Collection[UUID], *, today: date) -> list[dict[str, Any]]:
        """Return the same of given accounts; ``statement_every`` is None where nobody waits for statements."""
        return await fetch_all(self._connection, _AMONG, {"ids": list(account_ids), "today": today})

    async def told(self, account_ids: Collection[UUID]) -> set[tuple[UUID, date]]:
        """Return the first days of the periods of which it was told that the accounts' statements are missing."""
        rows = await fetch_all(self._connection, _TOLD, (list(account_ids),))
        return {(row["account_id"], row["begins_on"]) for row in rows}

    async def note(self, missing: Sequence[Missing], *, at: datetime) -> set[tuple[UUID, date]]:
        """Note periods as told, and return those that were not before. An account that is not watched so is left out.

        Who notes the same at the same time gets none.
        """
        ids, days, every = zip(*missing, strict=True)
        parameters = {"ids": list(ids), "days": list(days), "every": list(every), "at": at}
        rows = await fetch_all(self._connection, _NOTE, parameters)
        return {(row["account_id"], row["begins_on"]) for row in rows}
