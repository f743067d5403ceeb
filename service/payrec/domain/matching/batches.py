"""Explicit groups of a group id that come to less than its items: less its credit notes, and less what was kept of it.

With the credit notes of the id the group sums to the minor unit. What a payment service keeps of what it has collected
is a fee: nobody has said how much, so such a group waits for a person. The fee is settled on the greatest items, at
most half of each, so that a decision has few adjustments and the line a leg to every item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from payrec.domain.matching.adjustments import SETTLED_SCHEMA, no_settled
from payrec.domain.matching.block import keyed
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.groups import Groups
from payrec.domain.matching.less_credits import allowed, groups_of, notes_of
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.ruled import PARTIES, required
from payrec.domain.matching.rules import GROUP_LEGS_MAX, AdjustmentType, GroupLevel, MatchingRules
from payrec.domain.matching.score import in_time

FEE_OF_BATCH_MAX: Final = 10
"""What a payment service keeps is at most what it has collected divided by this: beyond, something else is missing."""

_ITEM_PART: Final = 2
"""Of an item the fee is at most the amount divided by this."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The groups."""

    groups: list[Groups]
    settled: pl.DataFrame
    """As SETTLED_SCHEMA: the fees."""


def less_than_batches(sides: Sides, claims: pl.DataFrame, refused: pl.DataFrame, rules: MatchingRules) -> Batches:
    """Return the lines that are less than all open items of a group id that they name, and by what.

    ``claims`` are the group ids that lines name, as ``payrec.domain.matching.groups.by_key`` has them; ``refused`` the
    codes of items that are not to settle each other.
    """
    if claims.is_empty():
        return Batches([], no_settled())
    members = _members(sides, claims)
    told = _told(sides, claims, members, rules)
    if told.is_empty():
        return Batches([], no_settled())
    whole = told.filter(pl.col("fee") == 0)
    short = told.filter(pl.col("fee") > 0).join(whole, on="i", how="anti").join(whole, on="key", how="anti")
    # A line that is the sum of two group ids proves neither.
    exact, short = (
        _in_time(_chosen(lines.filter(pl.len().over("i") == 1)), members, sides, rules)
        for lines in (whole.filter(pl.col("notes") > 0), short)
    )
    legs = members.join(short.select("key", "i", "fee"), on="key")
    cap = pl.col("leg_minor").clip(0) // _ITEM_PART
    legs = legs.sort(["i", "leg_minor", "e"], descending=[False, True, False]).with_columns(
        kept=(pl.col("fee") - (cap.cum_sum().over("i") - cap)).clip(0, cap)
    )
    settled = legs.filter(pl.col("kept") > 0).with_columns(
        level=pl.lit(GroupLevel.BY_KEY_NET.value), type=pl.lit(AdjustmentType.FEE.value), amount_minor="kept"
    )
    found = [
        groups_of(members.join(exact.select("key", "i"), on="key"), GroupLevel.BY_KEY_LESS, exact),
        groups_of(legs.with_columns(pl.col("leg_minor") - pl.col("kept")), GroupLevel.BY_KEY_NET, short),
    ]
    return Batches([allowed(way, refused) for way in found], shaped(settled, SETTLED_SCHEMA))


def _members(sides: Sides, claims: pl.DataFrame) -> pl.DataFrame:
    """Return ``e``, ``key`` and ``leg_minor`` of what has a group id that a line names, credit notes below nothing."""
    wanted = claims.select("key").unique()
    found = []
    for rows, sign in ((sides.expected, 1), (notes_of(sides), -1)):
        amounts = rows.select("row", leg_minor=pl.col("amount_minor") * sign)
        of_id = keyed(rows, "group_key").filter((pl.col("key") & 1) == 1).join(wanted, on="key", how="semi")
        found.append(of_id.join(amounts, on="row").select("key", "leg_minor", e="row"))
    return pl.concat(found)


def _told(sides: Sides, claims: pl.DataFrame, members: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return ``i``, ``key``, ``fee``, ``notes`` and ``n`` of the lines that may be what is left of a group id.

    ``fee`` is what the line is short of its ``n`` members, of which ``notes`` are credit notes. Of what the tenant pays
    out nobody keeps anything: there a part is not paid.
    """
    minor = pl.col("leg_minor")
    of_id = members.group_by("key").agg(
        left=minor.cast(pl.Int128).sum(),
        collected=minor.clip(0).cast(pl.Int128).sum(),
        room=(minor.clip(0) // _ITEM_PART).cast(pl.Int128).sum(),
        notes=(minor < 0).sum(),
        n=pl.len(),
    )
    # Of a batch the id alone agrees.
    strict = required(rules, PARTIES | Required.END_TO_END_ID)
    lines = sides.payments().select("amount_minor", "direction", i="row", strict=strict)
    short = pl.col("left") - pl.col("amount_minor")
    most = pl.min_horizontal(pl.col("collected") // FEE_OF_BATCH_MAX, "room")
    return (
        claims.select("i", "key")
        .join(of_id, on="key")
        .join(lines, on="i")
        .filter(~pl.col("strict"), pl.col("n") <= GROUP_LEGS_MAX)
        .filter((short == 0) | ((short > 0) & (short <= most) & (pl.col("direction") == 1)))
        .select("i", "key", "notes", "n", fee=short.cast(pl.Int64))
    )


def _chosen(told: pl.DataFrame) -> pl.DataFrame:
    """Return the first line of each group id; ``same`` are the others that would do as well."""
    said = told.sort("i").group_by("key", maintain_order=True)
    return said.agg(pl.col("i", "fee").first(), same=pl.len() - 1, tried=pl.lit(1), named=pl.col("n").first())


def _in_time(chosen: pl.DataFrame, members: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Leave out the lines beyond the days of one of their members."""
    pairs = members.join(chosen.select("key", "i"), on="key")
    late = pairs.join(in_time(pairs, sides, rules), on=["e", "i"], how="anti")
    return chosen.join(late, on="i", how="anti")
