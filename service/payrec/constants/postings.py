"""Every limit of postings, each with its unit; ``payrec.constants`` has all others."""

from __future__ import annotations

from typing import Final

POSTINGS_PAGE_MAX: Final = 5_000
"""Postings of one page. Who takes all of them over asks less often than who looks at a list."""

POSTING_LINES_PAGE_MAX: Final = 50_000
"""Lines of all postings of a page, unless its first one has more."""

POSTING_PLACES_AT_ONCE: Final = 2_000
"""Places of the feed of events that one transaction looks at for what is to be posted."""

POSTING_LEGS_AT_ONCE: Final = 50_000
"""Legs of matches that one transaction posts, unless the first one has more."""

POSTING_STEPS_PER_TURN: Final = 20
"""Such transactions in a row; then events of the environment get their places before it goes on."""

POSTING_ACCOUNTS_MAX: Final = 1_000
"""Accounts with a code of their own in the settings."""

POSTING_ADJUSTMENTS_MAX: Final = 100
"""Types of adjustments with a code of their own in the settings."""

POSTING_CATEGORIES_MAX: Final = 1_000
"""Categories with a code of their own in the settings."""

SEQUENCE_MAX: Final = 2**63 - 1
"""The greatest number that a posting could have."""
