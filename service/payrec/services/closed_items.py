"""Items of which nothing is open any more, and which the lines of a run quote: what may be paid twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from payrec.domain.matching.columns import CLOSED_SCHEMA
from payrec.domain.matching.keys import account_key, name_key
from payrec.services.meanwhile import FEW, aside
from payrec.storage.closed_items import ClosedItemStore
from payrec.storage.database import Connection

REFERENCES_LOOKED_UP_MAX: Final = 200_000
"""References that lines quote up to which looking up the closed items of each costs less than reading all."""


async def read_closed(connection: Connection, lines: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Return what lines quote and is closed; ``items`` has all that is open and that they quote."""
    few = lines.height <= FEW
    quoted = await aside(_quoted, lines, items, few=few)
    if quoted.is_empty():
        return closed_frame([])
    store = ClosedItemStore(connection)
    many = quoted.len() > REFERENCES_LOOKED_UP_MAX
    return await aside(closed_frame, await (store.of_lines() if many else store.of_keys(quoted)), few=few)


def closed_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return the items that ``ClosedItemStore`` has read."""
    columns = {
        "reference_key": [row["reference_key"] for row in rows],
        "account_key": [account_key(row["counterparty_account"]) for row in rows],
        "name_key": [name_key(row["counterparty_name"]) for row in rows],
    }
    return pl.DataFrame(columns, schema=dict(CLOSED_SCHEMA))


def _quoted(lines: pl.DataFrame, items: pl.DataFrame) -> pl.Series:
    """Return the keys of what lines quote that could prove a payment and is no open item, each once."""
    keys = lines["reference_keys"].explode().drop_nulls().unique()
    return keys.filter(((keys & 1) == 1) & ~keys.is_in(items["reference_key"].implode()))
