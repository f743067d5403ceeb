"""Explicit groups by remittance advices: the items that a payer lists for one of his payments, and what of each.

An advice covers the one line whose amount is its total and that quotes its payment reference, or, where the advice has
none, whose counterparty has its name. Each of its references must be that of one open item, and no more may be taken of
an item than is open. So nothing is searched for: what an advice lists holds to the minor unit, or comes to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

import polars as pl

from payrec.domain.matching.adjustments import SETTLED_SCHEMA, no_settled
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.groups import LEG_SCHEMA, Groups, group_rows, no_groups
from payrec.domain.matching.reasons import finding
from payrec.domain.matching.rules import (
    GROUP_LEGS_MAX,
    AdjustmentType,
    EndToEndLevel,
    GroupLevel,
    MatchingRules,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.score import scored

ADVICES_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        "advice": pl.Int32(),  # the caller's number of the advice; the rest of it is the same in each of its rows
        "currency": pl.String(),
        "total_minor": pl.Int64(),
        "payment_key": pl.Int64(),  # of the payment reference, or null
        "name_key": pl.Int64(),  # of the counterparty's name, or null
        "reference_key": pl.Int64(),  # of what is paid, null where it has no usable text
        "amount_minor": pl.Int64(),
        "deduction_minor": pl.Int64(),  # what is held back beside it, or 0
    }
)
"""The lines of remittance advices."""

_HEAD: Final = ("currency", "total_minor", "payment_key", "name_key")
_LINE: Final = ("reference_key", "amount_minor", "deduction_minor")


@dataclass(frozen=True, slots=True)
class Advised:
    """What remittance advices say."""

    groups: Groups
    settled: pl.DataFrame
    """As SETTLED_SCHEMA, of the legs of the groups: discounts by an item's terms, and deductions."""

    @property
    def deducted(self) -> pl.Series:
        """The lines of which somebody has held something back."""
        held = self.settled.filter(pl.col("type") == AdjustmentType.DEDUCTION.value)
        return held["i"].unique()


@cache
def no_advices() -> pl.DataFrame:
    """Return no remittance advices."""
    return pl.DataFrame(schema=dict(ADVICES_SCHEMA))


def advised(
    sides: Sides, advices: pl.DataFrame, refused: pl.DataFrame, rules: MatchingRules, *, own: pl.Series
) -> Advised:
    """Find the lines that advices cover, with all that these list.

    ``advices`` have the columns of ADVICES_SCHEMA; ``refused`` are the codes of rejected pairs, none of which is in a
    group, ``own`` the lines that move the tenant's own money and pay nothing. What comes twice is one advice. Of a line
    with two different ones nothing is said, and of several lines that one advice covers the first is ambiguous.
    """
    nothing = Advised(no_groups(), no_settled())
    if advices.is_empty():
        return nothing
    heads, listed = _distinct(advices)
    claims = _claims(sides, heads, own)
    legs = _legs(sides, listed, claims, rules)
    if legs.is_empty():
        return nothing
    rejected = refused.select(e=pl.col("code") // 2**32, i=pl.col("code") % 2**32).cast(pl.UInt32)
    legs = legs.join(legs.join(rejected, on=["e", "i"], how="semi"), on=["a", "i"], how="anti")
    judged = legs.group_by("a", "i").agg(
        whole=(pl.col("listed").first() == pl.col("references").sum())
        & (pl.col("leg_minor").cast(pl.Int128).sum() == pl.col("line_minor").first()),
        reason=pl.col("reason").max(),
        legs=pl.len(),
    )
    judged = judged.with_columns(
        reason=pl.when((pl.col("reason") == 0) & (pl.col("legs") > GROUP_LEGS_MAX))
        .then(Reason.BUDGET_EXHAUSTED.value)
        .otherwise(pl.col("reason"))
    )
    good = judged.filter(pl.col("whole") & (pl.col("reason") == 0))
    unclear = good.filter(pl.len().over("i") > 1)
    chosen = (
        good.join(unclear, on="i", how="anti")
        .group_by("a")
        .agg(pl.col("i").min(), named=pl.col("legs").first(), same=pl.len() - 1)
        .sort("a")
        .with_row_index("g")
        .with_columns(
            level=pl.lit(GroupLevel.BY_ADVICE.value),
            tried=pl.lit(1),
        )
    )
    members = legs.join(chosen.select("g", "a", "i"), on=["a", "i"])
    failed = pl.concat(
        [
            judged.filter(pl.col("reason") > 0).select("a", "i", "reason"),
            unclear.select("a", "i", reason=pl.lit(Reason.AMBIGUOUS.value, dtype=pl.Int8)),
        ],
        how="vertical_relaxed",
    )
    findings = (
        legs.drop("reason")
        .join(failed, on=["a", "i"])
        .with_columns(fits=pl.col("reason") == Reason.AMBIGUOUS.value, difference_minor=_left().neg())
        .sort("e", "i", "a")
        .unique(["e", "i"], keep="first", maintain_order=True)
    )
    found = Groups(group_rows(chosen), shaped(members, LEG_SCHEMA), finding(findings))
    settled = members.filter(pl.col("settled_minor") > 0).with_columns(
        type=pl.when("in_terms").then(AdjustmentType.DISCOUNT.value).otherwise(AdjustmentType.DEDUCTION.value),
        amount_minor="settled_minor",
        level=pl.lit(GroupLevel.BY_ADVICE.value),
    )
    return Advised(found, shaped(settled, SETTLED_SCHEMA).sort("e", "i"))


def _distinct(advices: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the heads of advices as ``a`` and _HEAD, each content once and in its order, and their lines.

    The lines are ``a``, ``key``, ``amount_minor``, ``deduction_minor``, each reference once, and ``listed``, how many
    different references the advice has.
    """
    # What an advice says, in whatever order it lists it.
    line = pl.concat_str([pl.col(name).cast(pl.String).fill_null("") for name in _LINE], separator=":")
    heads = (
        advices.with_columns(line=line)
        .group_by("advice")
        .agg(*(pl.col(name).first() for name in _HEAD), content=pl.col("line").sort().str.join(","))
        .sort(*_HEAD, "content", "advice", nulls_last=True)
        .unique([*_HEAD, "content"], keep="first", maintain_order=True)
        .with_row_index("a")
    )
    listed = (
        advices.join(heads.select("advice", "a"), on="advice")
        .group_by("a", key="reference_key")
        .agg(pl.col("amount_minor", "deduction_minor").sum())
        .with_columns(listed=pl.len().over("a"))
    )
    return heads.select("a", *_HEAD), listed


def _claims(sides: Sides, heads: pl.DataFrame, own_money: pl.Series) -> pl.DataFrame:
    """Return the lines that advices cover: ``a``, ``i``, ``part``, ``its_name``, ``line_minor``, ``by_reference``."""
    lines = sides.payments().join(own_money.to_frame("row"), on="row", how="anti")
    lines = lines.filter(pl.col("amount_minor") == pl.col("total_minor"))
    lines = lines.join(
        heads.select("currency", amount_minor="total_minor").unique(), on=["currency", "amount_minor"], how="semi"
    )
    own = ("currency", "part", "amount_minor")
    names = lines.select(i="row", its_name="name_key", **{name: name for name in own})
    quoted = pl.concat(
        [
            lines.select(i="row", key="reference_keys").explode("key"),
            lines.select(i="row", key="end_to_end_key"),
            lines.select(i="row", key="group_key"),
        ]
    )
    quoted = quoted.drop_nulls("key").unique().join(names, on="i")
    priced = heads.rename({"total_minor": "amount_minor"})
    by_reference = quoted.join(priced.rename({"payment_key": "key"}), on=["currency", "amount_minor", "key"]).filter(
        # What is too short to prove anything says which payment it is together with the payer's name.
        ((pl.col("key") & 1) == 1) | (pl.col("its_name") == pl.col("name_key"))
    )
    by_name = names.join(
        priced.filter(pl.col("payment_key").is_null()),
        left_on=["currency", "amount_minor", "its_name"],
        right_on=["currency", "amount_minor", "name_key"],
    )
    columns = ("a", "i", "part", "its_name", "amount_minor")
    return (
        pl.concat(
            [
                by_reference.select(*columns, by_reference=pl.lit(value=True)),
                by_name.select(*columns, by_reference=pl.lit(value=False)),
            ]
        )
        .rename({"amount_minor": "line_minor"})
        .unique(["a", "i"])
    )


def _legs(sides: Sides, listed: pl.DataFrame, claims: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return what the claims come to of each item that they list, as far as there is one.

    To ``a`` and ``i`` come ``e``, ``references`` (how many name the item), ``listed`` and ``line_minor`` of the claim,
    ``leg_minor``, ``settled_minor`` (without money), ``in_terms``, ``open_minor``, ``reason`` (Int8, 0 or a Reason),
    ``score_milli`` and ``days_outside``.
    """
    items = sides.expected.select(
        "part", "name_key", "account_key", e="row", open_minor="amount_minor", total_minor="total_minor"
    )
    keys = pl.concat([sides.expected.select("part", e="row", key=name) for name in ("reference_key", "end_to_end_key")])
    # A reference that several items have tells none of them apart; counted first, so that it joins nothing.
    own = keys.drop_nulls("key").unique().filter(pl.len().over("part", "key") == 1)
    found = (
        claims.join(listed.drop_nulls("key"), on="a")
        .join(own, on=["part", "key"])
        .join(items.drop("part"), on="e")
        .join(sides.incoming.select("day", i="row", its_account="account_key"), on="i")
    )
    of_payer = (pl.col("name_key") == pl.col("its_name")) | (pl.col("account_key") == pl.col("its_account"))
    found = found.filter(((pl.col("key") & 1) == 1) | of_payer)
    if found.is_empty():
        return found
    legs = (
        found.group_by("a", "i", "e")
        .agg(
            pl.col("listed", "line_minor", "by_reference", "open_minor", "total_minor", "day").first(),
            references=pl.len(),
            leg_minor=pl.col("amount_minor").sum(),
            deduction_minor=pl.col("deduction_minor").sum(),
        )
        .sort("a", "i", "e")
        .with_row_index("place")
    )
    asked = (
        legs.select("place", "e", "leg_minor", "day")
        .join(sides.terms(), left_on="e", right_on="row")
        .filter((pl.col("leg_minor") == pl.col("amount_minor")) & (pl.col("day") <= pl.col("last_day")))
    )
    short = pl.col("open_minor") - pl.col("leg_minor")
    # What a term lets off is a discount, whatever the payer calls it.
    in_terms = (
        pl.col("place").is_in(asked["place"].implode())
        & (pl.col("open_minor") == pl.col("total_minor"))
        & ((pl.col("deduction_minor") == 0) | (pl.col("deduction_minor") == short))
    )
    legs = legs.with_columns(in_terms=in_terms).with_columns(
        settled_minor=pl.when("in_terms").then(short).otherwise(pl.col("deduction_minor"))
    )
    pairs = legs.select(
        "e",
        "i",
        reference=pl.lit(ReferenceLevel.FULL.value, dtype=pl.Int8),
        end_to_end=pl.lit(EndToEndLevel.UNKNOWN.value, dtype=pl.Int8),
    )
    told = scored(pairs, sides, rules).select("fault", "score_milli", "days_outside")
    # Only who says which payment it is may pay a part: the same name pays the rest another time.
    too_much = (_left() < 0) | ((_left() > 0) & ~pl.col("by_reference"))
    return pl.concat([legs, told], how="horizontal").with_columns(
        reason=pl.when(pl.col("fault") > 0)
        .then(pl.col("fault"))
        .when(too_much)
        .then(Reason.AMOUNT_MISMATCH.value)
        .otherwise(0)
        .cast(pl.Int8)
    )


def _left() -> pl.Expr:
    """Return what stays open of the item of a leg; below nothing, more is listed than is open."""
    return pl.col("open_minor") - pl.col("leg_minor") - pl.col("settled_minor")
