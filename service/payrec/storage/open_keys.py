"""The keys of open rows, made anew where their texts or the code that makes them have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from payrec.constants import KEYS_VERSION
from payrec.storage.allocations import OPEN_TABLES, Side
from payrec.storage.database import Connection
from payrec.storage.open_rows import OPEN_ROWS
from payrec.storage.rows import adapt, fetch_all, fetch_one

_KEYS: Final = {
    Side.EXPECTED: (
        *("reference_key", "end_to_end_key", "name_key", "account_key", "own_account_key", "group_key", "tie_key"),
        "reference_digits",
    ),
    Side.INCOMING: (
        *("reference_keys", "end_to_end_key", "name_key", "account_key", "own_account_key", "group_key"),
        *("quoted_digits", "ultimate_name_key", "text_name_keys", "series_digits"),
    ),
}
_REKEY: Final = """
    UPDATE {table} SET {assignments}, revision = revision + %(revised)s WHERE transaction_id = %(transaction_id)s
"""
# The number stands in the statements, as it does in the indexes, or these were of no use.
_ARE_STALE: Final = f"""
    SELECT EXISTS (SELECT FROM expected_open WHERE keys_version < {KEYS_VERSION})
        OR EXISTS (SELECT FROM incoming_open WHERE keys_version < {KEYS_VERSION}) AS found
"""  # noqa: S608 - our own number
# What somebody holds at this moment is passed over: the next run makes it anew, unless he has done so, or deleted it.
_STALE: Final = f"""
    WITH stale AS MATERIALIZED (
        SELECT transaction_id FROM {{open}} WHERE keys_version < {KEYS_VERSION}
        ORDER BY transaction_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )
    SELECT t.* FROM stale s JOIN {{table}} t ON t.id = s.transaction_id ORDER BY t.id
"""  # noqa: S608 - our own number
_STALE_OF: Final = {
    side: _STALE.format(open=OPEN_TABLES[side], table=f"{name}_transaction")
    for side, name in ((Side.EXPECTED, "expected"), (Side.INCOMING, "incoming"))
}


class OpenKeyStore:
    """The keys of ``expected_open`` and ``incoming_open``, in the transaction of ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def are_stale(self) -> bool:
        """Tell whether an earlier version of the code has made any."""
        row = await fetch_one(self._connection, _ARE_STALE)
        return row is not None and bool(row["found"])

    async def stale(self, side: Side, *, limit: int) -> list[dict[str, Any]]:
        """Return transactions of which that is so, by id, and hold their open rows."""
        return await fetch_all(self._connection, _STALE_OF[side], {"limit": limit})

    async def rekey(self, side: Side, rows: Sequence[dict[str, Any]], *, revised: bool) -> int:
        """Give open rows of a side their keys, in the order of their ids; return how many there were.

        ``revised`` says that what they were made of is another.
        """
        names = (*_KEYS[side], "keys_version")
        query = _REKEY.format(table=OPEN_TABLES[side], assignments=", ".join(f"{name} = %({name})s" for name in names))
        parameters = [
            {
                **adapt(OPEN_ROWS[side], {name: row[name] for name in (*names, "transaction_id")}),
                "revised": int(revised),
            }
            for row in rows
        ]
        async with self._connection.cursor() as cursor:
            await cursor.executemany(query.encode(), parameters)
            return cursor.rowcount
