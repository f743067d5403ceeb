"""Pairs of items and lines with what is said of how they are quoted, and how the engine scores them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from payrec.domain.matching.block import with_code
from payrec.domain.matching.columns import Sides, prepare
from payrec.domain.matching.ruled import with_rules
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.matching.score import scored
from support.matching_frames import Item, Line, expected_frame, incoming_frame, names_frame

RULES = MatchingRules()
ITEM, LINE = Item("e"), Line("i")
ENDS = {"e": pl.UInt32, "i": pl.UInt32}

Ends = tuple[str, str]
"""The names of an item and of a line."""


def sides_of(items: Sequence[Item], lines: Sequence[Line], rules: MatchingRules = RULES) -> Sides:
    names = names_frame([*items, *lines])
    return with_rules(prepare(expected_frame(items), incoming_frame(lines), names), rules)


class NamedSides:
    """Both sides in content order, told by the names of items and lines instead of row numbers."""

    def __init__(self, items: Sequence[Item], lines: Sequence[Line], rules: MatchingRules = RULES) -> None:
        self.sides = sides_of(items, lines, rules)
        self.items = [items[at].id for at in self.sides.expected["ordinal"]]
        self.lines = [lines[at].id for at in self.sides.incoming["ordinal"]]

    def refused(self, rejected: Iterable[Ends]) -> pl.DataFrame:
        """Return the codes of rejected pairs."""
        ends = [(self.items.index(e), self.lines.index(i)) for e, i in rejected]
        return with_code(pl.DataFrame(ends, schema=ENDS, orient="row")).select("code")

    def ends(self, frame: pl.DataFrame) -> list[Ends]:
        """Return the names of the pairs of a frame."""
        return [(self.items[e], self.lines[i]) for e, i in frame.select("e", "i").iter_rows()]


def pairs_of(*ends: tuple[int, int], reference: int = 0, end_to_end: int = 0) -> pl.DataFrame:
    pairs = pl.DataFrame(ends, schema=ENDS, orient="row")
    quoted = {"reference": reference, "end_to_end": end_to_end}
    return pairs.with_columns(pl.lit(level, dtype=pl.Int8).alias(name) for name, level in quoted.items())


def score(item: Item = ITEM, line: Line = LINE, rules: MatchingRules = RULES, **quoted: int) -> dict[str, Any]:
    """Return what is said of one pair, quoted as is said."""
    [row] = scored(pairs_of((0, 0), **quoted), sides_of([item], [line], rules), rules).to_dicts()
    return row
