"""From which score on a tenant environment's proposals need no person: a threshold, and the proof that it holds.

A threshold is certified by decisions of persons alone: the one-sided lower bound of the share of right proposals at or
above it has to reach ``PRECISION_PPM_MIN``. Decisions on proofs count as well, but would make anything look right, so
what rests on the score alone has to hold by itself, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import polars as pl

from payrec.domain.matching.columns import Sides
from payrec.domain.matching.ruled import bound
from payrec.domain.matching.rules import (
    PARTS_PER_MILLION,
    AmountLevel,
    Confidence,
    DateLevel,
    EndToEndLevel,
    GroupLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
)
from payrec.domain.matching.weights import PRECISION_PPM_MIN, share_at

RESTING_PPM_MIN: Final = 990_000
"""The same of what is not proved by a reference, which is the smaller part."""

STEP_PPM_MIN: Final = 995_000
"""Millionths of the proposals just at the threshold that were right at the least."""

QUANTILE: Final = 1.6448536269514722
"""Of the standard normal distribution, for one-sided 95 %."""

SAMPLED_ONE_IN: Final = 100
"""One in so many of what is accepted because of a calibration waits for a person, who is not told what the engine
thinks of it."""

_EQUAL: Final = tuple(
    level.value for level in (AmountLevel.EQUAL, AmountLevel.TOLERANCE, AmountLevel.BAND, AmountLevel.TERM)
)
_NAMED: Final = [level.value for level in NameLevel if level >= NameLevel.EQUAL and level is not NameLevel.ALIAS]
_TIMELY: Final = (DateLevel.UNKNOWN.value, DateLevel.NEAR.value, DateLevel.CLOSE.value)

_MIXER: Final = 0x9E3779B97F4A7C15 - 2**64
"""Odd, so that wrapping multiplication keeps keys apart (the golden ratio of 64 bits, Knuth TAOCP 6.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A threshold, or why there is none yet."""

    threshold_milli: int | None
    reviewed: int
    """Decisions at or above the threshold, or all when there is none."""
    wrong: int
    bound_ppm: int


def lower_bound_ppm(right: int, count: int) -> int:
    """Return the one-sided 95 % lower bound of a share, in millionths (Wilson 1927), rounded down."""
    if count == 0:
        return 0
    squared = QUANTILE**2
    share = right / count
    centre = share + squared / (2 * count)
    spread = QUANTILE * math.sqrt(share * (1 - share) / count + squared / (4 * count * count))
    return max(math.floor((centre - spread) / (1 + squared / count) * PARTS_PER_MILLION), 0)


def curve_of(scores: list[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
    """Return how often proposals of at least a score were right, in steps that rise with the score.

    ``scores`` are score, decisions and right ones, the lowest score first. Neighbouring scores are put together as long
    as the higher was not right more often (pool adjacent violators, Ayer et al. 1955).
    """
    steps: list[tuple[int, int, int]] = []
    for score, count, right in scores:
        step = (score, count, right)
        while steps and steps[-1][2] * step[1] >= step[2] * steps[-1][1]:
            least, before, its = steps.pop()
            step = (least, before + step[1], its + step[2])
        steps.append(step)
    return tuple((score, right * PARTS_PER_MILLION // count) for score, count, right in steps)


def certify(reviewed: pl.DataFrame) -> Certificate:
    """Find the lowest threshold that decisions prove.

    ``reviewed`` has ``score_milli``, ``proof`` (a reference proves it) and ``right`` of what could be accepted at all.
    """
    total = reviewed.height
    right = int(reviewed["right"].sum())
    nothing = Certificate(
        threshold_milli=None, reviewed=total, wrong=total - right, bound_ppm=lower_bound_ppm(right, total)
    )
    scores = (
        reviewed.group_by("score_milli")
        .agg(
            count=pl.len(),
            right=pl.col("right").sum(),
            resting=(~pl.col("proof")).sum(),
            resting_right=(~pl.col("proof") & pl.col("right")).sum(),
        )
        .sort("score_milli")
    )
    curve = curve_of(list(scores.select("score_milli", "count", "right").iter_rows()))
    found = nothing
    count = rights = resting = resting_rights = 0
    for score, its, its_right, its_resting, its_resting_right in scores.reverse().iter_rows():
        count, rights = count + its, rights + its_right
        resting, resting_rights = resting + its_resting, resting_rights + its_resting_right
        bound = lower_bound_ppm(rights, count)
        holds = bound >= PRECISION_PPM_MIN and lower_bound_ppm(resting_rights, resting) >= RESTING_PPM_MIN
        if holds and (share_at(curve, score) or 0) >= STEP_PPM_MIN:
            found = Certificate(threshold_milli=score, reviewed=count, wrong=count - rights, bound_ppm=bound)
    return found


def proved() -> pl.Expr:
    """Tell of level columns whether a reference proves the pair."""
    return (pl.col("reference_level") == ReferenceLevel.FULL.value) | (
        pl.col("end_to_end_level") == EndToEndLevel.EQUAL.value
    )


def acceptable(unique: pl.Expr) -> pl.Expr:
    """Tell of level columns whether a pair could be accepted without a person, were its score high enough.

    It needs a text that speaks for it, an equal amount, and that nothing else would fit. Who pays much too early or too
    late may well mean something else, unless he says what he pays. That a name was taught says nothing of whom else it
    means: a payment service, a factor or a bank pays for many, and the first of them has taught it.
    """
    text = (
        (pl.col("reference_level") >= ReferenceLevel.COMMON.value)
        | (pl.col("end_to_end_level") >= EndToEndLevel.EQUAL.value)
        | (pl.col("account_level") == PartyLevel.EQUAL.value)
        | pl.col("name_level").is_in(_NAMED)
    )
    timely = proved() | pl.col("date_level").is_in(_TIMELY)
    return unique & text & timely & pl.col("amount_level").is_in(_EQUAL)


def certified(rules: MatchingRules) -> pl.Expr:
    """Tell of scored pairs whether the tenant environment's decisions certify their score."""
    calibration = rules.calibration
    if calibration is None or calibration.threshold_milli is None:
        return pl.lit(value=False)
    let_in = bound(rules, lambda bounds: bounds.auto_accept_min_confidence == "high")
    return let_in & (pl.col("score_milli") >= calibration.threshold_milli)


def withheld(result: pl.DataFrame, pairs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Add ``sampled`` to the result: what would be accepted and waits for a person all the same, so it is not ``auto``.

    ``pairs`` are the first rows of the result with their places ``e`` and ``i``. Drawn of what both sides say of
    themselves, so that neither the order nor the time of a run decides. What is proved does not rest on a calibration,
    and without a certified threshold nothing does.
    """
    if rules.calibration is None or rules.calibration.threshold_milli is None:
        return result.with_columns(sampled=pl.lit(value=False))
    drawn = sides.expected["tie_key"].gather(pairs["e"]) * _MIXER + sides.incoming["tie_key"].gather(pairs["i"])
    # The upper bits, because a key's lowest bit has a meaning of its own.
    lot = (drawn // 2**20) % SAMPLED_ONE_IN
    resting = (pl.col("confidence") < Confidence.EXACT.value) & (pl.col("group_level") == GroupLevel.UNKNOWN.value)
    sampled = pl.col("auto") & resting & (pl.Series("lot", lot).extend_constant(1, result.height - pairs.height) == 0)
    return result.with_columns(sampled=sampled).with_columns(auto=pl.col("auto") & ~pl.col("sampled"))
