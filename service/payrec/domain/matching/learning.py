"""What a tenant environment's decisions teach: corrections of the weights, and how often a score was right.

The weights by hand stay what they are; decisions only add to them, and the less the fewer decisions there are
(logistic regression with a penalty on the square of every correction; no expectation maximisation, which finds clusters
and not matches). Decisions are counted by what they say before anything is computed, so neither
their order nor their ids can change a bit of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import polars as pl

from payrec.domain.matching.certificate import Certificate, acceptable, certify, curve_of, proved
from payrec.domain.matching.rules import (
    FEATURES,
    GroupLevel,
    LineLevel,
    Uniqueness,
)
from payrec.domain.matching.score import LEVELS
from payrec.domain.matching.weights import PRIOR_WEIGHT, WEIGHT_STEP, WEIGHTS, Calibration

DECISIONS_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        **{level: pl.Int8() for level in LEVELS},
        "status": pl.Int8(),  # Uniqueness
        "rival_milli": pl.Int32(),  # the score of the best that would have fitted as well, or null
        "right": pl.Boolean(),  # accepted, not rejected
        "fold_key": pl.Int64(),  # of the content of both sides
    }
)
"""Decisions on proposals of one item and one line."""

DECISIONS_MIN: Final = 200
"""Decisions without which nothing is learned."""

FOLDS: Final = 5
"""Parts of the decisions. Each is scored with what the others teach, so that no decision vouches for itself."""

PENALTY: Final = 20.0
"""Of a correction's square. About as many decisions have to speak for a correction before it shows."""

STEPS: Final = 30
"""Of Newton's method; it has settled long before."""

CORRECTION_MILLI_MAX: Final = 2_000
"""Thousandths of log-odds by which a weight may be corrected."""

_LEARNED: Final = tuple(feature for feature in FEATURES if feature not in {"group", "line"})
"""What a pair has; the others say what may be accepted at all, and are no matter of taste."""

Corrections = Mapping[str, tuple[int, ...]]


def learn(decisions: pl.DataFrame, *, version: int) -> Calibration | None:
    """Return what the decisions teach, None when they are too few."""
    pairs = decisions.filter(_telling())
    if pairs.height < DECISIONS_MIN:
        return None
    corrections = _corrections(pairs)
    reviewed = _held_out(pairs)
    scores = (
        reviewed.group_by("score_milli")
        .agg(count=pl.len(), right=pl.col("right").sum())
        .sort("score_milli")
        .iter_rows()
    )
    certificate = certify(reviewed)
    return Calibration(
        version=version,
        corrections=corrections,
        curve=curve_of(list(scores)),
        threshold_milli=_threshold(pairs, corrections, certificate),
        reviewed=certificate.reviewed,
        wrong=certificate.wrong,
        bound_ppm=certificate.bound_ppm,
    )


def counts_of(decisions: pl.DataFrame) -> dict[str, list[tuple[int, int]]]:
    """Return how many decisions that teach had each level of a feature, and how many of them were right."""
    pairs = decisions.filter(_telling())
    found = {feature: [(0, 0)] * len(WEIGHTS[feature]) for feature in _LEARNED}
    for feature, levels in found.items():
        its = pairs.group_by(f"{feature}_level").agg(count=pl.len(), right=pl.col("right").sum())
        for level, count, right in its.iter_rows():
            levels[level] = (count, right)
    return found


def wrong_of(counts: Mapping[str, Sequence[Sequence[int]]]) -> int:
    """Return how many of the decisions that ``counts_of`` has counted were wrong; each has one level of a feature."""
    of_one_feature = next(iter(counts.values()), ())
    return sum(count - right for count, right in of_one_feature)


def _telling() -> pl.Expr:
    """Tell which decisions teach: what only content could decide between teaches nothing about content."""
    return (pl.col("group_level") == GroupLevel.UNKNOWN.value) & (pl.col("status") != Uniqueness.AMBIGUOUS.value)


def _may_be_accepted() -> pl.Expr:
    booked = pl.col("line_level") == LineLevel.BOOKED.value
    return booked & acceptable(pl.col("status") == Uniqueness.UNIQUE.value)


def _threshold(pairs: pl.DataFrame, corrections: Corrections, certificate: Certificate) -> int | None:
    """Return the threshold on the scale of all decisions: the lowest that lets in no more than were certified."""
    if certificate.threshold_milli is None:
        return None
    scores = (
        pairs.filter(_may_be_accepted())
        .group_by(score_milli=_score(corrections))
        .agg(count=pl.len())
        .sort("score_milli", descending=True)
        .filter(pl.col("count").cum_sum() <= certificate.reviewed)
    )
    return None if scores.is_empty() else int(scores["score_milli"][-1])


def _held_out(pairs: pl.DataFrame) -> pl.DataFrame:
    """Score what could be accepted at all, each part of it with what the other parts teach."""
    fold = (pl.col("fold_key") // 2**20) % FOLDS
    found = []
    for part in range(FOLDS):
        own = pairs.filter((fold == part) & _may_be_accepted())
        if not own.is_empty():
            corrections = _corrections(pairs.filter(fold != part))
            found.append(own.select("right", score_milli=_score(corrections), proof=proved()))
    empty = pl.DataFrame(schema={"right": pl.Boolean(), "score_milli": pl.Int32(), "proof": pl.Boolean()})
    return pl.concat([empty, *found])


def _score(corrections: Corrections) -> pl.Expr:
    weights = []
    for feature in FEATURES:
        own = corrections.get(feature, (0,) * len(WEIGHTS[feature]))
        table = [weight + more for weight, more in zip(WEIGHTS[feature], own, strict=True)]
        weights.append(pl.lit(pl.Series(table, dtype=pl.Int32)).gather(pl.col(f"{feature}_level")))
    return (pl.sum_horizontal(weights) + PRIOR_WEIGHT).cast(pl.Int32)


def _corrections(pairs: pl.DataFrame) -> Corrections:
    """Fit the corrections. A rival's score stands for all that would have fitted as well, as "no match" does."""
    names = [f"{feature}_level" for feature in _LEARNED]
    margin = _score({}) - pl.max_horizontal(pl.col("rival_milli").fill_null(0), 0)
    counted = (
        pairs.select(*names, "right", margin=margin)
        .group_by(*names, "margin")
        .agg(count=pl.len(), right=pl.col("right").sum())
        .sort(*names, "margin")
    )
    columns, places = [np.ones(counted.height)], []
    for feature in _LEARNED:
        levels = counted[f"{feature}_level"].to_numpy()
        # Where a side is silent, there is nothing to weigh.
        for level in range(1, len(WEIGHTS[feature])):
            columns.append((levels == level).astype(np.float64))
            places.append((feature, level))
    fitted = _fit(
        np.stack(columns, axis=1),
        counted["margin"].to_numpy() / 1000,
        counted["count"].to_numpy().astype(np.float64),
        counted["right"].to_numpy().astype(np.float64),
    )
    found = {feature: [0] * len(WEIGHTS[feature]) for feature in _LEARNED}
    for (feature, level), value in zip(places, fitted[1:], strict=True):
        milli = round(float(value) * 1000 / WEIGHT_STEP) * WEIGHT_STEP
        found[feature][level] = max(-CORRECTION_MILLI_MAX, min(CORRECTION_MILLI_MAX, milli))
    return {feature: tuple(levels) for feature, levels in found.items()}


def _fit(features: Any, margin: Any, count: Any, right: Any) -> Any:
    """Return the coefficients of a logistic regression beside a given margin, penalised but for the first."""
    penalty = np.full(features.shape[1], PENALTY)
    penalty[0] = 1.0
    found = np.zeros(features.shape[1])
    for _ in range(STEPS):
        odds = np.clip(margin + features @ found, -30.0, 30.0)
        share = 1.0 / (1.0 + np.exp(-odds))
        slope = features.T @ (right - count * share) - penalty * found
        curvature = (features * (count * share * (1.0 - share))[:, None]).T @ features + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        found = found + np.clip(step, -1.0, 1.0)
    return found
