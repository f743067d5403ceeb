"""Limits of matches that a person states, each with its unit."""

from __future__ import annotations

from typing import Final

MATCH_LEGS_MAX: Final = 10_000
"""Legs of a match that a person states, and adjustments as many."""
