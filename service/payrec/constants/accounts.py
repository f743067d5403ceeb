"""Limits of accounts, each with its unit."""

from __future__ import annotations

from typing import Final

BALANCE_MINOR_MAX: Final = 10**18 - 1
"""Minor units of a balance, either way: as many as a thousand of the largest amounts."""

STATEMENT_DUE_HOURS_MAX: Final = 744
"""Hours of business days after the end of a period in which its statement may come: a month of days."""

STATEMENT_DUE_HOURS_DEFAULT: Final = 24
"""The same hours where an account does not say."""

MISSED_PERIODS_MAX: Final = 31
"""Missing statements of an account that are told of, the latest ones: after a long silence the others say no more."""

ACCOUNTS_WATCHED_AT_ONCE: Final = 100
"""Accounts whose missing statements one transaction tells of."""

STATEMENTS_APART_MAX: Final = 1_000
"""Statements of an account that take no part in its chain and are looked at for a balance, those that came first."""

LOCK_SUMS_SECONDS: Final = 1.0
"""How long whoever locks a period goes on to the next account whose statement is added up at once.

Nobody decides meanwhile. Of the others it is added up when somebody asks, which takes ten times as long.
"""

INCOMPLETE_SHOWN_MAX: Final = 100
"""Of each kind, what is told of a period that is not complete."""

TIMELINE_DAYS: Final = 91
"""Days of which a timeline of statements is: 13 weeks."""

TIMELINE_STATEMENTS_MAX: Final = 400
"""Statements of an account in a timeline, those that close first: four a day."""
