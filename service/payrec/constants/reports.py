"""Limits of reports, each with its unit."""

from __future__ import annotations

from typing import Final

AGEING_BOUNDS_DAYS: Final = (1, 31, 61, 91)
"""Days since the due date with which each bucket of the ageing report begins; before the first nothing is due."""

REPORT_MEMORY_MIB: Final = 96
"""Memory for one step of a report's statement: a hash of a million allocations fits, and none goes to the disk."""

REPORT_SECONDS_MAX: Final = 60
"""How long the database may take for one step of adding up; beyond it the answer is 503, and nothing goes on."""

TIME_TO_MATCH_DAYS: Final = 30
"""Days whose incoming transactions tell the time to match, unless ``createdFrom`` says otherwise."""
