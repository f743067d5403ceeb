"""The names of counterparties, as the engine is given them."""

from __future__ import annotations

import asyncio

import polars as pl

from payrec.services.match_columns import array_of, names_of
from payrec.storage.allocations import Side
from payrec.storage.database import Connection
from payrec.storage.match_names import MatchNameStore


async def names_read(connection: Connection, side: Side, wanted: pl.DataFrame) -> pl.DataFrame:
    """Return the texts of names, of which ``wanted`` has a transaction each."""
    if wanted.is_empty():
        return names_of(wanted, b"")
    data = await MatchNameStore(connection).read(side, array_of(wanted["transaction_id"]))
    return await asyncio.to_thread(names_of, wanted, data)
