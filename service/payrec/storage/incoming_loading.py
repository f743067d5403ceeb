"""Incoming transactions by the thousand that come in a request: COPY, unless somebody else stores the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg import errors

from payrec.storage.copy_text import column_texts, lines_of
from payrec.storage.database import Connection
from payrec.storage.rows import copy_in, fetch_all
from payrec.tables.allocations import Allocation
from payrec.tables.incoming_transactions import IncomingOpen, IncomingTransaction

LOADING_ATTEMPTS_MAX: Final = 3
"""How often a load is tried when others store the same externalIds."""

_KNOWN: Final = """
    SELECT u.place - 1 AS place, t.id FROM unnest(%(names)s::text[], %(identities)s::bytea[]) WITH ORDINALITY
        AS u (external_id, identity, place)
    CROSS JOIN LATERAL (
        (SELECT o.id FROM incoming_transaction o WHERE o.external_id = u.external_id LIMIT 1)
        UNION ALL
        (SELECT o.id FROM incoming_transaction o WHERE o.identity = u.identity LIMIT 1)
        LIMIT 1
    ) t
"""


class IncomingContendedError(Exception):
    """Somebody else stores the same at the same time: the transaction is given up, and can be done again."""


class IncomingLoadingStore:
    """``incoming_transaction`` and what comes with it, many rows at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def known(self, names: Sequence[str | None], identities: Sequence[bytes]) -> dict[int, UUID]:
        """Return by their place the ids of those that are stored already, under that externalId or identity."""
        parameters = {"names": list(names), "identities": list(identities)}
        return {row["place"]: row["id"] for row in await fetch_all(self._connection, _KNOWN, parameters)}

    async def add(
        self,
        rows: Sequence[Mapping[str, Any]],
        opened: Sequence[Mapping[str, Any]],
        allocations: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store rows that were not there a moment before, with the states of those that are not open.

        All rows of a table have the same columns.

        Raises
        ------
        IncomingContendedError
            One of them is there by now.
        """
        try:
            for table, some in (
                (IncomingTransaction.__tablename__, rows),
                (IncomingOpen.__tablename__, opened),
                (Allocation.__tablename__, allocations),
            ):
                await self._copy(str(table), some)
        except (errors.UniqueViolation, errors.DeadlockDetected) as error:
            raise IncomingContendedError from error

    async def _copy(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        names = tuple(rows[0])
        lines = lines_of(column_texts([[row[name] for row in rows] for name in names]), len(rows))
        columns = ", ".join(f'"{name}"' for name in names)
        await copy_in(self._connection, f"COPY {table} ({columns}) FROM STDIN", "".join(lines).encode())
