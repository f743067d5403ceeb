"""The names of the counterparties of open items, kept from run to run as the engine compares them.

Making them so takes longer than reading them. Nothing rests on what is kept: what is missing is made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from payrec.storage.database import Connection
from payrec.storage.rows import array_text, copy_in, copy_out
from payrec.storage.temporary import make_temporary

NAME_COLUMNS: Final = ("key", "text", "normal")
"""Of a name: its key, a text of it, and that as the engine compares it, which is empty where it is not kept."""

_OF_ITEMS: Final = "SELECT DISTINCT name_key FROM expected_open WHERE name_key IS NOT NULL"
_OF_KEYS: Final = "SELECT unnest(%(keys)s::bigint[]) AS name_key"

# Which row's text stands for a key does not matter: all of them are the same when normalised.
_NAMES: Final = """
    COPY (
        WITH payer AS MATERIALIZED (
            SELECT k.name_key, n.text, n.normal FROM ({keys}) k LEFT JOIN counterparty_name n USING (name_key)
        )
        SELECT name_key, text, normal FROM payer WHERE normal IS NOT NULL
        UNION ALL
        SELECT m.name_key, t.counterparty_name, NULL FROM (
            SELECT DISTINCT ON (o.name_key) o.name_key, o.transaction_id
            FROM payer p JOIN expected_open o ON o.name_key = p.name_key WHERE p.normal IS NULL
        ) m JOIN expected_transaction t ON t.id = m.transaction_id
    ) TO STDOUT (FORMAT CSV)
"""
_KEPT: Final = "COPY (SELECT name_key, text, normal FROM counterparty_name) TO STDOUT (FORMAT CSV)"
_STAGED: Final = "CREATE TEMPORARY TABLE new_name (name_key bigint, text text, normal text) ON COMMIT DROP"
_KEEP: Final = b"""
    INSERT INTO counterparty_name (name_key, text, normal) SELECT name_key, text, normal FROM new_name n
    -- What was erased since it was read stays so.
    WHERE EXISTS (SELECT FROM expected_open o WHERE o.name_key = n.name_key)
    ON CONFLICT DO NOTHING
"""
_FORGET: Final = b"""
    DELETE FROM counterparty_name n WHERE NOT EXISTS (SELECT FROM expected_open o WHERE o.name_key = n.name_key)
"""


class CounterpartyNameStore:
    """``counterparty_name`` of one tenant environment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of_items(self) -> bytes:
        """Return the names of all open items as CSV without header, in NAME_COLUMNS."""
        return await copy_out(self._connection, _NAMES.format(keys=_OF_ITEMS))

    async def of_keys(self, keys: Iterable[int]) -> bytes:
        """Return those of the names that open items have, as ``of_items`` does."""
        return await copy_out(self._connection, _NAMES.format(keys=_OF_KEYS), {"keys": array_text(keys)})

    async def kept(self) -> bytes:
        """Return the names that are kept, of some of which there may be no open item any more, as ``of_items`` does."""
        return await copy_out(self._connection, _KEPT)

    async def keep(self, names: bytes) -> None:
        """Keep names of open items, CSV without header in NAME_COLUMNS, and forget those that no open item has."""
        await self._connection.execute(_FORGET)
        await make_temporary(self._connection, _STAGED)
        await copy_in(self._connection, "COPY new_name FROM STDIN (FORMAT CSV)", names)
        await self._connection.execute(_KEEP, prepare=False)
