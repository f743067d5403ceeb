"""Limits of matches that a person states, each with its unit."""

from __future__ import annotations

from typing import Final

MATCH_LEGS_MAX: Final = 10_000
"""Legs of a match that a person states, and adjustments as many."""

MATCH_AMOUNT_MINOR_MAX: Final = 2**63 - 1
"""What the legs of a match come to in minor units, taken or settled: what a column holds. As many legs as there may be,
of the largest amount each, are more."""
