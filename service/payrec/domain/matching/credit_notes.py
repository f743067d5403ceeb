"""Credit notes: items of the opposite direction that settle a part of an invoice without any money.

A credit note belongs to an invoice of the same counterparty where one of them names the other, and only where no
payment settles either of them. A payment of the rest is a part of the invoice; once it is accepted, what is left open
and the credit note settle each other.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.block import equal_pairs
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.money_pairs import (
    RANK_NAMED,
    beside,
    date_level,
    edges,
    left_over,
    no_edges,
    salted,
)
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    AmountLevel,
    EndToEndLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
)
from payrec.domain.matching.score import agreement

_NAMES: Final = ("reference_key", "end_to_end_key", "group_key")
"""What an item may have in common with its credit note."""

_SAID: Final = (
    "currency",
    "amount_minor",
    "day",
    "account_key",
    "name_key",
    "own_account_key",
    "end_to_end_key",
    "twin",
)


def credit_notes(sides: Sides, taken: pl.Series, rules: MatchingRules) -> pl.DataFrame:
    """Return what may be invoices and their credit notes among the items that are not ``taken``, as ``EDGE_SCHEMA``."""
    if sides.expected["direction"].n_unique() < 2:
        return no_edges()
    items = salted(left_over(sides.expected, taken, ("row", "currency", "direction", *_NAMES)))
    owed, owing = (items.filter(pl.col("direction") == direction) for direction in (1, -1))
    if owed.is_empty() or owing.is_empty():
        return no_edges()
    found = equal_pairs(_named(owed), _named(owing), items_max=KEY_ITEMS_MAX, lines_max=KEY_ITEMS_MAX)
    if found.pairs.is_empty():
        return no_edges()
    ids = pl.col("e_end_to_end_key")
    crowded = pl.concat([found.crowded_items.alias("row"), found.crowded_lines.alias("row")]).unique().implode()
    frame = beside(
        found.pairs.unique(), sides.expected.with_columns(day=pl.coalesce("due_day", "to_day", "from_day")), _SAID
    )
    frame = frame.with_columns(
        gap=(pl.col("e_day").cast(pl.Int64) - pl.col("i_day").cast(pl.Int64)).abs(),
        account_level=agreement("account"),
        name_level=agreement("name"),
        own_account_level=agreement("own_account"),
        same_id=((ids == pl.col("i_end_to_end_key")) & ((ids & 1) == 1)).fill_null(value=False),
        equal=pl.col("e_amount_minor") == pl.col("i_amount_minor"),
    ).filter(
        (pl.col("e_currency") == pl.col("i_currency"))
        & ((pl.col("account_level") == PartyLevel.EQUAL.value) | (pl.col("name_level") == NameLevel.EQUAL.value))
    )
    return edges(
        frame.with_columns(
            reference_level=pl.when("same_id").then(0).otherwise(ReferenceLevel.FULL.value),
            end_to_end_level=pl.when("same_id").then(EndToEndLevel.EQUAL.value).otherwise(0),
            amount_level=pl.when("equal").then(AmountLevel.EQUAL.value).otherwise(AmountLevel.SMALLER.value),
            date_level=date_level(),
            rank=pl.lit(RANK_NAMED),
            pending=pl.lit(value=False),
            safe=pl.lit(value=False),
            unbounded=pl.col("e").is_in(crowded) | pl.col("i").is_in(crowded),
        ),
        rules,
    )


def _named(items: pl.DataFrame) -> pl.DataFrame:
    """Return ``row`` and ``key``: everything that names an item and could prove something."""
    return (
        pl.concat([items.select("row", "salt", key=name) for name in _NAMES])
        .filter((pl.col("key") & 1) == 1)
        .select("row", key=pl.col("key") ^ pl.col("salt"))
        .unique()
    )
