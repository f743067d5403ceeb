"""Items that share nothing with any line, where there are many more items than lines: nobody has to look at them.

Whether a line could mean an item is asked by what names either of them, by counterparty, and by amount. What is said of
an item that a line could mean depends on the other items of its counterparty, and on those that it may be a credit note
of. Of all others it is known beforehand that nothing is found.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.meant import called

ITEMS_PER_LINE_MIN: Final = 4
"""Items for each line from which on those apart are left out; with fewer, most share something."""

REACHED_ITEMS_FEW: Final = 64
"""Items that were looked up for a few lines, up to which looking who of them is apart costs more than it saves."""

_NAMES: Final = ("reference_key", "end_to_end_key", "group_key")
_AMOUNT: Final = ("currency", "direction", "amount_minor")


def leaves_out(expected: pl.DataFrame, incoming: pl.DataFrame) -> bool:
    """Tell whether there are so many more items than lines that those apart are left out."""
    return expected.height >= ITEMS_PER_LINE_MIN * incoming.height


def shared(
    expected: pl.DataFrame, incoming: pl.DataFrame, similar: pl.DataFrame, listed: pl.Series | None = None
) -> pl.DataFrame:
    """Return the items of which a line could be the payment, and what belongs to them; the others are apart.

    The frames are the caller's, ``similar`` is what ``payrec.domain.matching.names.resolved`` returns, ``listed`` are
    the references that somebody names for a line.
    """
    quoted = [incoming["reference_keys"].explode(), *(incoming[name] for name in _NAMES[1:])]
    quoted += [listed] if listed is not None else []
    names = pl.concat([keys.alias("key") for keys in quoted]).drop_nulls().unique().implode()
    parties = {
        "account_key": incoming["account_key"].drop_nulls().unique(),
        "name_key": pl.concat([*called(incoming), similar["similar_key"].alias("key")]).drop_nulls().unique(),
    }
    named = [pl.col(name).is_in(names) for name in _NAMES]
    of_party = [pl.col(name).is_in(keys.implode()) for name, keys in parties.items()]
    rows = expected.with_columns(near=pl.any_horizontal(*named, *of_party, _noted(expected)).fill_null(value=False))
    while True:
        more = [pl.col(name).is_in(rows.filter("near")[name].drop_nulls().unique().implode()) for name in parties]
        found = rows.select(pl.any_horizontal("near", *more).fill_null(value=False).alias("near"))["near"]
        if found.sum() == rows["near"].sum():
            break
        rows = rows.with_columns(found)
    paid = incoming.select(_AMOUNT).unique().with_columns(paid=True)
    kept = rows.join(paid, on=_AMOUNT, how="left", maintain_order="left").filter(pl.col("near") | pl.col("paid"))
    return kept.select(expected.columns)


def _noted(expected: pl.DataFrame) -> pl.Expr:
    """Tell which items have a key in common with one of the opposite direction."""
    if expected["direction"].n_unique() < 2:
        return pl.lit(value=False)
    keys = pl.concat([expected.select("direction", key=name) for name in _NAMES]).drop_nulls()
    both = keys.group_by("key").agg(pl.col("direction").n_unique()).filter(pl.col("direction") > 1)["key"].implode()
    return pl.any_horizontal(pl.col(name).is_in(both) for name in _NAMES)
