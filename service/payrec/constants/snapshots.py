"""Limits of snapshots, each with its unit."""

from __future__ import annotations

from typing import Final

CONTROL_TOTALS_MAX: Final = 200
"""Control totals of a snapshot, one for each of its currencies."""

CONTROL_TOTALS_LENGTH_MAX: Final = 64 * 1024
"""Characters of these as JSON."""

DIFFERENCES_SHOWN_MAX: Final = 100
"""Differences of a kind in a snapshot itself; all of them have a list."""
