"""What a worked example of the page on matching is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A few rows of either side, as the interface takes them."""

    key: str
    """Names the place on the page."""
    expected: tuple[Row, ...]
    incoming: tuple[Row, ...]
    settings: Row = field(default_factory=dict)
    """Of matching, beside automatic acceptance from ``high``."""
    rates: tuple[tuple[str, str, str], ...] = ()
    """Exchange rates of 2026-03-10: base, quote and rate."""
    advices: tuple[Row, ...] = ()
    """Remittance advices, in euros."""
    uploaded: bool = False
    """Whether the lines come in files, one after the other, which is where duplicates are flagged."""


BOLT: Row = {"counterpartyName": "Bolt GmbH"}
IBAN: Row = {"counterpartyAccount": "DE89370400440532013000"}
