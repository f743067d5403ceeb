"""Expected transactions by the thousand: COPY, as long as nobody else stores the same at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import errors

from payrec.storage.copy_text import column_texts, lines_of
from payrec.storage.database import Connection
from payrec.storage.rows import copy_in
from payrec.tables.expected_transactions import ExpectedOpen, ExpectedTransaction

LOADING_ATTEMPTS_MAX: Final = 3
"""How often a load is tried when others store the same; the last time alone."""

_LOADING_LOCK: Final = 0x6578_7063
"""Key of the advisory lock that all loading of expected transactions shares, and that the last attempt has alone."""


class ExpectedContendedError(Exception):
    """Somebody else stores the same at the same time: the transaction is given up, and can be done again."""


class ExpectedLoadingStore:
    """``expected_transaction`` and ``expected_open``, many rows at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self, *, alone: bool) -> None:
        """Take part in loading until the end of the transaction, before anything is looked up or stored."""
        kind = "" if alone else "_shared"
        query = f"SELECT pg_advisory_xact_lock{kind}(%s, hashtext(current_schema()))"
        try:
            await self._connection.execute(query.encode(), (_LOADING_LOCK,))
        except errors.DeadlockDetected as error:
            raise ExpectedContendedError from error

    async def add(self, rows: Sequence[Mapping[str, Any]], opened: Sequence[Mapping[str, Any]]) -> None:
        """Store rows whose externalIds were not there a moment before, and put them among what is open.

        All rows have the same columns, and so have all open rows.

        Raises
        ------
        ExpectedContendedError
            One of them is there by now, or a reference that was issued is one that somebody has.
        """
        try:
            await self._copy(ExpectedTransaction.__tablename__, rows)
            await self._copy(ExpectedOpen.__tablename__, opened)
        except (errors.UniqueViolation, errors.DeadlockDetected) as error:
            raise ExpectedContendedError from error

    async def _copy(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        names = tuple(rows[0])
        texts = column_texts([[row[name] for row in rows] for name in names])
        columns = ", ".join(f'"{name}"' for name in names)
        await copy_in(
            self._connection, f"COPY {table} ({columns}) FROM STDIN", "".join(lines_of(texts, len(rows))).encode()
        )
