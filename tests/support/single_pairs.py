"""One item and one line in plain integers that fit each other, and what is otherwise in them."""

from __future__ import annotations

from dataclasses import replace

from payrec.domain.matching.pair import Item, Line

BASE_ITEM = Item(currency="EUR", direction=1, amount_minor=10_000, total_minor=10_000, due_day=20_600)
BASE_LINE = Line(currency="EUR", direction=1, amount_minor=10_000, total_minor=10_000, booking_day=20_600)
LONG, OTHER, SHORT = 11, 13, 12
"""Keys; those of short references are even."""


def of_item(**changes: object) -> Item:
    """Return the item but for what is changed."""
    return replace(BASE_ITEM, **changes)  # type: ignore[arg-type]


def of_line(**changes: object) -> Line:
    """Return the line but for what is changed."""
    return replace(BASE_LINE, **changes)  # type: ignore[arg-type]
