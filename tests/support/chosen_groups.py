"""Which groups a choice proposes, by the names of items and lines instead of row numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from payrec.domain.matching.group_choice import MATCH_COLUMNS, Chosen
from payrec.domain.matching.reasons import FINDING_SCHEMA
from payrec.domain.matching.rules import Confidence, GroupLevel, Side, Uniqueness
from support.scored_pairs import Ends, NamedSides

Sure = tuple[Confidence, Uniqueness, bool]
"""How sure a group is, and whether it is accepted at once."""


def places(side: list[str], names: Iterable[str]) -> pl.Series:
    """Return the row numbers of these names."""
    wanted = set(names)
    return pl.Series([at for at, name in enumerate(side) if name in wanted], dtype=pl.UInt32)


class ChosenGroups(NamedSides):
    """What is chosen of both sides; whoever derives from it chooses when it is made."""

    chosen: Chosen

    def keep(self, chosen: Chosen) -> None:
        assert chosen.findings.schema == FINDING_SCHEMA
        self.chosen = chosen

    def groups(self) -> dict[str, dict[str, Any]]:
        """Return what is said of each group, by the names of its items and its lines."""
        if self.chosen.matches.is_empty():
            return {}
        assert tuple(self.chosen.matches.columns) == MATCH_COLUMNS
        told = {}
        for row in self.chosen.matches.to_dicts():
            legs = self.chosen.legs.filter(g=row["g"])
            items = {self.items[e] for end in {"e", "c"} & {*legs.columns} for e in legs[end].drop_nulls()}
            lines = {self.lines[i] for i in legs["i"].drop_nulls()}
            told[" ".join([*sorted(items), "by", *sorted(lines)])] = row
        return told

    def sure(self) -> dict[str, tuple[GroupLevel, Sure]]:
        """Return what holds each group together, and how sure it is."""
        return {
            name: (
                GroupLevel(row["group_level"]),
                (Confidence(row["confidence"]), Uniqueness(row["status"]), row["auto"]),
            )
            for name, row in self.groups().items()
        }

    def rivals(self) -> list[tuple[Side, Ends]]:
        rows = self.chosen.alternatives
        return [(Side(side), ends) for side, ends in zip(rows["side"], self.ends(rows), strict=True)]
