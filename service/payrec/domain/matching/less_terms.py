"""Payments of several items that they quote, each with the discount that its terms grant on that day.

Who pays a dozen invoices in time takes the discount of each. Nothing is searched for: of every item that is quoted it
is known what its terms ask for on the day of the payment, the least where several of them hold, and the whole amount
where none does. What all of that comes to is the payment, or it is no such one.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from payrec.domain.matching.adjustments import SETTLED_SCHEMA, no_settled
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.groups import LEG_SCHEMA, Groups, group_rows, no_groups
from payrec.domain.matching.proofs import Proofs
from payrec.domain.matching.reasons import no_findings
from payrec.domain.matching.rules import AdjustmentType, GroupLevel, MatchingRules


@dataclass(frozen=True, slots=True)
class LessTerms:
    """The groups."""

    groups: Groups
    settled: pl.DataFrame
    """As SETTLED_SCHEMA: the discounts."""


def less_terms(proofs: Proofs, sides: Sides, rules: MatchingRules) -> LessTerms:
    """Return the lines that are what the terms of all items ask for that they quote."""
    nothing = LessTerms(no_groups(), no_settled())
    members = proofs.fitting.join(proofs.settled.select("i"), on="i", how="anti")
    if members.is_empty() or (terms := _asked(members, sides)).is_empty():
        return nothing
    members = members.join(terms, on=["e", "i"], how="left").with_columns(
        leg_minor=pl.coalesce("asked_minor", "e_amount_minor")
    )
    groups = (
        members.group_by("i")
        .agg(
            total=pl.col("leg_minor").cast(pl.Int128).sum(),
            target=pl.col("i_amount_minor").first(),
            discounts=pl.col("asked_minor").count(),
            n=pl.len(),
        )
        .join(proofs.claimed.group_by("i").agg(named=pl.len()), on="i")
        .filter(
            pl.col("total") == pl.col("target"),
            pl.col("discounts") > 0,
            pl.col("n") == pl.col("named"),
            pl.col("n").is_between(2, rules.group_size_max),
        )
        .sort("i")
        .with_row_index("g")
        .with_columns(level=pl.lit(GroupLevel.BY_REFERENCES.value), tried=pl.lit(1))
    )
    if groups.is_empty():
        return nothing
    legs = members.join(groups.select("g", "i", "level"), on="i")
    settled = legs.drop_nulls("asked_minor").with_columns(
        type=pl.lit(AdjustmentType.DISCOUNT.value), amount_minor=pl.col("e_amount_minor") - pl.col("asked_minor")
    )
    return LessTerms(
        Groups(group_rows(groups), shaped(legs, LEG_SCHEMA), no_findings()), shaped(settled, SETTLED_SCHEMA)
    )


def _asked(members: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return ``e``, ``i`` and ``asked_minor``: the least that terms ask for on the line's day, where any of them holds.

    Terms are of the whole item, paid by the whole line.
    """
    whole = pl.col("amount_minor") == pl.col("total_minor")
    lines = sides.incoming.filter(whole).select("day", i="row")
    items = sides.expected.filter(whole).select(e="row")
    return (
        members.select("e", "i", "e_amount_minor")
        .join(items, on="e", how="semi")
        .join(lines, on="i")
        .join(sides.terms(), left_on="e", right_on="row")
        .filter(pl.col("day") <= pl.col("last_day"), pl.col("amount_minor") < pl.col("e_amount_minor"))
        .group_by("e", "i")
        .agg(asked_minor=pl.col("amount_minor").min())
    )
