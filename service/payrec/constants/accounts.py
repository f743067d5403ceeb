"""Limits of accounts, each with its unit."""

from __future__ import annotations

from typing import Final

BALANCE_MINOR_MAX: Final = 10**18 - 1
"""Minor units of a balance, either way: as many as a thousand of the largest amounts."""

STATEMENT_DUE_HOURS_MAX: Final = 744
"""Hours after the end of a period in which its statement may come: a month."""

STATEMENTS_APART_MAX: Final = 1_000
"""Statements of an account that take no part in its chain and are looked at for a balance, those that came first."""
