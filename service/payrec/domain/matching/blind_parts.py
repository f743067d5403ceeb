"""Equal lines that sum to one item of their party: instalments that say nothing about it.

Some of them may not even say who pays. One of the party is needed to look for them, and as many as are missing have to
be there, no more.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.blind_parties import CHUNK_ROWS, ROUND, Parties, outside, roundness
from payrec.domain.matching.block import with_code
from payrec.domain.matching.rules import (
    BLIND_CLAIMS_MAX,
    BLIND_COINCIDENCES_PPM_MAX,
    BLIND_PARTS_MAX,
    PARTS_PER_MILLION,
    GroupLevel,
    MatchingRules,
)

_SET: Final = ("party", "e", "k")


def _near() -> pl.Expr:
    """Tell whether a line may be one of ``k`` equal parts of the item beside it.

    What does not divide is in one of the parts, or a minor unit in each of several.
    """
    k = pl.col("k")
    return ((pl.col("amount") - k * pl.col("target")).abs() < k * k) & ~outside()


def _named(lines: pl.DataFrame, found: Parties, rules: MatchingRules) -> pl.DataFrame:
    """Return lines beside the items of their party of which they may be an equal part, and of how many parts."""
    amount, target = pl.col("amount"), pl.col("target")
    return (
        lines.select("party", "i", "target", "since", "until")
        .join(found.members.select("party", "e", "part", "amount", "opens", "closes"), on="party")
        .filter(target < amount)
        .with_columns(k=(amount + target // 2) // target)
        .filter(pl.col("k").is_between(2, min(BLIND_PARTS_MAX, rules.group_size_max)) & _near())
        .select(*_SET, "part", "i", "target", "amount", "opens", "closes", named=pl.lit(value=True))
    )


def _unnamed(named: pl.DataFrame, found: Parties) -> pl.DataFrame:
    """Return the lines that do not say who pays beside the items of which half of the parts or more are there.

    Neither lines that may be a part of too much nor amounts that too many have are looked at.
    """
    lines, k = pl.len().over(_SET), pl.col("k")
    some = named.filter(pl.len().over("i") <= BLIND_CLAIMS_MAX).filter((lines < k) & (lines * 2 >= k))
    part = pl.col("amount") // k
    return (
        some.unique(_SET)
        .drop("i", "named")
        .with_columns(target=pl.int_ranges(part - k, part + k + 1))
        .explode("target")
        .join(found.unnamed.filter(pl.len().over("part", "target") <= BLIND_PARTS_MAX // 2), on=["part", "target"])
        .filter(_near())
        .select(*_SET, "part", "i", "target", "amount", "opens", "closes", named=pl.lit(value=False))
    )


def _beside(found: Parties, refused: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return each line beside the items of which it may be an equal part, and of how many parts: ``k``."""
    lines = found.lines.sort("party", "i")
    chunks = lines.with_columns(chunk=pl.col("n").cum_sum() // CHUNK_ROWS)
    pieces = [_named(lines.head(0), found, rules)]
    pieces += [_named(chunk, found, rules) for _, chunk in chunks.group_by("chunk", maintain_order=True)]
    named = with_code(pl.concat(pieces)).join(refused, on="code", how="anti")
    if found.unnamed.is_empty() or named.is_empty():
        return named
    unnamed = with_code(_unnamed(named.drop("code"), found)).join(refused, on="code", how="anti")
    return pl.concat([named, unnamed.select(named.columns)])


def _told(frame: pl.DataFrame) -> pl.DataFrame:
    """Add how many ``digits`` amounts have, and the largest of ROUND that divides them."""
    digits = pl.col("target").cast(pl.String).str.len_chars().cast(pl.Int64)
    return frame.with_columns(digits=digits, unit=roundness("target"))


def _coincidences_ppm(sets: pl.DataFrame, near: pl.DataFrame, found: Parties) -> pl.DataFrame:
    """Add ``coincidences_ppm``: how many such were to be expected by chance.

    Where a line does not say who pays, that is how many of those have an amount of as many digits and as round, for
    each such amount that there is.
    """
    # Where all say who pays: that one of the party's items has the amount of all lines together.
    among = found.lines.select("party", among="n").unique("party")
    values = (pl.col("amount") // roundness("amount")).clip(lower_bound=1)
    sets = sets.join(among, on="party", how="left", maintain_order="left").with_columns(
        by_sum=pl.col("among") * PARTS_PER_MILLION // values
    )
    strange = near.filter(~pl.col("named")).join(sets, on=_SET, how="semi")
    if strange.is_empty():
        return sets.with_columns(coincidences_ppm="by_sum")
    about = _told(found.unnamed).group_by("part", "digits", "unit").agg(about=pl.len().cast(pl.Int64))
    width, unit = 9 * pl.lit(10, dtype=pl.Int64).pow(pl.col("digits") - 1), pl.col("unit")
    rounder = pl.when(unit.is_in(ROUND[::2])).then(unit * 5).otherwise(unit * 2)
    amounts = (width // unit - width // rounder).clip(lower_bound=1)
    chance = (
        _told(strange)
        .join(about, on=["part", "digits", "unit"])
        .group_by(_SET)
        .agg(coincidences_ppm=(pl.col("about") * PARTS_PER_MILLION // amounts).max())
    )
    return sets.join(chance, on=_SET, how="left", maintain_order="left").with_columns(
        coincidences_ppm=pl.when("strange").then("coincidences_ppm").otherwise("by_sum")
    )


def parts(found: Parties, refused: pl.DataFrame, rules: MatchingRules) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return items that are the sum of their equal parts, and items of which there are too many parts.

    The first as legs ``e, i, leg_minor, tried, n, level, coincidences_ppm``: how many items had enough parts, how many
    lines are equal parts of it, and what is known of the set; the second as ``e, i``.
    """
    near = _beside(found, refused, rules)
    sets = near.group_by(_SET).agg(
        pl.col("target").sum().alias("total"),
        pl.col("amount").first(),
        apart=pl.col("target").max() - pl.col("target").min(),
        lines=pl.len().cast(pl.Int64),
        strange=~pl.col("named").all(),
        members=pl.col("i").sort(),
    )
    enough = sets.filter(pl.col("lines") >= pl.col("k")).with_columns(tried=pl.len().over("party"))
    exact = (pl.col("lines") == pl.col("k")) & (pl.col("total") == pl.col("amount")) & (pl.col("apart") < pl.col("k"))
    whole = _coincidences_ppm(enough.filter(exact).sort(_SET), near, found)
    said = ~pl.col("strange") | (pl.col("coincidences_ppm").fill_null(0) <= BLIND_COINCIDENCES_PPM_MAX)
    level = pl.when("strange").then(GroupLevel.BY_UNNAMED_PARTS.value).otherwise(GroupLevel.BY_EQUAL_PARTS.value)
    # An item that may be of several parties has the same parts in each of them, or nobody knows which are its own.
    ways = whole.unique(["e", "members"], keep="first", maintain_order=True)
    told = ways.filter(said & ~pl.col("e").is_duplicated()).with_columns(level=level)
    legs = near.join(told.select(*_SET, "tried", "level", "coincidences_ppm"), on=_SET).select(
        "e", "i", "tried", "level", "coincidences_ppm", leg_minor="target", n="k"
    )
    many = pl.concat(
        [
            enough.filter(pl.col("lines") > pl.col("k")).select(_SET),
            whole.join(told, on="e", how="anti").select(_SET),
        ]
    )
    beyond = near.join(many, on=_SET).select("e", "i")
    # One is enough to say of each that it is one of too many.
    named = [beyond.group_by("e").agg(pl.col("i").min()), beyond.group_by("i").agg(pl.col("e").min())]
    return legs, pl.concat(frame.select("e", "i") for frame in named)
