"""Limits of decisions that are imported, each with its unit."""

from __future__ import annotations

from typing import Final

CREATED_BY_IMPORT: Final = "import"
"""Who has made an imported match, as it says itself; the books have it already."""

IMPORTED_LEGS_MAX: Final = 500
"""Legs of one decision, and adjustments."""

IMPORTED_AT_ONCE: Final = 5_000
"""Decisions that are checked and stored together."""

IMPORTED_LEARNED_MAX: Final = 20_000
"""Decisions of one file that are learned of, the newest: several times what a certificate takes, and over soon."""

IMPORTED_LEARNED_LEGS_MAX: Final = 50_000
"""Legs of those: more of them have fewer decisions."""
