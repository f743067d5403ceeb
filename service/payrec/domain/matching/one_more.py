"""Explicit groups of which one is not named: what a line quotes in full, and the only other item that is the rest.

Texts are cut off, and who always pays two invoices may quote the first alone. The other item is of the counterparty of
what is quoted, open, in time, and the only one that has the amount; nobody quotes it, no line of its counterparty pays
just as much, and no item of it asks for just the line's amount. Nobody has named it, so a person decides.
"""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.columns import PARTY_KEYS, Sides
from payrec.domain.matching.groups import Groups
from payrec.domain.matching.less_credits import groups_of, sums_of
from payrec.domain.matching.proofs import Proofs
from payrec.domain.matching.ruled import strict_lines
from payrec.domain.matching.rules import AmountLevel, GroupLevel, MatchingRules
from payrec.domain.matching.score import in_time, without


def paid_just(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the scored pairs of one counterparty that have the same amount."""
    return pairs.filter((pl.col("fault") == 0) & (pl.col("amount_level") == AmountLevel.EQUAL.value) & pl.col("payer"))


def paying_more(sides: Sides, paid: pl.DataFrame, proofs: Proofs, rules: MatchingRules) -> pl.DataFrame:
    """Return what lines quote that pay more than that and nothing else: ``e, i, e_amount_minor, n, rest``.

    ``n`` are the items that a line quotes, ``rest`` what it pays beyond them; ``paid`` is what ``paid_just`` returns.
    """
    # What a line hints at beside, by a few characters, may be what it means.
    unclear = pl.concat([proofs.settled["i"], paid["i"], proofs.short["i"]]).unique().to_frame()
    quoted = proofs.fitting.join(unclear, on="i", how="anti")
    short = (
        sums_of(quoted, proofs)
        .filter(pl.col("total") < pl.col("target"), pl.col("n") < rules.group_size_max)
        .filter(~pl.col("i").is_in(strict_lines(sides, rules).implode()))
        .select("i", "n", rest=(pl.col("target") - pl.col("total")).cast(pl.Int64))
    )
    return quoted.join(short, on="i").select("e", "i", "e_amount_minor", "n", "rest")


def with_one_more(
    sides: Sides, quoted: pl.DataFrame, taken: pl.Series, refused: pl.DataFrame, rules: MatchingRules
) -> Groups:
    """Return the lines that are what they quote and one item more.

    ``quoted`` is what ``paying_more`` returns, ``taken`` are items that somebody quotes or pays, ``refused`` the codes
    of rejected pairs.
    """
    short = quoted.select("i", "rest", named=pl.col("n") + 1).unique("i")
    free = sides.expected.join(taken.to_frame("row"), on="row", how="anti")
    of_payer = quoted.select("e", "i", "rest").join(sides.expected.select("part", *PARTY_KEYS, e="row"), on="e")
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
