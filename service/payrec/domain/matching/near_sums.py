"""Payments of several items that they quote, by a little less or more than these are together.

Who pays a dozen invoices in one sum pays them less what a bank on the way has kept, or rounds. Nothing is searched for:
all that the line quotes in full is there and in time, and what is missing or too much is so little beside each of the
items that none of them can be what was left out. What is missing is settled on the greatest item, what is too much on
the line, of the type that it would have with a single item; within the tenant's tolerance it is as good as the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from payrec.domain.matching.adjustments import SETTLED_SCHEMA, difference_type, no_settled, tolerated_fee, units
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.elsewhere import just_another
from payrec.domain.matching.groups import Groups
from payrec.domain.matching.less_credits import groups_of, sums_of
from payrec.domain.matching.one_more import paid_just
from payrec.domain.matching.proofs import Proofs
from payrec.domain.matching.ruled import columns
from payrec.domain.matching.rules import AmountLevel, GroupLevel, LineLevel, MatchingRules
from payrec.domain.matching.score import score_milli, tolerated

_APART: Final = 2
"""A difference is at most the least of the items divided by this: then any set without one of them is further away."""


@dataclass(frozen=True, slots=True)
class NearSums:
    """The groups."""

    groups: list[Groups]
    settled: pl.DataFrame
    """As SETTLED_SCHEMA: what is missing on an item, what is too much on a line."""
    levels: pl.DataFrame
    """``i`` and ``near_level``, the AmountLevel of its group."""

    def told(self, groups: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
        """Return the groups with the level and the score of their amount.

        A line is in one of those that it quotes in full alone.
        """
        if self.levels.is_empty():
            return groups
        near = self.levels.with_columns(group_level=pl.lit(GroupLevel.BY_REFERENCES.value, dtype=pl.Int8))
        return (
            groups.join(near, on=["i", "group_level"], how="left")
            .with_columns(amount_level=pl.coalesce("near_level", "amount_level"))
            .with_columns(score_milli=score_milli(rules))
        )


def no_near_sums() -> NearSums:
    """Return nothing found."""
    return NearSums([], no_settled(), pl.DataFrame(schema={"i": pl.UInt32, "near_level": pl.Int8}))


def near_sums(sides: Sides, pairs: pl.DataFrame, proofs: Proofs, taken: pl.Series, rules: MatchingRules) -> NearSums:
    """Return the lines that are nearly all items which they quote, none of them among the ``taken`` ones.

    ``pairs`` are scored. What a line hints at beside, or quotes and cannot pay, and what of its counterparty has just
    its amount, may be meant.
    """
    if proofs.fitting.height == proofs.settled.height:
        return no_near_sums()
    other = pairs.filter(pl.col("line_level") == LineLevel.QUOTES_OTHER.value)["i"]
    unclear = [taken, other, proofs.settled["i"], proofs.short["i"], paid_just(pairs)["i"]]
    quoted = proofs.fitting.join(pl.concat(unclear).unique().to_frame(), on="i", how="anti")
    # What is as much as the line or more belongs to no set with others.
    quoted = quoted.filter((pl.col("e_amount_minor") < pl.col("i_amount_minor")).all().over("i"))
    lines = sums_of(quoted, proofs).filter(
        pl.col("total") != pl.col("target"),
        pl.col("n").is_between(2, rules.group_size_max),
        (pl.col("total") - pl.col("target")).abs() <= pl.col("target"),
    )
    if lines.is_empty():
        return no_near_sums()
    members = quoted.join(lines, on="i", how="semi").select("e", "i", leg_minor="e_amount_minor")
    near = _typed(lines, members, sides, rules)
    gaps = members.join(near.select("i", difference_minor=-pl.col("gap")), on="i")
    near = near.join(just_another(gaps, sides), on="i", how="anti")
    if near.is_empty():
        return no_near_sums()
    members = members.join(near, on="i").sort(["i", "leg_minor", "e"], descending=[False, True, False])
    greatest = members.unique("i", keep="first", maintain_order=True)
    missing = greatest.filter(pl.col("gap") > 0).with_columns(amount_minor="gap")
    beyond = greatest.filter(pl.col("gap") < 0).with_columns(
        amount_minor=-pl.col("gap"), e=pl.lit(None, dtype=pl.UInt32)
    )
    settled = pl.concat([missing, beyond]).with_columns(level=pl.lit(GroupLevel.BY_REFERENCES.value))
    less = missing.select("e", "i", less="gap")
    legs = members.join(less, on=["e", "i"], how="left").with_columns(pl.col("leg_minor") - pl.col("less").fill_null(0))
    said = near.select("i", named="n", tried=pl.lit(1))
    found = groups_of(legs.select("e", "i", "leg_minor"), GroupLevel.BY_REFERENCES, said)
    return NearSums([found], shaped(settled, SETTLED_SCHEMA), near.select("i", near_level=pl.col("amount_level")))


def _typed(lines: pl.DataFrame, members: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return ``i``, ``n``, ``gap``, ``amount_level`` and ``type`` of the lines whose difference may be settled.

    An item with limits of its own says itself what settles it.
    """
    limited = pl.any_horizontal(pl.col("min_minor", "max_minor").is_not_null())
    of_items = members.join(sides.expected.select(limited.alias("limited"), e="row"), on="e")
    least = of_items.group_by("i").agg(pl.col("limited").any(), least=pl.col("leg_minor").min())
    told = (
        lines.join(least.filter(~pl.col("limited")), on="i")
        .join(sides.incoming.select("currency", *columns(rules), i="row"), on="i")
        .with_columns(
            pl.col("total").cast(pl.Int64, strict=False).alias("e_amount_minor"), i_amount_minor=pl.col("target")
        )
        .drop_nulls("e_amount_minor")
        .with_columns(difference_minor=pl.col("i_amount_minor") - pl.col("e_amount_minor"))
        .filter(pl.col("difference_minor").abs() <= pl.col("least") // _APART)
    )
    level = (
        pl.when(tolerated(rules) | tolerated_fee(rules))
        .then(AmountLevel.TOLERANCE.value)
        .when(pl.col("difference_minor") < 0)
        .then(AmountLevel.SMALLER.value)
        .otherwise(AmountLevel.LARGER.value)
    )
    return (
        told.with_columns(unit=units(told["currency"]), banded=pl.lit(value=False), amount_level=level.cast(pl.Int8))
        .with_columns(type=difference_type(rules))
        .drop_nulls("type")
        .select("i", "n", "amount_level", "type", gap=-pl.col("difference_minor"))
    )
