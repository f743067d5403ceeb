"""Lines that name another period than an item does: what is paid for February pays March if a person says so.

And items whose reference names a period and nothing else: everybody's rent for March is for March.

Who owes the same every month pays to the minor unit whatever is open, and the number alone of what he pays tells which.
"""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.block import in_full
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.near import alike
from payrec.domain.matching.periods import is_alone, is_period, other_period, same_period
from payrec.domain.matching.rules import EndToEndLevel


def of_periods(pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return ``other_period`` and ``by_period`` of each of the pairs.

    The line names a period, and neither its own nor the item: who quotes that in full may say whatever else he likes.
    Nothing but a reference that says a period and nothing else could prove the pair.
    """
    asked = sides.expected.select("reference_digits", e="row")[pairs["e"].unique()].drop_nulls()
    asked = asked.filter(pl.Series(is_period(asked["reference_digits"].to_numpy()), dtype=pl.Boolean))
    if asked.is_empty() or pairs.is_empty():
        never = pl.repeat(value=False, n=pl.len(), dtype=pl.Boolean)
        return pairs.select(other_period=never, by_period=never)
    alone = asked["e"].filter(pl.Series(is_alone(asked["reference_digits"].to_numpy()), dtype=pl.Boolean))
    by_id = pl.col("end_to_end") == EndToEndLevel.EQUAL.value
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
        other=pl.Series(other_period(one, other), dtype=pl.Boolean),
        same=pl.Series(alike(one, other) | same_period(one, other), dtype=pl.Boolean),
    )
    others = told.filter("other").join(told.filter("same"), on="place", how="anti")["place"].unique()
    return pairs.select(
        other_period=pl.int_range(pl.len()).is_in(others.implode()),
        by_period=pl.col("e").is_in(alone.implode()) & ~by_id,
    )
