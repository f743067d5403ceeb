"""Blind groups: sets that nobody named, held together by counterparty, currency, order and an exact sum.

Few items have very many sums, so an exact one says little by itself. Only structured sets are tried (runs in due order,
runs without one or two, pairs and triples of few, equal parts), all of them within stated bounds; what is found counts
with how many sets were tried, and how many of those were to be expected to have the amount by chance. None of it is
ever accepted without a person, but for equal parts that ``blind_proof`` finds proved.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.blind_parties import Parties, Tier, parties, sets
from payrec.domain.matching.blind_parts import parts
from payrec.domain.matching.blind_proof import proved
from payrec.domain.matching.blind_sums import expected_by_chance, feasible, sums
from payrec.domain.matching.block import Candidates
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.compete import Taken, probability, standing, strength
from payrec.domain.matching.group_choice import Chosen, chosen, free, given_up, nothing, told_by_legs
from payrec.domain.matching.group_rivals import RIVAL_SCHEMA, counted
from payrec.domain.matching.groups import LEG_SCHEMA
from payrec.domain.matching.reasons import finding, no_findings
from payrec.domain.matching.ruled import strict_lines
from payrec.domain.matching.rules import (
    BLIND_CLAIMS_MAX,
    BLIND_COINCIDENCES_PPM_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    Reason,
    Side,
    Uniqueness,
)

_LEVELS: Final = {
    Tier.RUN: GroupLevel.BY_RUN,
    Tier.MINUS_ONE: GroupLevel.BY_RUN_MINUS,
    Tier.MINUS_TWO: GroupLevel.BY_RUN_MINUS,
    Tier.PAIR: GroupLevel.BY_FEW,
    Tier.TRIPLE: GroupLevel.BY_FEW,
}

_FINDING_SCORE: Final = -50_000
"""Below every score of a pair, above what is looked up only to name a neighbour."""

_GROUP_SCHEMA: Final = {
    "g": pl.UInt32(),
    "level": pl.Int8(),
    "tried": pl.Int32(),
    "named": pl.Int32(),  # transactions among which the set was found
    "coincidences_ppm": pl.Int64(),
    "tier": pl.Int8(),
    "rank": pl.Int64(),  # the least first
    "worse": pl.Int32(),  # less simple sets that have the amount too
    "unbounded": pl.Boolean(),
}


def _findings(rows: pl.DataFrame, reason: Reason, *, fits: bool) -> pl.DataFrame:
    """Return ``e`` and ``i`` as findings."""
    if rows.is_empty():
        return no_findings()
    found = rows.unique(["e", "i"]).with_columns(
        reason=pl.lit(reason.value),
        fits=pl.lit(fits),
        score_milli=pl.lit(_FINDING_SCORE),
        days_outside=None,
        difference_minor=None,
    )
    return finding(found)


def _by_sum(found: Parties, refused: pl.DataFrame, rules: MatchingRules) -> tuple[pl.DataFrame, ...]:
    """Return groups of one line, their legs, and findings."""
    hits, legs, crowded = sums(found, rules)
    hits = feasible(hits, legs, refused)
    legs = legs.join(hits, on="h", how="semi")
    best = pl.col("tier") == pl.col("tier").min().over("i")
    hits = hits.with_columns(best=best).with_columns(worse=(~pl.col("best")).sum().over("i")).filter("best")
    hits = expected_by_chance(hits, legs, found)
    said = pl.col("coincidences_ppm") <= BLIND_COINCIDENCES_PPM_MAX
    groups = hits.filter(said).with_columns(
        g="h",
        level=pl.col("tier").replace_strict({tier.value: level.value for tier, level in _LEVELS.items()}),
        tried=sets(pl.col("depth")),
        named="n",
        unbounded=(pl.col("depth") < Tier.TRIPLE.value) | pl.col("more"),
    )
    unsaid = legs.join(hits.filter(~said), on="h", how="semi").select("e", "i")
    findings = _findings(pl.concat([unsaid, crowded]), Reason.AMBIGUOUS, fits=True)
    legs = legs.rename({"h": "g"}).join(groups, on="g", how="semi")
    return shaped(groups, _GROUP_SCHEMA), shaped(legs, LEG_SCHEMA), findings


def _by_parts(found: Parties, refused: pl.DataFrame, rules: MatchingRules) -> tuple[pl.DataFrame, ...]:
    """Return groups of one item, their legs, and findings."""
    if found.lines["i"].n_unique() + found.unnamed.height <= 1:
        # A part is never alone.
        return pl.DataFrame(schema=_GROUP_SCHEMA), pl.DataFrame(schema=LEG_SCHEMA), no_findings()
    legs, beyond = parts(found, refused, rules)
    items = legs.select("e", "tried", "level", "coincidences_ppm", named="n").unique("e").sort("e").with_row_index("g")
    groups = items.with_columns(
        tier=pl.lit(0),
        rank=pl.lit(0),
        worse=pl.lit(0),
        unbounded=pl.lit(value=False),
    )
    legs = legs.join(items.select("g", "e"), on="e")
    findings = _findings(beyond, Reason.AMBIGUOUS, fits=True)
    return shaped(groups, _GROUP_SCHEMA), shaped(legs, LEG_SCHEMA), findings


def _claimed(legs: pl.DataFrame) -> pl.DataFrame:
    """Return the legs ``g, e, i`` of groups with a row of which too many others are made to be told as rivals."""
    often = pl.concat(
        [legs.filter(pl.col("g").n_unique().over(end) > BLIND_CLAIMS_MAX).select("g") for end in ("e", "i")]
    )
    return legs.join(often, on="g", how="semi").select("g", "e", "i")


def _rivals(groups: pl.DataFrame, legs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return ``g, other, side`` of groups that share a row, and what the others join instead (RIVAL_SCHEMA)."""
    pairs = []
    for side, end in ((Side.EXPECTED, "i"), (Side.INCOMING, "e")):
        rows = legs.select("g", end).unique()
        pairs.append(
            rows.join(rows.rename({"g": "other"}), on=end)
            .filter(pl.col("g") != pl.col("other"))
            .select("g", "other", side=pl.lit(side.value, dtype=pl.Int8))
            .unique()
        )
    shared = pl.concat(pairs).sort("g", "other", "side").unique(["g", "other"], keep="first", maintain_order=True)
    instead = (
        shared.join(legs.select("e", "i", other="g"), on="other")
        .join(legs.select("g", "e", "i"), on=["g", "e", "i"], how="anti")
        .join(groups.select("score_milli", other="g"), on="other")
        .unique(["g", "side", "e", "i"])
    )
    # An alternative has one end in common with the proposal.
    common = [
        instead.filter(pl.col("side") == side.value).join(legs.select("g", end).unique(), on=["g", end], how="semi")
        for side, end in ((Side.EXPECTED, "i"), (Side.INCOMING, "e"))
    ]
    return shared, shaped(pl.concat(common), RIVAL_SCHEMA)


def _decided(groups: pl.DataFrame, shared: pl.DataFrame, tied: pl.Series) -> pl.DataFrame:
    """Add what the rivals leave: ``status``, ``confidence`` and the probability."""
    rivalry = pl.col("rivals_expected") + pl.col("rivals_incoming")
    status = standing(pl.col("g").is_in(tied.implode()) | pl.col("twin"), unique=rivalry == 0)
    unnamed = pl.col("group_level") == GroupLevel.BY_UNNAMED_PARTS.value
    return (
        groups.join(counted(shared.with_columns(claims=pl.lit(1))), on="g", how="left")
        .with_columns(
            rivals_expected=pl.col("rivals_expected").fill_null(0) + pl.col("worse"),
            rivals_incoming=pl.col("rivals_incoming").fill_null(0),
            strength=strength(),
            difference_minor=pl.lit(0, dtype=pl.Int64),
        )
        .with_columns(status=status.cast(pl.Int8), total=pl.col("strength") * (1 + rivalry))
        .with_columns(
            probability_ppm=probability(),
            confidence=pl.when((pl.col("status") == Uniqueness.UNIQUE.value) & ~unnamed)
            .then(Confidence.MEDIUM.value)
            .otherwise(Confidence.LOW.value)
            .cast(pl.Int8),
        )
    )


def _accepted(groups: pl.DataFrame, proofs: pl.Series) -> pl.DataFrame:
    """Raise the confidence of the groups that are proved, which need no person where so much is enough."""
    is_proved = pl.col("g").is_in(proofs.implode())
    return groups.with_columns(
        confidence=pl.when(is_proved).then(Confidence.HIGH.value).otherwise("confidence").cast(pl.Int8),
        auto=is_proved & (pl.col("least") <= Confidence.HIGH.value) & ~pl.col("pending"),
    )


def blind(sides: Sides, busy: Taken, found: Candidates, refused: pl.DataFrame, rules: MatchingRules) -> Chosen:
    """Propose sets that nobody named, among the rows that are not ``busy``.

    ``refused`` are the codes of rejected pairs; a group with one of them is none.
    """
    if rules.group_size_max < 2:
        return nothing(no_findings())
    # A set that nobody named has nothing of what could be required.
    busy = busy.joined(busy.items.clear(), strict_lines(sides, rules))
    known = parties(sides, busy, rules)
    if known.lines.is_empty():
        return nothing(_findings(known.over, Reason.BUDGET_EXHAUSTED, fits=False))
    groups, legs, of_sums = _by_sum(known, refused, rules)
    items, shares, of_parts = _by_parts(known, refused, rules)
    findings = pl.concat([_findings(known.over, Reason.BUDGET_EXHAUSTED, fits=False), of_sums, of_parts])
    count = 0 if groups.is_empty() else groups.select(pl.col("g").max()).item() + 1
    shift = (pl.col("g") + count).cast(pl.UInt32)
    groups, legs = pl.concat([groups, items.with_columns(shift)]), pl.concat([legs, shares.with_columns(shift)])
    claimed = _claimed(legs)
    findings = pl.concat([findings, _findings(claimed, Reason.AMBIGUOUS, fits=True)])
    groups, legs = (frame.join(claimed, on="g", how="anti") for frame in (groups, legs))
    if groups.is_empty():
        return nothing(findings)
    order = ["rank", "score_milli", "i", "g"]
    groups = told_by_legs(groups, legs, sides, found, rules).sort(order, descending=[False, True, False, False])
    groups = groups.with_row_index("place")
    lost, tied = free(groups, legs, "tier")
    shared, instead = _rivals(groups, legs)
    groups = _decided(groups, shared, tied)
    groups = _accepted(groups, proved(groups, legs, sides, found))
    findings = pl.concat([findings, given_up(groups, legs, lost)])
    return chosen(groups.filter(~pl.col("g").is_in(lost.implode())), legs, instead, findings)
