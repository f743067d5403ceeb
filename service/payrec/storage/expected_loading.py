"""Expected transactions by the thousand: COPY, as long as nobody else stores the same at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import errors

from payrec.storage.database import Connection
from payrec.storage.loading import ContendedError, analyze_grown, copy_rows
from payrec.tables.expected_transactions import ExpectedOpen, ExpectedTransaction

_LOADING_LOCK: Final = 0x6578_7063
"""Key of the advisory lock that all loading of expected transactions shares, and that the last attempt has alone."""


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
            raise ContendedError from error

    async def add(self, rows: Sequence[Mapping[str, Any]], opened: Sequence[Mapping[str, Any]]) -> None:
        """Store rows whose externalIds were not there a moment before, and put them among what is open.

        All rows have the same columns, and so have all open rows.

        Raises
        ------
        ContendedError
            One of them is there by now, or a reference that was issued is one that somebody has.
        """
        try:
            await copy_rows(self._connection, str(ExpectedTransaction.__tablename__), rows)
            await copy_rows(self._connection, str(ExpectedOpen.__tablename__), opened)
        except (errors.UniqueViolation, errors.DeadlockDetected) as error:
            raise ContendedError from error

    async def finish(self, rows: int) -> None:
        """Let the planner know of so many new rows, before anybody sees them.

        Raises
        ------
        ContendedError
            As ``add``.
        """
        try:
            await analyze_grown(self._connection, "expected_transaction", "expected_open", rows=rows)
        except errors.DeadlockDetected as error:
            raise ContendedError from error
