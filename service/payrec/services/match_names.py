"""The names of counterparties, as the engine is given them."""

from __future__ import annotations

import asyncio
from typing import Final

import polars as pl

from payrec.domain.matching.names import NAMES_SCHEMA
from payrec.services.match_columns import array_of, frame_of, names_of
from payrec.storage.allocations import Side
from payrec.storage.counterparty_names import CounterpartyNameStore
from payrec.storage.database import Connection
from payrec.storage.match_names import MatchNameStore

_KEPT_SCHEMA: Final = {**NAMES_SCHEMA, "normal": pl.String()}


def kept_of(data: bytes) -> pl.DataFrame:
    """Return the names that ``CounterpartyNameStore`` has read: ``key``, ``text``, and ``normal`` where it is kept."""
    return frame_of(data, _KEPT_SCHEMA)


async def kept_names(connection: Connection) -> pl.DataFrame:
    """Return the names that earlier runs have kept, as ``kept_of`` does."""
    return await asyncio.to_thread(kept_of, await CounterpartyNameStore(connection).kept())


async def names_read(connection: Connection, side: Side, wanted: pl.DataFrame) -> pl.DataFrame:
    """Return the texts of names, of which ``wanted`` has a transaction each."""
    if wanted.is_empty():
        return names_of(wanted, b"")
    data = await MatchNameStore(connection).read(side, array_of(wanted["transaction_id"]))
    return await asyncio.to_thread(names_of, wanted, data)
