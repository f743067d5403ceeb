"""The texts behind the name keys that a run compares: one for each distinct name, not one for each row."""

from __future__ import annotations

from typing import Final

from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.rows import copy_out

_COPY_OUT: Final = """
    COPY (SELECT id, counterparty_name FROM {table} WHERE id = ANY(%(ids)s::uuid[])) TO STDOUT (FORMAT CSV)
"""
_TABLES: Final = {Side.EXPECTED: "expected_transaction", Side.INCOMING: "incoming_transaction"}


class MatchNameStore:
    """Reads names in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, side: Side, ids: str) -> bytes:
        """Return the id and the counterparty's name of transactions of a side as CSV without header.

        ``ids`` are those of an array as the database writes it: the driver would take as long for a list of a hundred
        thousand as the database takes to look them up.
        """
        return await copy_out(self._connection, _COPY_OUT.format(table=_TABLES[side]), {"ids": ids})
