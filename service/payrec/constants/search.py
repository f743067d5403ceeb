"""Limits of the search over everything, each with its unit."""

from __future__ import annotations

from typing import Final

SEARCH_RESULTS_MAX: Final = 20
"""Results of one kind on one page."""

SEARCH_ROWS_MAX: Final = 100_000
"""Rows of one kind that are looked through for a text, the newest first; the page after goes on with older ones."""

SEARCH_SECONDS_MAX: Final = 3
"""How long the database may look for results of one kind; beyond it they are left out, and that is told."""
