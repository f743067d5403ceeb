"""Lines that name another month than an item does: what is paid for February pays March if a person says so.

Who owes the same every month pays to the minor unit whatever is open, and the number alone of what he pays tells which.
"""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.block import in_full
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.months import is_month, other_month, same_month
from payrec.domain.matching.near import alike


def of_other_months(pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return ``other_month`` of each of the pairs: the line names a month, and neither the item's nor the item itself.

    Who quotes the item in full may say whatever else he likes.
    """
    asked = sides.expected.select("reference_digits", e="row").drop_nulls()
    asked = asked.filter(pl.Series(is_month(asked["reference_digits"].to_numpy()), dtype=pl.Boolean))
    if asked.is_empty() or pairs.is_empty():
        return pairs.select(other_month=pl.repeat(value=False, n=pl.len(), dtype=pl.Boolean))
    said = (
        pairs.with_row_index("place")
        .filter(~in_full())
        .join(asked, on="e")
        .join(sides.incoming.select("quoted_digits", i="row"), on="i")
        .explode("quoted_digits")
        .drop_nulls("quoted_digits")
    )
    one, other = said["reference_digits"].to_numpy(), said["quoted_digits"].to_numpy()
    told = said.select(
        "place",
        other=pl.Series(other_month(one, other), dtype=pl.Boolean),
        same=pl.Series(alike(one, other) | same_month(one, other), dtype=pl.Boolean),
    )
    others = told.filter("other").join(told.filter("same"), on="place", how="anti")["place"].unique()
    return pairs.select(other_month=pl.int_range(pl.len()).is_in(others.implode()))
