"""Explicit groups of which one is not named: what a line quotes in full, and the only other item that is the rest.

Texts are cut off, and who always pays two invoices may quote the first alone. The other item is of the counterparty of
what is quoted, open, in time, and the only one that has the amount; nobody quotes it, no line of its counterparty pays
just as much, and no item of it asks for just the line's amount. Nobody has named it, so a person decides.
"""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.columns import PARTY_KEYS, Sides
from payrec.domain.matching.groups import Groups, Proofs, no_groups
from payrec.domain.matching.less_credits import groups_of, sums_of
from payrec.domain.matching.ruled import strict_lines
from payrec.domain.matching.rules import AmountLevel, GroupLevel, MatchingRules
from payrec.domain.matching.score import in_time, without


def with_one_more(
    sides: Sides, pairs: pl.DataFrame, proofs: Proofs, refused: pl.DataFrame, rules: MatchingRules
) -> Groups:
    """Return the lines that are what they quote and one item more.

    ``pairs`` are scored, ``refused`` the codes of rejected pairs.
    """
    if proofs.fitting.height == proofs.settled.height:
        return no_groups()
    whole = (pl.col("fault") == 0) & (pl.col("amount_level") == AmountLevel.EQUAL.value) & pl.col("payer")
    paid = pairs.filter(whole)
    # What a line hints at beside, by a few characters, may be what it means.
    unclear = pl.concat([proofs.settled["i"], paid["i"], proofs.short["i"]]).unique().to_frame()
    quoted = proofs.fitting.join(unclear, on="i", how="anti")
    short = (
        sums_of(quoted, proofs)
        .filter(pl.col("total") < pl.col("target"), pl.col("n") < rules.group_size_max)
        .filter(~pl.col("i").is_in(strict_lines(sides, rules).implode()))
        .select("i", named=pl.col("n") + 1, rest=(pl.col("target") - pl.col("total")).cast(pl.Int64))
    )
    if short.is_empty():
        return no_groups()
    taken = pl.concat([proofs.claimed["e"], paid["e"]]).unique()
    free = sides.expected.join(taken.to_frame("row"), on="row", how="anti")
    of_payer = (
        quoted.select("e", "i").join(short, on="i").join(sides.expected.select("part", *PARTY_KEYS, e="row"), on="e")
    )
    found = [_the_only(free, of_payer, name) for name in PARTY_KEYS]
    others = pl.concat(found).unique().filter(pl.len().over("i") == 1, pl.len().over("e") == 1)
    others = in_time(without(others.sort("e", "i"), refused), sides, rules).join(short, on="i")
    members = pl.concat(
        [
            quoted.join(others, on="i", how="semi").select("e", "i", leg_minor="e_amount_minor"),
            others.select("e", "i", leg_minor="rest"),
        ]
    )
    return groups_of(members, GroupLevel.BY_REFERENCES_AND_ONE, others.select("i", "named", tried=pl.lit(1)))


def _the_only(free: pl.DataFrame, of_payer: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return ``e``, the only free item of a counterparty with the amount that is the rest of a line ``i``."""
    on = ["part", name, "amount_minor"]
    # Counted before they are joined: of a payer who always owes the same there may be any number.
    wanted = of_payer.select("i", "part", name, amount_minor="rest").drop_nulls(name).unique()
    alone = free.select(*on, e="row").join(wanted, on=on, how="semi").filter(pl.len().over(on) == 1)
    return wanted.join(alone, on=on).select("e", "i")
