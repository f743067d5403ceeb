"""Money against money: two transactions of opposite directions that settle each other, and which of them are proposed.

What may be such a pair is said by ``transfers``, ``refunds`` and ``credit_notes``; here the pairs compete. A pair has
two ends: ``e`` is the row that brings money in, ``i`` the one that takes it out, both places in content order on one
side. Of pairs with an end in common the better proved one is meant, then the one with fewer days between its ends; what
not even the days decide is ambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import Final

import polars as pl

from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.compete import Taken, assign, probability, standing, strength
from payrec.domain.matching.ruled import bound, least
from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    NEAR_DAYS,
    REFUND_DAYS_MAX,
    Confidence,
    DateLevel,
    LineLevel,
    MatchingRules,
    MatchKind,
)
from payrec.domain.matching.score import LEVELS, RANK_PROOF, score_milli

RANK_NAMED: Final = 1
"""The two name each other, as far as either says whom it means."""

EDGE_SCHEMA: Final = {
    "e": pl.UInt32(),
    "i": pl.UInt32(),
    **dict.fromkeys(LEVELS, pl.Int8()),
    "score_milli": pl.Int32(),
    "gap": pl.Int64(),  # days between the two
    "rank": pl.Int8(),
    "pending": pl.Boolean(),
    "twin": pl.Boolean(),  # one of them has an equal
    "unbounded": pl.Boolean(),  # not everything that might be a rival was looked at
    "safe": pl.Boolean(),  # may be accepted without a person where the rules allow it
    "least": pl.Int8(),  # the least confidence with which they do
    "leg_minor": pl.Int64(),
    "difference_minor": pl.Int64(),  # what comes in less what goes out
}
"""Pairs that may be proposed."""

LEG_SCHEMA: Final = {
    "m": pl.UInt32(),
    "expected": pl.UInt32(),
    "incoming": pl.UInt32(),
    "contra_expected": pl.UInt32(),
    "contra_incoming": pl.UInt32(),
    "amount_minor": pl.Int64(),
}
"""Legs of the proposals ``m``; two of the rows are null."""

MATCH_SCHEMA: Final = {
    "m": pl.UInt32(),
    "kind": pl.Int8(),
    "size": pl.Int32(),
    "amount_minor": pl.Int64(),
    "score_milli": pl.Int32(),
    "probability_ppm": pl.Int32(),
    "confidence": pl.Int8(),
    "status": pl.Int8(),
    "auto": pl.Boolean(),
    "pending": pl.Boolean(),
    "difference_minor": pl.Int64(),
    "rivals_expected": pl.Int32(),
    "rivals_incoming": pl.Int32(),
    "tried": pl.Int32(),
    "named": pl.Int32(),
    "coincidences_ppm": pl.Int64(),
    **dict.fromkeys(LEVELS, pl.Int8()),
}
"""Proposals, as ``payrec.domain.matching.engine.Proposals`` tells of them."""

_GAP_FACTOR: Final = 1_000
assert _GAP_FACTOR > REFUND_DAYS_MAX


@dataclass(frozen=True, slots=True)
class Contra:
    """Proposals with contra legs, no row in two of them."""

    matches: pl.DataFrame
    legs: pl.DataFrame
    taken: Taken


@cache
def no_edges() -> pl.DataFrame:
    """Return no pairs."""
    return pl.DataFrame(schema=EDGE_SCHEMA)


def salted(lines: pl.DataFrame) -> pl.DataFrame:
    """Replace ``salt`` by one of the currency alone: the two ends have opposite directions."""
    currencies = lines["currency"].unique()
    salts = {
        text: int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True) for text in currencies
    }
    return lines.with_columns(salt=pl.col("currency").replace_strict(salts, return_dtype=pl.Int64, default=None))


def left_over(frame: pl.DataFrame, taken: pl.Series, columns: Sequence[str]) -> pl.DataFrame:
    """Return the columns of the rows of a side, in content order, that are not ``taken``."""
    free = pl.repeat(value=True, n=frame.height, dtype=pl.Boolean, eager=True)
    return frame.select(columns).filter(free.scatter(taken, False))  # noqa: FBT003 - the value that is written


def free(pairs: pl.DataFrame, taken: pl.Series) -> pl.DataFrame:
    """Return the pairs of which no end is ``taken``."""
    if pairs.is_empty():
        return pairs
    rows = taken.implode()
    return pairs.filter(~pl.col("e").is_in(rows) & ~pl.col("i").is_in(rows))


def proved_where_strict(pairs: pl.DataFrame, strict: pl.Series) -> pl.DataFrame:
    """Return the pairs without those that have an end among the ``strict`` rows, and no proof."""
    if pairs.is_empty() or strict.is_empty():
        return pairs
    rows = strict.implode()
    return pairs.filter((pl.col("rank") == RANK_PROOF) | ~(pl.col("e").is_in(rows) | pl.col("i").is_in(rows)))


def beside(pairs: pl.DataFrame, frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Put the columns of both ends beside each pair, as ``e_…`` and ``i_…``."""
    said = frame.select(columns)
    return pl.concat(
        [
            pairs.select("e", "i"),
            said[pairs["e"]].select(pl.all().name.prefix("e_")),
            said[pairs["i"]].select(pl.all().name.prefix("i_")),
        ],
        how="horizontal",
    )


def date_level() -> pl.Expr:
    """Return the ``DateLevel`` of ``gap``, the days between the two."""
    return (
        pl.when(pl.col("gap").is_null())
        .then(DateLevel.UNKNOWN.value)
        .when(pl.col("gap") <= NEAR_DAYS)
        .then(DateLevel.NEAR.value)
        .when(pl.col("gap") <= CLOSE_DAYS)
        .then(DateLevel.CLOSE.value)
        .otherwise(DateLevel.WITHIN.value)
    )


def line_level() -> pl.Expr:
    """Return the ``LineLevel`` of two lines with ``duplicate`` and ``pending`` said of either."""
    return (
        pl.when(pl.col("e_duplicate") | pl.col("i_duplicate"))
        .then(LineLevel.DUPLICATE.value)
        .when(pl.col("e_pending") | pl.col("i_pending"))
        .then(LineLevel.PENDING.value)
        .otherwise(LineLevel.BOOKED.value)
    )


def edges(pairs: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return the pairs in the columns of ``EDGE_SCHEMA``, scored; a feature that they do not have is silent.

    What rules allow depends on ``e_rule`` and ``i_rule``; items have none, and nothing of them is ``safe``.
    """
    ends = [bound(rules, least, column) for column in ("e_rule", "i_rule") if column in pairs.columns]
    silent = [pl.lit(0, dtype=pl.Int8).alias(level) for level in LEVELS if level not in pairs.columns]
    scored = pairs.with_columns(silent).with_columns(pl.col(level).cast(pl.Int8) for level in LEVELS)
    return shaped(
        scored.with_columns(
            score_milli=score_milli(rules),
            leg_minor=pl.min_horizontal("e_amount_minor", "i_amount_minor"),
            difference_minor=pl.col("e_amount_minor") - pl.col("i_amount_minor"),
            twin=pl.col("e_twin") | pl.col("i_twin"),
            least=pl.max_horizontal(ends or [bound(replace(rules, line_rules=()), least)]),
        ),
        EDGE_SCHEMA,
    ).sort("e", "i")


def _rivals() -> pl.Expr:
    """Count the other pairs of either end that are proved as well as this one."""
    result = pl.lit(0, dtype=pl.Int32)
    for rank in range(RANK_PROOF + 1):
        as_good = pl.col("rank") >= rank
        others = sum((as_good.sum().over(end).cast(pl.Int32) for end in ("e", "i")), start=pl.lit(-2, dtype=pl.Int32))
        result = pl.when(pl.col("rank") == rank).then(others).otherwise(result)
    return result


def _competed(found: pl.DataFrame) -> pl.DataFrame:
    """Add how many rivals there are, the probability, and which pairs are ``chosen`` and ``tied``."""
    found = found.with_columns(
        strength=strength(),
        others=(pl.len().over("e") + pl.len().over("i")).cast(pl.Int32) - 2,
        rivals=_rivals(),
    ).with_columns(
        total=pl.col("strength").sum().over("e") + pl.col("strength").sum().over("i") - pl.col("strength"),
        order=pl.col("score_milli").cast(pl.Int64) * _GAP_FACTOR - pl.col("gap").fill_null(0),
    )
    found = found.sort(["rank", "order", "e", "i"], descending=[True, True, False, False])
    places = found.select(pl.struct("rank", "order").rle_id().cast(pl.Int64)).to_series()
    none = [0] * found.height
    never = [False] * found.height
    chosen, tied = assign(
        found["e"].to_list(), found["i"].to_list(), (-places).to_list(), never, none, none, never
    )  # fmt: skip
    return found.with_columns(
        chosen=pl.Series(chosen, dtype=pl.Boolean),
        tied=pl.Series(tied, dtype=pl.Boolean) | pl.col("twin"),
        probability_ppm=probability(),
    ).sort("e", "i")


def decided(found: pl.DataFrame, kind: MatchKind) -> Contra:
    """Propose among the pairs (``EDGE_SCHEMA``); those of a credit note are items, all others lines."""
    of_items = kind is MatchKind.CREDIT_NOTE
    if found.is_empty():
        return together([])
    found = _competed(found)
    sure = (pl.col("rivals") == 0) & ~pl.col("unbounded")
    confidence = (
        pl.when("tied")
        .then(Confidence.LOW.value)
        .when(sure & (pl.col("rank") == RANK_PROOF))
        .then(Confidence.EXACT.value)
        .when(sure & (pl.col("rank") == RANK_NAMED))
        .then(Confidence.HIGH.value)
        .otherwise(Confidence.MEDIUM.value)
    )
    zero = pl.lit(0)
    matches = (
        found.filter("chosen")
        .with_row_index("m")
        .with_columns(
            status=standing(pl.col("tied"), unique=pl.col("rivals") == 0),
            confidence=confidence.cast(pl.Int8),
            kind=pl.lit(kind.value),
            size=pl.lit(1),
            tried=pl.lit(1),
            named=pl.lit(1),
            coincidences_ppm=None,
            amount_minor="leg_minor",
            rivals_expected=pl.col("others") if of_items else zero,
            rivals_incoming=zero if of_items else pl.col("others"),
        )
        .with_columns(auto=(pl.col("confidence") >= pl.col("least")) & pl.col("safe") & ~pl.col("pending"))
    )
    side = "expected" if of_items else "incoming"
    other = "incoming" if of_items else "expected"
    nobody = pl.lit(None, dtype=pl.UInt32)
    legs = matches.select(
        "m",
        "amount_minor",
        nobody.alias(other),
        nobody.alias(f"contra_{other}"),
        pl.col("e").alias(side),
        pl.col("i").alias(f"contra_{side}"),
    )
    rows, empty = pl.concat([matches["e"], matches["i"].alias("e")]), pl.Series(dtype=pl.UInt32)
    return Contra(
        shaped(matches, MATCH_SCHEMA),
        shaped(legs, LEG_SCHEMA),
        Taken(rows, empty) if of_items else Taken(empty, rows),
    )


_NOTHING: Final = Contra(
    pl.DataFrame(schema=MATCH_SCHEMA),
    pl.DataFrame(schema=LEG_SCHEMA),
    Taken(pl.Series(dtype=pl.UInt32), pl.Series(dtype=pl.UInt32)),
)


def together(found: Sequence[Contra]) -> Contra:
    """Put what all ways of looking have found into one, numbered through; no row may be in two."""
    found = [way for way in found if not way.matches.is_empty()]
    if not found:
        return _NOTHING
    empty = pl.Series(dtype=pl.UInt32)
    matches, legs, count = [pl.DataFrame(schema=MATCH_SCHEMA)], [pl.DataFrame(schema=LEG_SCHEMA)], 0
    for way in found:
        shift = (pl.col("m") + count).cast(pl.UInt32)
        matches.append(way.matches.with_columns(shift))
        legs.append(way.legs.with_columns(shift))
        count += way.matches.height
    items = pl.concat([empty, *(way.taken.items for way in found)])
    lines = pl.concat([empty, *(way.taken.lines for way in found)])
    return Contra(pl.concat(matches), pl.concat(legs), Taken(items, lines))


def appended(
    matches: pl.DataFrame, legs: pl.DataFrame, contra: Contra, sides: Sides
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return all proposals and their legs, those of money against money last, with the caller's ordinals.

    ``legs`` have their ordinals already, and of contra ones those of items alone.
    """
    ordinals = {"expected": sides.expected["ordinal"], "incoming": sides.incoming["ordinal"]}
    ends = [(f"{prefix}{name}", found) for prefix in ("", "contra_") for name, found in ordinals.items()]
    nobody = pl.lit(None, dtype=pl.Int32)
    plain = legs.select(
        "proposal",
        *(pl.col(name) if name in legs.columns else nobody.alias(name) for name, _ in ends),
        "amount_minor",
        "settled_minor",
    )
    if contra.legs.is_empty():
        return matches, plain
    more = contra.legs.select(
        (pl.col("m") + matches.height).cast(pl.UInt32).alias("proposal"),
        *(found.gather(contra.legs[name]).alias(name) for name, found in ends),
        "amount_minor",
        settled_minor="amount_minor",
    )
    return pl.concat([matches, shaped(contra.matches, matches.schema)]), pl.concat([plain, more])
