"""Incoming transactions by the thousand that come in a request: COPY, unless somebody else stores the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg import errors

from payrec.storage.database import Connection
from payrec.storage.loading import ContendedError, copy_rows
from payrec.storage.rows import fetch_all
from payrec.tables.allocations import Allocation
from payrec.tables.incoming_transactions import IncomingOpen, IncomingTransaction

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
        ContendedError
            One of them is there by now.
        """
        try:
            for table, some in (
                (IncomingTransaction.__tablename__, rows),
                (IncomingOpen.__tablename__, opened),
                (Allocation.__tablename__, allocations),
            ):
                await copy_rows(self._connection, str(table), some)
        except (errors.UniqueViolation, errors.DeadlockDetected) as error:
            raise ContendedError from error
