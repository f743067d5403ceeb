"""The texts behind the name keys that a run compares: one for each distinct name, not one for each row."""

from __future__ import annotations

from typing import Final

from payrec.storage.database import Connection
from payrec.storage.rows import copy_out

_COPY_OUT: Final = """
    COPY (
        SELECT n.name_key, t.counterparty_name
        FROM (SELECT DISTINCT ON (name_key) name_key, transaction_id FROM expected_open WHERE name_key IS NOT NULL) n
        JOIN expected_transaction t ON t.id = n.transaction_id
        UNION ALL
        SELECT n.name_key, t.counterparty_name
        FROM (
            SELECT DISTINCT ON (name_key) name_key, transaction_id FROM incoming_open i
            WHERE name_key IS NOT NULL AND NOT EXISTS (SELECT FROM expected_open e WHERE e.name_key = i.name_key)
        ) n
        JOIN incoming_transaction t ON t.id = n.transaction_id
    ) TO STDOUT (FORMAT CSV)
"""
"""Which row's text stands for a key does not matter: all of them are the same when normalised."""


class MatchNameStore:
    """Reads names in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self) -> bytes:
        """Return ``name_key`` and a text of it as CSV without header, for each name of the open items.

        And for each name of open lines that no open item has.
        """
        return await copy_out(self._connection, _COPY_OUT)
