"""What else somebody claims of the rows of explicit groups: how much it is, and the best of it."""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.block import LINE_KEYS, PARTY_KEYS
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.groups import KEY_SCORE
from payrec.domain.matching.meant import learned
from payrec.domain.matching.one_more import paid_just
from payrec.domain.matching.proofs import Proofs
from payrec.domain.matching.rules import ALTERNATIVES_MAX, GroupLevel, MatchKind, Side
from payrec.domain.matching.score import RANK_PROOF, contradicted

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
_BY_ID: Final = [level.value for level in (GroupLevel.BY_KEY, GroupLevel.BY_KEY_LESS)]
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


def beside(groups: pl.DataFrame, legs: pl.DataFrame, pairs: pl.DataFrame, proofs: Proofs, sides: Sides) -> pl.DataFrame:
    """Return what lines may mean beside what they quote in full, or instead of it (RIVAL_SCHEMA).

    Who quotes the number of an item of another counterparty, and has one of the very amount himself, may have mistaken
    it. Who quotes another item of his by too little beside a set may mean that as well. Of money that goes out, an item
    of another account is told as its own rival, and so is one of somebody else whose reference others have as well. So
    it is of a group id all of whose items are of one other account.
    """
    quoted = legs.join(groups.filter(~_named_beside()).select("g", "group_level"), on="g")
    told = [_mistaken(quoted, pairs, sides), _left_out(quoted, proofs), _other_batch(groups, legs, pairs, sides)]
    return pl.concat([shaped(some.with_columns(side=pl.lit(Side.EXPECTED.value)), RIVAL_SCHEMA) for some in told])


def _named_beside() -> pl.Expr:
    return pl.col("group_level").is_in(_BESIDE)


def _mistaken(legs: pl.DataFrame, pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    others = pairs.filter(pl.col("rank") == RANK_PROOF, contradicted() | learned() | pl.col("named_other"))
    anybody = pl.col("elsewhere") | pl.col("shared")
    foreign = (contradicted() & ~pl.col("payer")) | pl.col("named_other")
    others = legs.join(others.select("e", "i", "score_milli", anybody=anybody, foreign=foreign), on=["e", "i"])
    others = others.select("g", "e", "i", "leg_minor", "score_milli", "anybody", "foreign")
    found = [others.filter("anybody").select("g", "e", "i", "score_milli")]
    mine = others.filter("foreign")
    if mine.height:
        lines = mine.drop("e").join(sides.incoming.select("salt", *LINE_KEYS, i="row"), on="i")
        for name, its in PARTY_KEYS:
            party = ["salt", "leg_minor", its]
            items = sides.expected.select("salt", e="row", leg_minor="amount_minor", **{its: name}).drop_nulls(its)
            # Whether there is one is asked, and not how many.
            some = (
                items.join(lines, on=party, how="semi").group_by(party, maintain_order=True).head(ALTERNATIVES_MAX + 1)
            )
            own = lines.join(some, on=party).join(legs, on=["g", "e"], how="anti")
            found.append(own.select("g", "e", "i", "score_milli"))
    return pl.concat(found).unique(["g", "e", "i"], keep="any")


def _other_batch(groups: pl.DataFrame, legs: pl.DataFrame, pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return what may be meant instead of a group id.

    Who pays what he has collected owes nothing of that amount himself. What goes out to several in one sum is an order
    for all of them, whatever the bank calls it; what is for one is paid to that one.
    """
    batches = groups.filter(pl.col("group_level").is_in(_BY_ID), pl.any_horizontal("foreign", "other_account")).select(
        "g", "i", "score_milli", "foreign", "other_account", first="e"
    )
    if batches.is_empty():
        return pl.DataFrame(schema=RIVAL_SCHEMA)
    own = batches.filter("foreign").join(paid_just(pairs).select("i", "e"), on="i")
    paid_out = sides.incoming.filter(pl.col("direction") < 0).select(i="row")
    others = batches.filter("other_account").join(paid_out, on="i", how="semi")
    parties = legs.join(others, on="g", how="semi").join(sides.expected.select("account_key", e="row"), on="e")
    of_one = parties.group_by("g").agg(n=pl.col("account_key").n_unique()).filter(pl.col("n") == 1)
    others = others.join(of_one, on="g", how="semi")
    found = [own.select("g", "e", "i", "score_milli"), others.select("g", "i", "score_milli", e="first")]
    return pl.concat(found, how="diagonal").with_columns(side=pl.lit(Side.EXPECTED.value))


def _left_out(legs: pl.DataFrame, proofs: Proofs) -> pl.DataFrame:
    sets = legs.filter(pl.col("group_level") == GroupLevel.BY_REFERENCES.value).select("g", "i").unique()
    return sets.join(proofs.short.select("e", "i", "score_milli"), on="i").select("g", "e", "i", "score_milli")


def rivals_of(
    groups: pl.DataFrame, legs: pl.DataFrame, proofs: Proofs, claims: pl.DataFrame, meant: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what else is claimed of the rows of each group, as ``g, side, e, i, score_milli``, and how much that is.

    What a set was chosen among is no rival of it: that none but this one sums up is what was found out. What ``beside``
    tells is ``meant``.
    """
    rows = legs.select("g", "e", "i").join(groups.select("g", "kind", "group_level", "key"), on="g")
    of_line = pl.col("kind") == MatchKind.ONE_TO_MANY.value
    fitting = proofs.fitting.select("e", "i", "score_milli")
    quoted = rows.filter(~_named_beside())
    of_lines, their_claims = _claimed(quoted.filter(of_line), fitting, Side.INCOMING, "e")
    of_items, its_claims = _claimed(quoted.filter(~of_line), fitting, Side.EXPECTED, "i")
    # What holds these together is named beside what the line quotes. An item has one group id, so here claims are no
    # more than proofs, or than the ids that a line names beside each.
    batches = rows.filter(_named_beside())
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
    of_proofs = named.filter(~_named_beside() & ~of_line).join(fitting, on=["e", "i"], how="semi")
    others.append(named.join(of_proofs, on=["g", "e", "i"], how="anti"))
    # Lines that name the same group id are told where they would do as well.
    others.append(
        groups.filter(pl.col("same") > 0)
        .select("g", "key", own="i")
        .join(claims, on="key")
        .filter(pl.col("own") != pl.col("i"))
        .with_columns(side=pl.lit(Side.INCOMING.value), score_milli=pl.lit(KEY_SCORE))
    )
    joined = pl.concat([meant, *(shaped(other, RIVAL_SCHEMA) for other in others)]).unique(
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
