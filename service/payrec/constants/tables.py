"""Limits of what is told of tables."""

from __future__ import annotations

from typing import Final

CSV_BALANCE_GAPS_TOLD_MAX: Final = 100
"""Lines of one account that are told because the running balance does not follow there."""
