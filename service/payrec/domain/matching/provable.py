"""Which sets that nobody named may be accepted by their sum, and how far from chance it has to be."""

from __future__ import annotations

from typing import Final

from payrec.domain.matching.rules import GroupLevel

PROVABLE: Final = frozenset({GroupLevel.BY_EQUAL_PARTS})
"""Sets that may be accepted by their sum, though nobody named them. Runs are none: where one item is missing and the
next has its amount, they sum up as well."""

PROVED_PPM_MAX: Final = 1_000
"""Sets, in millionths, that were to be expected to have the amount by chance, where a set is proved by it."""
