"""What a match takes of each of its transactions: its legs at both of their ends, and its adjustments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from payrec.domain.money import format_minor
from payrec.storage.allocations import Side

ENDS: Final = (("expected", "settled_minor"), ("incoming", "amount_minor"))
"""Either end of a leg, and what of it is taken there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a match takes of one transaction."""

    side: Side
    transaction_id: UUID
    minor: int
    """Of all legs and adjustments together."""
    end: str
    """The end at which it stands in ``leg``."""
    leg: Mapping[str, Any]
    """One of its legs."""

    @property
    def whole_minor(self) -> int:
        """What the transaction has in all."""
        return int(self.leg[f"{self.end}_minor"])

    @property
    def left_minor(self) -> int:
        """What is left of it now."""
        return int(self.leg[f"{self.end}_left_minor"])

    @property
    def allocated_minor(self) -> int:
        """What all matches have taken of it."""
        return int(self.leg[f"{self.end}_allocated_minor"])

    @property
    def currency(self) -> str:
        """Its currency."""
        return str(self.leg[f"{self.end}_currency"])

    @property
    def left(self) -> str:
        """What is left of it now, in words."""
        return f"{format_minor(self.left_minor, self.currency)} {self.currency}"

    @property
    def name(self) -> str:
        """Its side in words."""
        return self.side.name.lower()


def side_of(leg: Mapping[str, Any], end: str) -> Side:
    """Return the side of the transaction at an end of a leg; a contra transaction stands at the end of the other."""
    is_contra = bool(leg[f"{end}_contra"])
    return Side.EXPECTED if (end == "expected") != is_contra else Side.INCOMING


def taken_of(row: Mapping[str, Any]) -> list[Taken]:
    """Return what a stored match takes of each of its transactions, in the order of its legs."""
    minor: Counter[tuple[Side, UUID]] = Counter()
    found: dict[tuple[Side, UUID], tuple[str, Mapping[str, Any]]] = {}
    for leg in row["legs"]:
        for end, amount in ENDS:
            key = (side_of(leg, end), leg[f"{end}_id"])
            minor[key] += leg[amount]
            found.setdefault(key, (end, leg))
    for adjustment in row["adjustments"] or ():
        minor[Side[adjustment["side"].upper()], UUID(adjustment["id"])] += adjustment["minor"]
    return [
        Taken(side=side, transaction_id=transaction_id, minor=minor[side, transaction_id], end=end, leg=leg)
        for (side, transaction_id), (end, leg) in found.items()
    ]
