"""What else somebody claims of the rows of explicit groups: how much it is, and the best of it."""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.columns import shaped
from payrec.domain.matching.groups import KEY_SCORE
from payrec.domain.matching.proofs import Proofs
from payrec.domain.matching.rules import ALTERNATIVES_MAX, GroupLevel, MatchKind, Side

RIVAL_SCHEMA: Final = {
    "g": pl.UInt32(),
    "side": pl.Int8(),
    "e": pl.UInt32(),
    "i": pl.UInt32(),
    "score_milli": pl.Int32(),
}
_BESIDE: Final = [
    level.value for level in (GroupLevel.BY_KEY, GroupLevel.BY_KEY_LESS, GroupLevel.BY_KEY_NET, GroupLevel.BY_ADVICE)
]
CLAIMS_SCHEMA: Final = {"g": pl.UInt32(), "side": pl.Int8(), "claims": pl.Int32()}
"""How many rivals of a group stand on a side."""


def _claimed(rows: pl.DataFrame, proofs: pl.DataFrame, side: Side, end: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the best of what else is claimed by proof of an ``end`` of groups, and how much that is in all.

    The first as ``g, side, e, i, score_milli``, the second as ``g, side, claims``. Each of these ends has one leg, by
    proof. They are counted and not joined: of groups that share their rows, the claims would be as many as the square.
    """
    often = proofs.group_by(end).agg(claims=pl.len() - 1).filter(pl.col("claims") > 0)
    mine = rows.join(often, on=end)
    best = (
        proofs.join(mine.select(end).unique(), on=end, how="semi")
        .sort(["score_milli", "e", "i"], descending=[True, False, False])
        .group_by(end, maintain_order=True)
        # One more than is kept, because the leg itself may be among the best.
        .head(ALTERNATIVES_MAX + 1)
    )
    named = pl.lit(side.value)
    return (
        mine.select("g", end).join(best, on=end).join(rows, on=["g", "e", "i"], how="anti").with_columns(side=named),
        mine.group_by("g").agg(pl.col("claims").sum()).with_columns(side=named),
    )


def rivals_of(
    groups: pl.DataFrame, legs: pl.DataFrame, proofs: Proofs, claims: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what else is claimed of the rows of each group, as ``g, side, e, i, score_milli``, and how much that is.

    What a set was chosen among is no rival of it: that none but this one sums up is what was found out.
    """
    rows = legs.select("g", "e", "i").join(groups.select("g", "kind", "group_level", "key"), on="g")
    beside = pl.col("group_level").is_in(_BESIDE)
    of_line = pl.col("kind") == MatchKind.ONE_TO_MANY.value
    fitting = proofs.fitting.select("e", "i", "score_milli")
    quoted = rows.filter(~beside)
    of_lines, their_claims = _claimed(quoted.filter(of_line), fitting, Side.INCOMING, "e")
    of_items, its_claims = _claimed(quoted.filter(~of_line), fitting, Side.EXPECTED, "i")
    # What holds these together is named beside what the line quotes. An item has one group id, so here claims are no
    # more than proofs, or than the ids that a line names beside each.
    batches = rows.filter(beside)
    others = [
        batches.select("g", end)
        .unique()
        .join(fitting, on=end)
        .join(batches, on=["g", "e", "i"], how="anti")
        .with_columns(side=pl.lit(side.value))
        for side, end in ((Side.INCOMING, "e"), (Side.EXPECTED, "i"))
    ]
    # Another group id that one of the lines names.
    named = (
        rows.select("g", "i", "key", "group_level", "kind")
        .unique()
        .join(claims.rename({"key": "other"}), on="i")
        .filter(pl.col("key").ne_missing(pl.col("other")))
        .with_columns(side=pl.lit(Side.EXPECTED.value), score_milli=pl.lit(KEY_SCORE))
    )
    of_proofs = named.filter(~beside & ~of_line).join(fitting, on=["e", "i"], how="semi")
    others.append(named.join(of_proofs, on=["g", "e", "i"], how="anti"))
    # Lines that name the same group id are told where they would do as well.
    others.append(
        groups.filter(pl.col("same") > 0)
        .select("g", "key", own="i")
        .join(claims, on="key")
        .filter(pl.col("own") != pl.col("i"))
        .with_columns(side=pl.lit(Side.INCOMING.value), score_milli=pl.lit(KEY_SCORE))
    )
    joined = pl.concat([shaped(other, RIVAL_SCHEMA) for other in others]).unique(
        ["g", "side", "e", "i"], keep="first", maintain_order=True
    )
    counts = pl.concat(
        [
            shaped(frame, CLAIMS_SCHEMA)
            for frame in (their_claims, its_claims, joined.group_by("g", "side").agg(claims=pl.len()))
        ]
    )
    return pl.concat([joined, *(shaped(frame, RIVAL_SCHEMA) for frame in (of_lines, of_items))]), counts


def counted(claims: pl.DataFrame) -> pl.DataFrame:
    """Sum up the rivals (CLAIMS_SCHEMA) of each group by side: ``g, rivals_expected, rivals_incoming``."""
    sums = {
        name: pl.col("claims").filter(pl.col("side") == side.value).sum().cast(pl.Int32)
        for name, side in (("rivals_expected", Side.EXPECTED), ("rivals_incoming", Side.INCOMING))
    }
    return claims.group_by("g").agg(**sums)


def best_rivals(rivals: pl.DataFrame, matches: pl.DataFrame) -> pl.DataFrame:
    """Return what is kept of the rivals of the groups that are proposed, the best first."""
    return (
        rivals.join(matches, on="g", how="semi")
        .sort(["g", "side", "score_milli", "e", "i"], descending=[False, False, True, False, False])
        .group_by("g", "side", maintain_order=True)
        .head(ALTERNATIVES_MAX)
    )
