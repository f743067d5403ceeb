"""Limits of erasures, each with its unit."""

from __future__ import annotations

from typing import Final

ERASED_TRANSACTIONS_MAX: Final = 100_000
"""Transactions of each side that one erasure may be about, those that have to stay included."""

ERASURE_BYTES_AT_ONCE: Final = 64 * 1024 * 1024
"""Bytes of the tables with most texts that are looked through within the request; where there are more, by a job."""

ERASURE_ROWS_READ: Final = 2_000
"""Rows that are in memory while they are looked through."""
