"""Equal lines of one party that sum to one of its items: instalments that say nothing about it."""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.blind_parties import Parties, outside
from payrec.domain.matching.block import with_code
from payrec.domain.matching.rules import BLIND_CHUNK_ROWS, BLIND_PARTS_MAX, MatchingRules


def _beside(found: Parties, refused: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return each line beside the items of which it may be an equal part, and of how many parts: ``k``.

    What does not divide is in one of the parts, or a minor unit in each of several.
    """
    lines = found.lines.sort("party", "i")
    rows = lines.select(chunk=pl.col("n").cum_sum() // BLIND_CHUNK_ROWS)
    pieces = []
    amount, target = pl.col("amount"), pl.col("target")
    k = (amount + target // 2) // target
    most = min(BLIND_PARTS_MAX, rules.group_size_max)
    for _, chunk in lines.with_columns(rows).group_by("chunk", maintain_order=True):
        pieces.append(
            chunk.select("party", "i", "target", "since", "until")
            .join(found.members.select("party", "e", "amount", "opens", "closes"), on="party")
            .filter(target < amount)
            .with_columns(k=k)
            .filter(
                pl.col("k").is_between(2, most)
                & ((amount - pl.col("k") * target).abs() < pl.col("k") * pl.col("k"))
                & ~outside()
            )
        )
    if not pieces:
        return lines.head(0).select("party", "i", "target", e="i", amount="target", k="target")
    near = with_code(pl.concat(pieces)).join(refused, on="code", how="anti")
    return near.select("party", "i", "target", "e", "amount", "k")


def parts(found: Parties, refused: pl.DataFrame, rules: MatchingRules) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return items that are the sum of their equal parts, and items of which there are too many parts.

    The first as legs ``e, i, leg_minor, tried, n``: how many items had enough parts, and how many lines of the party
    are equal parts of anything; the second as ``e, i``.
    """
    near = _beside(found, refused, rules)
    sets = near.group_by("party", "e", "k").agg(
        pl.col("target").sum().alias("total"),
        pl.col("amount").first(),
        apart=pl.col("target").max() - pl.col("target").min(),
        lines=pl.len().cast(pl.Int64),
    )
    enough = sets.filter(pl.col("lines") >= pl.col("k")).with_columns(tried=pl.len().over("party"))
    exact = (pl.col("lines") == pl.col("k")) & (pl.col("total") == pl.col("amount")) & (pl.col("apart") < pl.col("k"))
    legs = near.join(enough.filter(exact).select("e", "k", "tried"), on=["e", "k"]).select(
        "e", "i", "tried", leg_minor="target", n="k"
    )
    beyond = near.join(enough.filter(pl.col("lines") > pl.col("k")).select("e", "k"), on=["e", "k"]).select("e", "i")
    # One is enough to say of each that it is one of too many.
    named = [beyond.group_by("e").agg(pl.col("i").min()), beyond.group_by("i").agg(pl.col("e").min())]
    return legs, pl.concat(frame.select("e", "i") for frame in named)
