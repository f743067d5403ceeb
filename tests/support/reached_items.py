"""Looks up open items as the database does, for what asks which of them a line may reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from payrec.domain.matching.reach import NAMES, PRICED_COLUMNS, Wanted
from support.matching_frames import Item, expected_frame


def with_ids(items: Sequence[Item]) -> pl.DataFrame:
    """Return the frame of the items with their ids, which are their places."""
    return expected_frame(items).with_columns(
        transaction_id=pl.col("ordinal").map_elements(lambda at: at.to_bytes(16), return_dtype=pl.Binary)
    )


def answer(items: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """Look up as the database does."""

    def has(column: str, keys: Iterable[object]) -> pl.Expr:
        return pl.col(column).is_in(pl.Series(list(keys), dtype=items[column].dtype).implode()).fill_null(value=False)

    if wanted.amounts:
        return items.filter(has("amount_minor", wanted.amounts)).select(PRICED_COLUMNS)
    found = [
        has("transaction_id", wanted.ids),
        has("account_key", wanted.accounts),
        has("name_key", wanted.payers),
        *(has(name, wanted.names) for name in NAMES),
        *(has(name, wanted.credits) & (pl.col("direction") == 1) for name in NAMES),
        *(has(name, wanted.debits) & (pl.col("direction") == -1) for name in NAMES),
    ]
    return items.filter(pl.any_horizontal(found))
