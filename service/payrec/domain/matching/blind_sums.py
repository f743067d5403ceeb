"""Sets of a party's items that have a line's amount: runs in due order, runs without one or two, pairs and triples.

With the sums of all that comes before each item, a run from ``first`` to ``last`` has the amount ``T`` where
``after(last) = before(first) + T``: one equality join, whatever the length of the run. Leaving out ``k`` adds its
amount on the right, leaving out a second one takes its amount off on the left, so that a search over four places is a
join over two and two (Horowitz and Sahni 1974).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from payrec.domain.matching.blind_parties import CHUNK_ROWS, Parties, Tier, coincidences_ppm, outside, pieces, roundness
from payrec.domain.matching.block import with_code
from payrec.domain.matching.columns import shaped
from payrec.domain.matching.rules import ALTERNATIVES_MAX, BLIND_HITS_MAX, MatchingRules

_FOUND_SCHEMA: Final = {
    "i": pl.UInt32(),
    "party": pl.Int64(),
    "tier": pl.Int8(),
    "first": pl.Int32(),
    "second": pl.Int32(),  # the first one left out of a run, or the middle one of a triple; else null
    "third": pl.Int32(),  # the second one left out
    "last": pl.Int32(),
}
HIT_SCHEMA: Final = {**_FOUND_SCHEMA, "rank": pl.Int64()}
"""The simplest rank first, and of equally simple ones those that are due when the line is booked."""

_EARLY: Final = 2**32
"""More days than there are."""

_LEFT_OUT_MAX: Final = 2

_ORDER: Final = ("i", "rank", "party", "first", "last", "second", "third")

_NONE: Final = pl.lit(None, dtype=pl.Int32)


def _hits(frame: pl.DataFrame) -> pl.DataFrame:
    return shaped(frame, _FOUND_SCHEMA)


def _chunks(found: Parties) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Return members and lines by as many parties as memory is meant for; a party is never torn apart."""
    numbered = (
        found.lines.group_by("party")
        .agg((pieces().first() * (pl.len() + 1)).alias("rows"))
        .sort("party")
        .select("party", chunk=pl.col("rows").cum_sum() // CHUNK_ROWS)
    )
    for _, chunk in numbered.group_by("chunk", maintain_order=True):
        here = chunk.select("party")
        yield found.members.join(here, on="party", how="semi"), found.lines.join(here, on="party", how="semi")


def _ends(members: pl.DataFrame) -> pl.DataFrame:
    """Return what is due up to each item, also without one of those before it: ``party, value, last, third``."""
    after = members.select("party", last="at", third=_NONE, value=pl.col("before") + pl.col("amount"))
    dropped = members.filter(pl.col("depth") >= Tier.MINUS_TWO.value).select("party", third="at", less="amount")
    less = (
        after.drop("third")
        .join(dropped, on="party")
        .filter(pl.col("third") < pl.col("last"))
        .with_columns(value=pl.col("value") - pl.col("less"))
    )
    columns = ("party", "value", "last", "third")
    return pl.concat([after.select(columns), less.select(columns)])


def _starts(members: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return up to which sum a run from each item has a line's amount, also without one of those behind it."""
    begun = lines.select("i", "party", "target").join(members.select("party", first="at", before="before"), on="party")
    begun = begun.with_columns(value=pl.col("before") + pl.col("target"), second=_NONE)
    dropped = members.filter(pl.col("depth") >= Tier.MINUS_ONE.value).select("party", second="at", more="amount")
    more = (
        begun.drop("second")
        .join(dropped, on="party")
        .filter(pl.col("first") < pl.col("second"))
        .with_columns(value=pl.col("value") + pl.col("more"))
    )
    columns = ("i", "party", "value", "first", "second")
    return pl.concat([begun.select(columns), more.select(columns)])


def _runs(members: pl.DataFrame, lines: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    first, second, third, last = (pl.col(name) for name in ("first", "second", "third", "last"))
    left_out = second.is_not_null().cast(pl.Int8) + third.is_not_null().cast(pl.Int8)
    inside = (
        pl.when(second.is_null())
        .then(third.is_null())
        .otherwise((second < last) & (third.is_null() | ((second < third) & (third < last))))
    )
    size = last - first + 1 - left_out
    return (
        _starts(members, lines)
        .join(_ends(members), on=["party", "value"])
        .filter(inside & (size >= 2) & (size <= rules.group_size_max))
        .with_columns(tier=left_out)
    )


def _few(members: pl.DataFrame, lines: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return pairs and triples that are no run without one or two."""
    deep = members.filter(pl.col("depth") >= Tier.PAIR.value)
    twos = (
        deep.select("party", first="at", value="amount")
        .join(deep.select("party", last="at", other="amount"), on="party")
        .filter(pl.col("first") < pl.col("last"))
        .with_columns(value=pl.col("value") + pl.col("other"))
    )
    asking = lines.filter(pl.col("depth") >= Tier.PAIR.value).select("i", "party", "depth", value="target")
    pairs = asking.join(twos, on=["party", "value"]).filter(pl.col("last") - pl.col("first") > _LEFT_OUT_MAX + 1)
    found = [_hits(pairs.with_columns(tier=pl.lit(Tier.PAIR.value), second=_NONE, third=_NONE))]
    if rules.group_size_max > 2:
        rest = (
            asking.filter(pl.col("depth") == Tier.TRIPLE.value)
            .join(deep.select("party", at="at", amount="amount"), on="party")
            .with_columns(value=pl.col("value") - pl.col("amount"))
        )
        triples = (
            rest.join(twos.rename({"last": "second"}), on=["party", "value"])
            .rename({"at": "last"})
            .filter((pl.col("second") < pl.col("last")) & (pl.col("last") - pl.col("first") > _LEFT_OUT_MAX + 2))
        )
        found.append(_hits(triples.with_columns(tier=pl.lit(Tier.TRIPLE.value), third=_NONE)))
    return pl.concat(found)


def _ranked(hits: pl.DataFrame, members: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Add ``rank``: who pays several items at once pays about when the last of them is due, and seldom before."""
    last = members.select("party", "due", last="at")
    days = hits.join(lines.select("i", "party", "day"), on=["i", "party"]).join(last, on=["party", "last"])
    late = (pl.col("day") - pl.col("due")).fill_null(_EARLY - 1)
    when = pl.when(late < 0).then(_EARLY - late).otherwise(late)
    return shaped(days.with_columns(rank=pl.col("tier").cast(pl.Int64) * 2 * _EARLY + when), HIT_SCHEMA)


def _first(hits: pl.DataFrame) -> pl.DataFrame:
    """Keep the first sets of each line, with how many there are in ``all``."""
    counted = hits.with_columns(all=pl.len().over("i"))
    return counted.sort(_ORDER, nulls_last=True).filter(pl.int_range(pl.len()).over("i") < BLIND_HITS_MAX)


def sums(found: Parties, rules: MatchingRules) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the sets that have a line's amount, the simplest first, their ``legs``, and lines with too many.

    The sets come as ``h`` (their number) and HIT_SCHEMA, with ``more``: there are others beyond ``BLIND_HITS_MAX``;
    the legs as ``h, i, e, leg_minor``, and the days between which either is; the lines of which more sets than could be
    told as alternatives are equally simple as ``i`` and ``e``, the first item of the party with the first of these.
    """
    pieces = [_first(pl.DataFrame(schema=HIT_SCHEMA))]
    for members, lines in _chunks(found):
        hits = pl.concat([_hits(_runs(members, lines, rules)), _few(members, lines, rules)])
        pieces.append(_first(_ranked(hits, members, lines)))
    # A line of several parties may be in several pieces, of each of which there are as many as count.
    every = pl.concat(pieces).sort(_ORDER, nulls_last=True)
    # Equal amounts can have very many sets of one sum: where more are alike than could be told, none is kept.
    simplest = every.filter(pl.col("rank") == pl.col("rank").min().over("i"))
    crowded = simplest.filter(pl.len().over("i") > ALTERNATIVES_MAX + 1).unique("i", keep="first", maintain_order=True)
    kept = (
        every.join(crowded, on="i", how="anti")
        .with_columns(more=pl.max_horizontal(pl.col("all").max(), pl.len()).over("i") > BLIND_HITS_MAX)
        .filter(pl.int_range(pl.len()).over("i") < BLIND_HITS_MAX)
        .drop("all")
        .with_row_index("h")
    )
    legs = _legs(kept, found)
    # Items that may be of several parties are one set in all of them.
    sets = kept.join(legs.group_by("h").agg(members=pl.col("e").sort()), on="h", maintain_order="left")
    kept = sets.unique(["i", "members"], keep="first", maintain_order=True).drop("members")
    legs = legs.join(kept, on="h", how="semi")
    first = found.members.filter(pl.col("at") == 0).select("party", "e")
    return kept, legs, crowded.join(first, on="party").select("e", "i")


def feasible(hits: pl.DataFrame, legs: pl.DataFrame, refused: pl.DataFrame) -> pl.DataFrame:
    """Leave out the sets with an item outside its date window or with a rejected pair."""
    fallen = pl.concat(
        [legs.filter(outside()).select("h"), with_code(legs).join(refused, on="code", how="semi").select("h")]
    )
    return hits.join(fallen, on="h", how="anti")


def expected_by_chance(hits: pl.DataFrame, legs: pl.DataFrame, found: Parties) -> pl.DataFrame:
    """Add how many such sets were to be expected by chance, ``coincidences_ppm``, and what that is made of.

    That is ``unit``, the round number that divides all amounts of a set, and ``n``, ``reach`` and ``depth`` of its
    line in ``Parties.lines``.
    """
    units = legs.group_by("h").agg(unit=roundness("leg_minor").min())
    lines = found.lines.select("i", "party", "n", "reach", "depth")
    told = hits.join(units, on="h").join(lines, on=["i", "party"])
    return told.with_columns(coincidences_ppm=coincidences_ppm(pl.col("tier")))


def _legs(hits: pl.DataFrame, found: Parties) -> pl.DataFrame:
    few = pl.col("tier") >= Tier.PAIR.value
    at = (
        pl.when(pl.col("tier") == Tier.TRIPLE.value)
        .then(pl.concat_list("first", "second", "last"))
        .when(few)
        .then(pl.concat_list("first", "last"))
        .otherwise(pl.int_ranges("first", pl.col("last") + 1, dtype=pl.Int32))
    )
    return (
        hits.with_columns(at=at)
        .explode("at")
        .filter(few | (pl.col("at").ne_missing(pl.col("second")) & pl.col("at").ne_missing(pl.col("third"))))
        .join(found.members, on=["party", "at"])
        .join(found.lines.select("i", "since", "until").unique("i"), on="i")
        .select("h", "i", "e", "since", "until", "opens", "closes", leg_minor="amount")
    )
