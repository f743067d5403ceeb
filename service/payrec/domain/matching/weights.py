"""What each level of evidence weighs: the weights by hand, and what decisions have taught beside them.

A calibration is learned from the decisions of one tenant environment and holds there alone. It corrects the weights,
says how often proposals of a score were right, and may name a threshold that was certified.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

PRIOR_WEIGHT: Final = -6000
"""Log-odds, in thousandths, of two transactions about which nothing is known."""

WEIGHT_STEP: Final = 100
"""All weights are multiples of it, so that scores are few."""

_OF_GROUPS: Final = (
    0, 11000, 3000, 3000, 1000, 1000, 0, -1000, -2000, 0, 2000, 11000, 3000, 11000, -1000, -1000, 5000, 1000, 1000,
)  # fmt: skip

WEIGHTS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "reference": (0, -1500, 1000, 5000, 10000, 3000),
        "end_to_end": (0, -500, 11000, 5000),
        "amount": (0, 5000, 3500, 3500, -1500, -2000, 2500, 4500),
        "date": (0, 1500, 800, 0, -4000),
        "account": (0, -1500, 5000),
        "name": (0, -1500, 4000, 2000, 4100, 2000, 2000),
        "own_account": (0, -2500, 200),
        "line": (0, 0, -300, -6000, 0, 0, 0, 0, 0, 0, 0),
        "group": _OF_GROUPS,
    }
)
"""Thousandths of log-odds for each level, by feature. Multiples of 100."""


PRECISION_PPM_MIN: Final = 999_000
"""Millionths of what is accepted without a person that are right at the least. 2,703 decisions without an error are
the fewest that can say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was learned of the decisions of one tenant environment."""

    version: int
    """Counts from 1 in each tenant environment, and is told with every match that it had a part in."""
    corrections: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Thousandths of log-odds that are added to the weights of the levels, by feature; multiples of 100."""
    curve: tuple[tuple[int, int], ...] = ()
    """Least score and probability in millionths, both rising: how often proposals of at least the score were right."""
    threshold_milli: int | None = None
    """The certified score, from which on a proposal with text evidence needs no person; None when there is none."""
    reviewed: int = 0
    """Decisions at or above the threshold, or all of them when there is none."""
    wrong: int = 0
    """Of these, proposals that were rejected."""
    bound_ppm: int = 0
    """The one-sided 95 % lower bound of the share that was right, in millionths."""


def share_at(curve: Sequence[tuple[int, int]], score_milli: int) -> int | None:
    """Return how often proposals of a score were right, of a rising ``curve``; None below its beginning."""
    place = bisect_right(curve, score_milli, key=lambda point: point[0])
    return curve[place - 1][1] if place else None


def correction_of(feature: str, level: int, corrections: Mapping[str, Sequence[int]] | None) -> int:
    """Return what is added to the weight of a level."""
    found = (corrections or {}).get(feature, ())
    return found[level] if level < len(found) else 0


def weight_of(feature: str, level: int, corrections: Mapping[str, Sequence[int]] | None = None) -> int:
    """Return the weight of a level."""
    return WEIGHTS[feature][level] + correction_of(feature, level, corrections)


def weights_of(feature: str, calibration: Calibration | None = None) -> tuple[int, ...]:
    """Return the weights of a feature's levels, corrected where there is a calibration."""
    corrections = calibration.corrections if calibration is not None else None
    return tuple(weight_of(feature, level, corrections) for level in range(len(WEIGHTS[feature])))
