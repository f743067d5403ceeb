"""Payments that are there twice: reported again, or sent again within days.

Lines of one amount, counterparty and set of references on near days, made on the same behalf, pay as many items as
there are for them. The earliest pay, by booking day and then by content; the others are duplicates and take no part.
Equal instalments of one item, and equal payments of several, are therefore none, unless the payer's own id is the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from payrec.domain.matching.columns import PARTY_KEYS, Sides
from payrec.domain.matching.rules import DUPLICATE_DAYS_MAX, AmountLevel
from payrec.domain.matching.score import RANK_PROOF

_SAME: Final = ("part", "amount_minor", "account_key", "own_account_key", "name_key", "ultimate_name_key")
_SAID: Final = ("pending", "duplicate", "day", "end_to_end_key")
_DECIDES: Final = ("pending", "duplicate", "proofless", "day")
"""What is booked pays before what is pending or was uploaded twice, then what names an item, then the earlier pays."""


def _alike(sides: Sides) -> pl.DataFrame:
    """Return the lines that have an equal on a near day: ``i``, ``cluster``, and what decides who is the earlier."""
    named = pl.any_horizontal(pl.col(PARTY_KEYS).is_not_null())
    lines = sides.incoming.filter(~pl.col("reversal") & (named | (pl.col("reference_keys").list.len() > 0)))
    lines = lines.filter(pl.struct(_SAME).is_duplicated())
    # The payer's own end-to-end id is another one when the payment is sent again.
    keys = pl.col("reference_keys").list.set_difference(pl.concat_list("end_to_end_key")).list.sort()
    lines = lines.with_columns(quoted=keys.cast(pl.List(pl.String())).list.join(" ").fill_null(""))
    same = [*_SAME, "quoted"]
    lines = lines.filter(pl.struct(same).is_duplicated()).sort(*same, "day", "row", nulls_last=True)
    apart = (pl.struct(same) != pl.struct(same).shift(1)).fill_null(value=True)
    late = (pl.col("day").diff() > DUPLICATE_DAYS_MAX).fill_null(value=False)
    return lines.select(*_SAID, i="row", cluster=(apart | late).cum_sum()).filter(pl.len().over("cluster") > 1)


def _is_again(sides: Sides) -> pl.Expr:
    """Tell of the lines of a cluster, in their order, whether one before has the end-to-end id: it is one payment.

    It is not where the id is what an item is called by, which the payer writes on each of its parts.
    """
    items = sides.expected
    named = pl.concat([items[name].drop_nulls().alias("key") for name in ("reference_key", "end_to_end_key")]).unique()
    key = pl.col("end_to_end_key")
    own = ((key & 1) == 1) & ~key.is_in(named.implode())
    return own.fill_null(value=False) & (pl.int_range(pl.len()).over("cluster", "end_to_end_key") > 0)


def without_repeats(pairs: pl.DataFrame, sides: Sides) -> tuple[pl.DataFrame, pl.DataFrame, Sides]:
    """Return the pairs without those of repeating lines, those, and the sides with these lines as duplicates.

    ``pairs`` are scored. Lines that may pay something come before those that may not, such as one that a person has
    rejected. The pairs of the earlier one are marked as ``twin`` where only the identity tells that it is the earlier
    one, and where no proof says that both pay the same: nobody may accept them unseen.
    """
    # One line alone repeats nothing.
    if sides.incoming.height < len(("earlier", "later")) or (alike := _alike(sides)).is_empty():
        return pairs, pairs.clear(), sides
    fitting = pairs.filter(pl.col("fault") == 0).join(alike.select("i", "cluster"), on="i")
    parts = pl.when(pl.col("amount_level") == AmountLevel.SMALLER.value).then(
        pl.col("e_amount_minor") // pl.col("i_amount_minor")
    )
    proofs = fitting.filter(pl.col("rank") == RANK_PROOF)
    # Who names no item may mean another one than those that are named by the end-to-end ids of the others.
    others = fitting.join(proofs, on="i", how="anti").join(proofs, on=["cluster", "e"], how="anti")
    wanted = (
        pl.concat([proofs, others.filter(pl.col("rank") == pl.col("rank").max().over("cluster"))])
        .unique(["cluster", "e"])
        .group_by("cluster")
        .agg(wanted=parts.otherwise(1).sum())
    )
    decides = ["cluster", "idle", *_DECIDES]
    alike = (
        alike.join(wanted, on="cluster")
        .with_columns(
            idle=~pl.col("i").is_in(fitting["i"].implode()), proofless=~pl.col("i").is_in(proofs["i"].implode())
        )
        .sort(*decides, "i", nulls_last=True)
        .with_columns(repeats=_is_again(sides) | (pl.int_range(pl.len()).over("cluster") >= pl.col("wanted")))
    )
    repeats = alike.filter("repeats")
    if repeats.is_empty():
        return pairs, pairs.clear(), sides
    first = alike.filter(~pl.col("repeats")).join(repeats, on="cluster", how="semi")
    tied = first.join(repeats, on=decides, how="semi", nulls_equal=True)["i"].implode()
    unproved = pl.col("i").is_in(first["i"].implode()) & (pl.col("rank") < RANK_PROOF)
    again = repeats["i"].implode()
    kept = pairs.filter(~pl.col("i").is_in(again)).with_columns(
        twin=pl.col("twin") | pl.col("i").is_in(tied) | unproved
    )
    incoming = sides.incoming.with_columns(duplicate=pl.col("duplicate") | pl.col("row").is_in(again))
    return kept, pairs.filter(pl.col("i").is_in(again)), replace(sides, incoming=incoming)
