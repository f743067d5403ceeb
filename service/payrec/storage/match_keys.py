"""Open items looked up by their keys, for a run with few lines; each question is answered from indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from payrec.storage.database import Connection
from payrec.storage.match_runs import EXPECTED_COLUMNS
from payrec.storage.rows import CopiedRows, array_text, copy_out_rows, fetch_one, select_rows

NAME_COLUMNS: Final = ("reference_key", "end_to_end_key", "group_key")
"""What a line may name an item by."""

_CREDIT: Final = 1
_DEBIT: Final = -1
PRICED_COLUMNS: Final = (
    "transaction_id", "currency", "direction", "open_minor", "name_key", "account_key", "reference_digits",
)  # fmt: skip
"""Columns of items that are looked up by their amount, in the order of the query."""

_APART: Final = 1
"""The reason of an item that shares nothing with any line (``no_candidate``)."""

_KEYED: Final = """
    SELECT o.transaction_id FROM unnest(%({wanted})s::bigint[]) k JOIN expected_open o ON o.{column} = k{also}
"""
_UNDECIDED: Final = f"""
    SELECT o.transaction_id FROM expected_open o WHERE NOT EXISTS (
        SELECT FROM open_reason w WHERE w.transaction_id = o.transaction_id AND w.side = 1 AND w.reason = {_APART}
    ) LIMIT %(limit)s
"""  # noqa: S608 - our own number
_OF_IDS: Final = "SELECT unnest(%(ids)s::uuid[]) AS transaction_id"
_PRICED: Final = f"""
    SELECT {", ".join(f"o.{name}" for name in PRICED_COLUMNS)}
    FROM unnest(%(amounts)s::bigint[]) k JOIN expected_open o ON o.open_minor = k
"""  # noqa: S608 - our own text
_ITEMS: Final = """
    SELECT {columns} FROM ({found}) f JOIN expected_open o ON o.transaction_id = f.transaction_id
    LEFT JOIN open_reason w ON w.transaction_id = o.transaction_id AND w.side = 1
"""
_COPIED: Final = "COPY ({query}) TO STDOUT (FORMAT BINARY)"
_COLUMNS: Final = ", ".join("w.reason" if name == "reason" else f"o.{name}" for name in EXPECTED_COLUMNS)

_ARMS: Final = {
    "names": tuple((column, "") for column in NAME_COLUMNS),
    "accounts": (("account_key", ""),),
    "payers": (("name_key", ""),),
    "credits": tuple((column, f" AND o.direction = {_CREDIT}") for column in NAME_COLUMNS),
    "debits": tuple((column, f" AND o.direction = {_DEBIT}") for column in NAME_COLUMNS),
}
"""In which columns wanted keys are looked up, and what else is asked of the items."""

_PRESENT: Final = """
    SELECT ARRAY(
        SELECT k FROM unnest(%(payers)s::bigint[]) k WHERE EXISTS (SELECT 1 FROM expected_open o WHERE o.name_key = k)
    ) AS payers, ARRAY(
        SELECT k FROM unnest(%(accounts)s::bigint[]) k
        WHERE EXISTS (SELECT 1 FROM expected_open o WHERE o.own_account_key = k)
    ) AS accounts
"""
# A question is answered row by row from indexes, where the planner would rather read all that is open once for each: it
# does not know that what is open is in memory.
_BY_INDEX: Final = b"""
    SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off;
    SET LOCAL max_parallel_workers_per_gather = 0
"""
_AS_PLANNED: Final = (
    b"RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_seqscan; RESET max_parallel_workers_per_gather"
)
_LINES_WITHIN: Final = "SELECT count(*) AS rows FROM (SELECT 1 FROM incoming_open LIMIT %(limit)s) o"


class MatchKeyStore:
    """Looks up open items in the transaction of ``connection``, by kept plans where ``few`` are asked for."""

    def __init__(self, connection: Connection, *, few: bool = False) -> None:
        self._connection = connection
        self._few = few

    async def lines_within(self, limit: int) -> int:
        """Count the open lines up to a limit."""
        row = await fetch_one(self._connection, _LINES_WITHIN, {"limit": limit})
        return int(row["rows"]) if row is not None else 0

    async def begin(self) -> None:
        """Have what follows in the transaction answered from indexes."""
        await self._connection.execute(_BY_INDEX, prepare=False)

    async def end(self) -> None:
        """Have the planner decide again."""
        await self._connection.execute(_AS_PLANNED, prepare=False)

    async def read(self, wanted: Mapping[str, Iterable[int]]) -> CopiedRows:
        """Return the open items with any of the wanted keys in binary, each once, in EXPECTED_COLUMNS.

        ``wanted`` has keys by what they are: names, accounts, payers, and names of credits and of debits.
        """
        arms = [_KEYED.format(wanted=name, column=column, also=also) for name in wanted for column, also in _ARMS[name]]
        if not arms:
            return CopiedRows(bytearray(), ())
        query = _ITEMS.format(columns=_COLUMNS, found=" UNION ".join(arms))
        return await self._rows(query, {name: array_text(keys) for name, keys in wanted.items()})

    async def undecided(self, *, limit: int) -> CopiedRows:
        """Return the open items of which the last run did not say that no line has anything, as ``read`` does.

        At most so many: who asks for one too many learns that there are.
        """
        query = _ITEMS.format(columns=_COLUMNS, found=_UNDECIDED)
        return await self._rows(query, {"limit": limit})

    async def of_ids(self, ids: Iterable[str]) -> CopiedRows:
        """Return those of the items that are open, as ``read`` does."""
        query = _ITEMS.format(columns=_COLUMNS, found=_OF_IDS)
        return await self._rows(query, {"ids": array_text(ids)})

    async def priced(self, amounts: Iterable[int]) -> CopiedRows:
        """Return the open items of these amounts in minor units in binary, in PRICED_COLUMNS."""
        return await self._rows(_PRICED, {"amounts": array_text(amounts)})

    async def present(self, *, payers: Iterable[int], accounts: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return those of the name keys that open items have, and of the account keys for which one is expected."""
        given = {"payers": array_text(payers), "accounts": array_text(accounts)}
        row = await fetch_one(self._connection, _PRESENT, given)
        return (row["payers"], row["accounts"]) if row is not None else ([], [])

    async def _rows(self, query: str, parameters: Mapping[str, Any]) -> CopiedRows:
        if self._few:
            return await select_rows(self._connection, query, parameters)
        return await copy_out_rows(self._connection, _COPIED.format(query=query), parameters)
