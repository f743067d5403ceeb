"""Which equal parts are sure enough to need no person: the only ones that fit, of a sum that chance does not make.

All lines say who pays and quote nothing, the first comes about when the item is due, nothing else of the counterparty
asks for such an amount, and no other item of it for the whole. Then what is left is chance: how many items it has,
times how dense their amounts lie. Who charges by the piece has amounts that are all multiples of one price, which are
far apart and meet often; so what divides the amounts counts, round or not.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from payrec.domain.matching.blind_parties import roundness
from payrec.domain.matching.block import Candidates, keyed
from payrec.domain.matching.columns import PARTY_KEYS, Sides
from payrec.domain.matching.provable import PROVABLE, PROVED_PPM_MAX
from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    CLOSE_EARLY_DAYS,
    PARTS_PER_MILLION,
    LineLevel,
    PartyLevel,
    Uniqueness,
)
from payrec.domain.matching.score import span


def _told() -> pl.Expr:
    """Tell of groups whether all that they say of themselves is enough."""
    provable = pl.col("group_level").is_in([level.value for level in PROVABLE])
    agree = pl.all_horizontal(pl.col("account_level", "name_level") != PartyLevel.DIFFERENT.value)
    return (
        provable
        & (pl.col("status") == Uniqueness.UNIQUE.value)
        & (pl.col("line_level") == LineLevel.BOOKED.value)
        & pl.col("payer")
        & agree
    )


def _of_party(items: pl.Series, sides: Sides) -> pl.DataFrame:
    """Return each of these items ``e`` beside what the others of its counterparty ask for, ``other_minor``."""
    found = []
    for name in PARTY_KEYS:
        keys = keyed(sides.expected, name)
        ours = keys.filter(pl.col("row").is_in(items.implode())).rename({"row": "e"})
        found.append(ours.join(keys.rename({"row": "other"}), on="key").filter(pl.col("e") != pl.col("other")))
    amounts = sides.expected.select("row", other_minor="amount_minor")
    others = pl.concat(found).select("e", "other").unique()
    return others.join(amounts, left_on="other", right_on="row").select("e", "other_minor").sort("e")


def _untimely(legs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the ``g`` of which the first part does not come about when the item is due."""
    first, last = span()
    days = legs.join(sides.incoming.select("day", i="row"), on="i").group_by("g", "e").agg(pl.col("day").min())
    beside = days.join(sides.expected.select(first=first, last=last, e="row"), on="e")
    early, late = pl.col("first") - pl.col("day"), pl.col("day") - pl.col("last")
    return beside.filter((early > CLOSE_EARLY_DAYS) | (late > CLOSE_DAYS)).select("g")


def _naming(legs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the ``g`` of which a part quotes something that could prove a payment: it is not of this item."""
    lines = sides.incoming.select("end_to_end_key", "reference_keys", i="row").join(legs.select("g", "i"), on="i")
    quoted = lines.select("g", "end_to_end_key", key="reference_keys").explode("key").drop_nulls("key")
    return quoted.filter((pl.col("key") & 1) == 1, pl.col("key").ne_missing(pl.col("end_to_end_key"))).select("g")


def _by_chance(groups: pl.DataFrame, parts: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return ``g`` and how many items of that amount were to be expected by chance, in millionths.

    ``parts`` are ``g``, ``e`` and the amount of a part, ``others`` as ``_of_party`` tells them.
    """
    values = pl.concat([others, parts.join(others, on="e", how="semi").select("e", other_minor="leg_minor")]).sort("e")
    places = values.select("e", at=pl.int_range(pl.len())).unique("e", keep="first", maintain_order=True)
    divided = places.select("e", divisor=pl.lit(1, dtype=pl.Int64))
    if places.height:
        divisors = np.gcd.reduceat(values["other_minor"].to_numpy(), places["at"].to_numpy())
        divided = places.select("e", divisor=pl.Series(divisors, dtype=pl.Int64))
    amount, divisor = pl.col("amount_minor"), pl.col("divisor").fill_null(1)
    return (
        groups.select("g", "e", "amount_minor")
        .join(divided, on="e", how="left")
        .join(others.group_by("e").agg(others=pl.len().cast(pl.Int64)), on="e", how="left")
        .select(
            "g",
            expected=(pl.col("others").fill_null(0) + 1)
            * PARTS_PER_MILLION
            // (amount // pl.max_horizontal(roundness("amount_minor"), divisor)).clip(lower_bound=1),
        )
    )


def proved(groups: pl.DataFrame, legs: pl.DataFrame, sides: Sides, found: Candidates) -> pl.Series:
    """Return the decided ``groups``, by ``g``, that are proved; ``legs`` are those of all."""
    told = groups.filter(_told())
    legs = legs.join(told, on="g", how="semi")
    common = found.crowded.filter(pl.col("crowded_full") > 0)["i"].cast(pl.UInt32)
    crowded = pl.col("i").is_in(pl.concat([found.capped_lines, common]).implode())
    repeated = pl.col("e").is_in(pl.concat([found.capped_items, found.repeated]).implode())
    told = told.join(legs.filter(crowded | repeated), on="g", how="anti")
    if told.is_empty():
        return told["g"]
    legs = legs.join(told, on="g", how="semi")
    parts = legs.select("g", "e", "leg_minor").unique()
    others = _of_party(told["e"], sides)
    # Who owes again and again what was paid here pays that, and not the parts of something else.
    owed = parts.join(others, left_on=["e", "leg_minor"], right_on=["e", "other_minor"], how="semi")
    by_chance = _by_chance(told, parts, others).filter(pl.col("expected") > PROVED_PPM_MAX)
    doubtful = pl.concat([owed.select("g"), by_chance.select("g"), _untimely(legs, sides), _naming(legs, sides)])
    return told.join(doubtful, on="g", how="anti")["g"]
