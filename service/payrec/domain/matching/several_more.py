"""Explicit groups of which several are not named: what a line quotes in full, and the only set that is the rest.

Lists of references are often cut off behind the first, or go on with words. The others are of the counterparty of what
is quoted, open, in time, and a set as nobody names them (``blind``): due one after the other, or few. No other such set
is the rest. Nobody has named them, so a person decides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from payrec.domain.matching.blind_parties import parties, sets
from payrec.domain.matching.blind_sums import expected_by_chance, feasible, sums
from payrec.domain.matching.columns import PARTY_KEYS, Sides
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.groups import Groups, no_groups
from payrec.domain.matching.less_credits import groups_of
from payrec.domain.matching.rules import BLIND_COINCIDENCES_PPM_MAX, GroupLevel, MatchingRules

_STEPS: Final = 3
"""From a line's name to all whose account may be meant by a name (``payrec.domain.matching.blind_parties``)."""


def with_several_more(
    sides: Sides, quoted: pl.DataFrame, taken: pl.Series, refused: pl.DataFrame, rules: MatchingRules
) -> Groups:
    """Return the lines that are what they quote and several items more.

    ``quoted`` is what ``payrec.domain.matching.one_more.paying_more`` returns, ``taken`` are items that somebody
    quotes or pays, ``refused`` the codes of rejected pairs.
    """
    asking = _asking(sides, quoted)
    if asking.is_empty():
        return no_groups()
    beside = replace(sides, expected=_near(sides.expected, asking), incoming=asking)
    found = parties(beside, Taken(taken, asking["row"].clear()), rules)
    if found.lines.is_empty():
        return no_groups()
    hits, legs, _ = sums(found, rules)
    hits = feasible(hits, legs, refused).filter(pl.len().over("i") == 1, ~pl.col("more"))
    # Of two that are the rest, each by itself, neither is meant, and so is no set beside them.
    single = found.lines.join(found.members.select("party", target="amount"), on=["party", "target"], how="semi")
    hits = expected_by_chance(hits.join(single, on="i", how="anti"), legs, found)
    legs = legs.join(hits, on="h", how="semi").select("e", "i", "leg_minor")
    sizes = legs.group_by("i").agg(others=pl.len()).join(quoted.select("i", quoted="n").unique("i"), on="i")
    said = (
        hits.filter(pl.col("coincidences_ppm") <= BLIND_COINCIDENCES_PPM_MAX)
        .join(sizes, on="i")
        .filter(pl.col("others") + pl.col("quoted") <= rules.group_size_max)
        .select("i", "coincidences_ppm", named=pl.col("n") + pl.col("quoted"), tried=sets(pl.col("depth")))
    )
    members = pl.concat([quoted.select("e", "i", leg_minor="e_amount_minor"), legs])
    return groups_of(members, GroupLevel.BY_REFERENCES_AND_MORE, said)


def _near(items: pl.DataFrame, asking: pl.DataFrame) -> pl.DataFrame:
    """Return the items that have to do with the counterparties of the lines, so that not all are told apart by party.

    Who is called as a line says has accounts, whose items have names, which others have as well.
    """
    near = asking
    for _ in range(_STEPS):
        near = items.filter(pl.any_horizontal(pl.col(name).is_in(near[name].implode()) for name in PARTY_KEYS))
    return near


def _asking(sides: Sides, quoted: pl.DataFrame) -> pl.DataFrame:
    """Return the lines as if each paid the rest alone, and were of the one counterparty of all that it quotes."""
    if quoted.is_empty():
        return sides.incoming.clear()
    of_items = sides.expected.select(*PARTY_KEYS, e="row")
    whose = (
        quoted.select("e", "i", "rest")
        .join(of_items, on="e")
        .filter(pl.struct(PARTY_KEYS).n_unique().over("i") == 1)
        .select("rest", *(pl.col(name).alias(f"its_{name}") for name in PARTY_KEYS), row="i")
        .unique("row")
    )
    return (
        sides.incoming.join(whose, on="row", maintain_order="left")
        .with_columns(
            *(pl.col(f"its_{name}").alias(name) for name in PARTY_KEYS),
            amount_minor="rest",
            similar_key=pl.lit(None, dtype=pl.Int64),
        )
        .select(sides.incoming.columns)
    )
