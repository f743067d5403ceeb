"""Limits of terms of payment and of remittance advices, each with its unit."""

from __future__ import annotations

from typing import Final

PAYMENT_TERMS_MAX: Final = 5
"""Terms of an expected transaction."""

ADVICE_LINES_MAX: Final = 10_000
"""Lines of a remittance advice: as many as a match has legs."""

ADVICE_LINES_READ_MAX: Final = 500_000
"""Lines of advices that a run looks at, those of the newest: whoever sends thousands of one amount fills no memory."""
