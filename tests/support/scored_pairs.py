"""Pairs of items and lines with what is said of how they are quoted, and how the engine scores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from payrec.domain.matching.columns import Sides, prepare
from payrec.domain.matching.ruled import with_rules
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.matching.score import scored
from support.matching_frames import Item, Line, expected_frame, incoming_frame, names_frame

RULES = MatchingRules()
ITEM, LINE = Item("e"), Line("i")


def sides_of(items: Sequence[Item], lines: Sequence[Line], rules: MatchingRules = RULES) -> Sides:
    names = names_frame([*items, *lines])
    return with_rules(prepare(expected_frame(items), incoming_frame(lines), names), rules)


def pairs_of(*ends: tuple[int, int], reference: int = 0, end_to_end: int = 0) -> pl.DataFrame:
    pairs = pl.DataFrame(ends, schema={"e": pl.UInt32, "i": pl.UInt32}, orient="row")
    quoted = {"reference": reference, "end_to_end": end_to_end}
    return pairs.with_columns(pl.lit(level, dtype=pl.Int8).alias(name) for name, level in quoted.items())


def score(item: Item = ITEM, line: Line = LINE, rules: MatchingRules = RULES, **quoted: int) -> dict[str, Any]:
    """Return what is said of one pair, quoted as is said."""
    [row] = scored(pairs_of((0, 0), **quoted), sides_of([item], [line], rules), rules).to_dicts()
    return row
