"""Limits of what workers do by the clock, each with its unit."""

from __future__ import annotations

from typing import Final

# Retention ------------------------------------------------------------------------------------------------------

FILES_DROPPED_AT_ONCE: Final = 20
"""Files over their retention that are deleted in one transaction."""

EXPORTS_DROPPED_AT_ONCE: Final = 20
"""Expired exports that one transaction deletes."""

DIFFERENCES_DROPPED_AT_ONCE: Final = 10_000
"""Differences of snapshots that one transaction deletes."""

STATES_DROPPED_AT_ONCE: Final = 1_000
"""States of each kind that one transaction deletes."""

AUDIT_RECORDS_DROPPED_AT_ONCE: Final = 10_000
"""Audit records that one transaction deletes."""

IDEMPOTENCY_KEYS_DROPPED_AT_ONCE: Final = 5_000
"""Stored answers over their time that one transaction deletes."""

# Audit ----------------------------------------------------------------------------------------------------------

AUDIT_CHANGES_SEALED_AT_ONCE: Final = 2_000
"""Changes whose records get into one seal."""

AUDIT_RECORDS_READ: Final = 5_000
"""Records that are in memory while they are sealed."""

AUDIT_SEALS_READ: Final = 1_000
"""Seals that are read at a time when they are verified."""

AUDIT_BREAKS_NAMED_MAX: Final = 100
"""Breaks of a chain that are named; all of them are counted."""

# Metrics --------------------------------------------------------------------------------------------------------

MEASURED_ANEW_SECONDS: Final = 5.0
"""How long what a process has measured of the shared queues is good enough for the next scrape."""

MEASURING_SECONDS_MAX: Final = 2.0
"""How long that may take; a scrape is not to wait for a database that does not answer."""

CENSUS_KEPT_SECONDS: Final = 900.0
"""How long a worker shows what it has counted in all environments; two further counts are due by then."""

OPEN_AGES: Final = {"not-due": None, "0-7d": 0, "8-30d": 8, "31-90d": 31, "over-90d": 91}
"""Ages by which open amounts are added up, ascending, and the days since the due or booking day with which each
begins. What is not due yet comes before all of them."""

OPEN_CURRENCIES_MAX: Final = 12
"""Currencies whose open amounts are shown: those with the most open transactions. Every one is a label, and there are
some 160."""

RECENT_DAYS: Final = 30
"""Transactions of so many days are what the share of those that are matched is told of."""
