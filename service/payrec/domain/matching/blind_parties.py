"""Whose items a line may settle, when nothing but its counterparty is known.

An item belongs to one party: its account, else the only account that items of its name have, else its name. A line
speaks for the party of its account, or for those of its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

import polars as pl

from payrec.constants import AMOUNT_MINOR_MAX
from payrec.domain.matching.block import left_out
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.ruled import bound
from payrec.domain.matching.rules import (
    BLIND_COINCIDENCES_PPM_MAX,
    BLIND_ITEMS_MAX,
    BLIND_LINES_MAX,
    BLIND_PARTIES_MAX,
    BLIND_SEARCH_ITEMS_MAX,
    BLIND_SETS_MIN,
    BLIND_SETS_PER_ROW_MAX,
    PARTS_PER_MILLION,
    MatchingRules,
)
from payrec.domain.matching.score import span

BLIND_EQUAL_MAX: Final = 8
"""Items of one amount of a counterparty; with more of them, what has one sum could be made up in very many ways."""

_DAYS_MAX: Final = 2**40
"""Beyond every day: the end of a window that an item does not have."""

CHUNK_ROWS: Final = 4_000_000
"""Rows that a join of sums may have before it is done in pieces, about."""

_NOUGHTS: Final = range(len(str(AMOUNT_MINOR_MAX)))
ROUND: Final[tuple[int, ...]] = tuple(unit * 10**noughts for noughts in _NOUGHTS for unit in (1, 5))
"""Round numbers, each of which divides the next: 1 or 5 with noughts."""


class Tier(IntEnum):
    """Kinds of sets, the simplest first; to find one, all simpler ones are tried as well."""

    RUN = 0
    MINUS_ONE = 1
    MINUS_TWO = 2
    PAIR = 3
    """Two that are no run without one or two."""
    TRIPLE = 4


@dataclass(frozen=True, slots=True)
class Parties:
    """Open items and lines by party, as far as they are few enough to be looked at."""

    members: pl.DataFrame
    """Items: ``party``, ``at`` (Int32, the place in due order, from 0), ``e``, ``amount``, ``before`` (the sum of
    those before it), ``opens`` and ``closes`` (days between which it is expected), ``due`` and ``depth``."""
    lines: pl.DataFrame
    """``party``, ``i``, ``target`` (its amount), ``day``, ``since`` and ``until`` (days in which an item has to
    be expected), all three null if it has none, ``n`` (items of the party), ``reach``
    (about how far the sums of its items go), and ``depth``, the last Tier that is tried: less where the items are many,
    or so alike or round that a sum of that kind would say nothing."""
    unnamed: pl.DataFrame
    """Lines that do not say who pays: ``i``, ``part``, ``target``, ``since`` and ``until``."""
    over: pl.DataFrame
    """Lines ``i`` of parties that have too many items or lines, and the party's first item ``e``; and its items ``e``
    beside its first line."""


@cache
def nobody() -> Parties:
    """Return no parties, of which nothing is asked but that."""
    none = pl.DataFrame()
    return Parties(members=none, lines=none, unnamed=none, over=none)


def outside() -> pl.Expr:
    """Tell of items beside lines whether the date window of the line keeps them apart."""
    return ((pl.col("until") < pl.col("opens")) | (pl.col("since") > pl.col("closes"))).fill_null(value=False)


def _key(name: str) -> pl.Expr:
    return (pl.col(f"{name}_key") ^ pl.col("salt")).alias(name)


def _of_items(items: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the items beside each ``party`` that they may be of, and which parties each name stands for.

    Who is told by name alone is of any account that the others of the name have, where these are few.
    """
    known = items.select("account", "name").drop_nulls().unique()
    few = known.filter(pl.len().over("name") <= BLIND_PARTIES_MAX)
    by_name = items.filter(pl.col("account").is_null()).drop_nulls("name")
    items = pl.concat(
        [
            items.drop_nulls("account").with_columns(party="account"),
            by_name.join(few.select("name", party="account"), on="name"),
            by_name.join(few, on="name", how="anti").with_columns(party="name"),
        ]
    )
    return items, items.select("name", "party").drop_nulls().unique()


def _of_lines(lines: pl.DataFrame, items: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return each line beside the parties that it may speak for: ``i``, ``party``."""
    parties = items.select("party").unique()
    by_account = lines.select("i", party="account").join(parties, on="party")
    few = names.filter(pl.len().over("name") <= BLIND_PARTIES_MAX)
    by_name = lines.join(by_account, on="i", how="anti").select("i", "name").drop_nulls().join(few, on="name")
    return pl.concat([by_account, by_name.select("i", "party")])


def _possible(asking: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Leave out lines that can be neither the sum of two items of the party nor one of two parts of one."""
    amounts = items.group_by("party").agg(least=pl.col("amount").min(), most=pl.col("amount").max(), n=pl.len())
    as_sum = (pl.col("n") > 1) & (pl.col("target") // 2 >= pl.col("least"))
    as_part = pl.col("target") <= pl.col("most") - pl.col("most") // 2
    return asking.join(amounts, on="party").filter(as_sum | as_part).drop("least", "most", "n")


def sets(tier: pl.Expr | int) -> pl.Expr:
    """Return how many sets of a party's ``n`` items there are up to a Tier."""
    n = pl.col("n")
    pairs, triples = n * (n - 1) // 2, n * (n - 1) * (n - 2) // 6
    kinds = (pairs, triples, triples * (n - 3) // 4, pairs, triples)
    if isinstance(tier, int):
        return pl.sum_horizontal(kind for at, kind in zip(Tier, kinds, strict=True) if at <= tier)
    return pl.sum_horizontal(pl.when(tier >= at).then(kind).otherwise(0) for at, kind in zip(Tier, kinds, strict=True))


def coincidences_ppm(tier: pl.Expr | int) -> pl.Expr:
    """Expect sets by chance: as many as are tried up to a Tier, times how dense their sums lie; in millionths.

    What divides all amounts, ``unit``, divides their sums: those of round amounts are round, and meet often.
    """
    return sets(tier) * PARTS_PER_MILLION // (pl.col("reach") // pl.col("unit")).clip(lower_bound=1)


@cache
def roundness(name: str) -> pl.Expr:
    """Return the largest of ROUND that divides the amounts of a column, none of which is 0.

    Each divides the next, so the least of all divides all.
    """
    digits = pl.col(name).cast(pl.String)
    noughts = digits.str.len_bytes() - digits.str.strip_chars_end("0").str.len_bytes()
    unit = pl.lit(pl.Series(ROUND[::2], dtype=pl.Int64)).gather(noughts)
    return pl.when(pl.col(name) % (unit * 5) == 0).then(unit * 5).otherwise(unit)


def _units(items: pl.DataFrame) -> pl.DataFrame:
    """Return ``unit`` of each party, and the ``reach`` of its sums: the median counts, lest one huge item widens it."""
    amount = pl.col("amount")
    median = amount.sort().get(pl.len() // 2)
    return items.group_by("party").agg(unit=roundness("amount").min(), reach=pl.len().cast(pl.Int64) * median)


def _looked_at(items: pl.DataFrame, lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the parties with items and lines as ``party, n, reach, depth``, and those of which there are too many."""
    counts = items.group_by("party").agg(n=pl.len().cast(pl.Int64))
    counts = counts.join(lines.group_by("party").agg(lines=pl.len()), on="party")
    many = (pl.col("n") > BLIND_ITEMS_MAX) | (pl.col("lines") > BLIND_LINES_MAX)
    found = counts.filter(~many).select("party", "n")
    here = items.join(found, on="party", how="semi")
    equal = here.group_by("party", "amount").len().group_by("party").agg(equal=pl.col("len").max())
    found = found.join(_units(here), on="party").join(equal, on="party")
    found = found.select("party", "n", "reach", depth=_depth())
    costly = _beyond_budget(found.join(counts.select("party", "lines"), on="party"), items.height + lines.height)
    many_or_costly = pl.concat([counts.filter(many).select("party"), costly])
    return found.join(costly, on="party", how="anti"), many_or_costly


@cache
def _depth() -> pl.Expr:
    """Return the last Tier of which a sum would say something of a party that has few items and few alike."""
    few = (pl.col("n") <= BLIND_SEARCH_ITEMS_MAX) & (pl.col("equal") <= BLIND_EQUAL_MAX)
    # The number of sets grows from tier to tier, so those that tell something come first.
    return pl.sum_horizontal(
        (few & (coincidences_ppm(tier.value) <= BLIND_COINCIDENCES_PPM_MAX)).cast(pl.Int8)
        for tier in Tier
        if tier is not Tier.RUN
    )


def pieces() -> pl.Expr:
    """Return how many sums of a party's items are made for each of its lines, about."""
    n = pl.col("n")
    return pl.when(pl.col("depth") > Tier.RUN.value).then(n * n).otherwise(n)


def _beyond_budget(found: pl.DataFrame, rows: int) -> pl.DataFrame:
    """Return the ``party`` of those with the most sums, until the others are few enough for so many rows."""
    budget = max(BLIND_SETS_MIN, BLIND_SETS_PER_ROW_MAX * rows)
    sums = found.select("party", sums=pieces() * pl.col("lines")).sort("sums", "party")
    return left_out(sums.filter(pl.col("sums").cum_sum() > budget).select("party"))


def parties(sides: Sides, busy: Taken, rules: MatchingRules) -> Parties:
    """Return the parties of the rows that nothing else has."""
    first, last = span()
    # Sums of so many amounts of at most this stay far below 64 bits.
    bounded = pl.col("amount_minor") <= AMOUNT_MINOR_MAX
    items, lines = (frame.filter(bounded) for frame in busy.left(sides))
    if items.is_empty() or lines.is_empty():
        return nobody()
    items = items.select(
        _key("account"),
        _key("name"),
        "part",
        e="row",
        amount="amount_minor",
        due=pl.coalesce("due_day", "from_day", "to_day").cast(pl.Int64),
        opens=first.fill_null(-_DAYS_MAX),
        closes=last.fill_null(_DAYS_MAX),
    )
    day = pl.col("day").cast(pl.Int64)
    lines = lines.select(
        _key("account"),
        # Who is called nearly as a counterparty, and as nobody else, is meant by that name.
        "part",
        name=pl.coalesce("similar_key", "name_key") ^ pl.col("salt"),
        i="row",
        target="amount_minor",
        day=day,
        since=day - bound(rules, lambda bounds: bounds.date_window_days_after),
        until=day + bound(rules, lambda bounds: bounds.date_window_days_before),
    )
    items, names = _of_items(items)
    asking = _of_lines(lines, items, names)
    if asking.is_empty():
        return nobody()
    asking = _possible(asking.join(lines.drop("account", "name", "part"), on="i"), items)
    if asking.is_empty():
        return nobody()
    unnamed = lines.filter(pl.all_horizontal(pl.col("account", "name").is_null()))
    found, many = _looked_at(items, asking)
    over = [
        asking.join(many, on="party").join(items.group_by("party").agg(pl.col("e").min()), on="party"),
        items.join(many, on="party").join(asking.group_by("party").agg(pl.col("i").min()), on="party"),
    ]
    members = (
        items.join(found.select("party", "depth"), on="party")
        .sort("party", "due", "e", nulls_last=True)
        .select(
            "party",
            "e",
            "part",
            "amount",
            "due",
            "opens",
            "closes",
            "depth",
            at=pl.int_range(pl.len(), dtype=pl.Int32).over("party"),
            before=(pl.col("amount").cum_sum() - pl.col("amount")).over("party"),
        )
    )
    return Parties(
        members=members,
        lines=asking.join(found, on="party").sort("i", "party"),
        unnamed=unnamed.select("i", "part", "target", "since", "until"),
        over=pl.concat([frame.select("e", "i") for frame in over]),
    )
