"""References that are nearly quoted: in part, or but for a digit, beside an equal amount.

What is compared are the numbers of ``payrec.domain.matching.digits``. That two of them come near each other is a hint
and no more: whoever numbers his invoices has many that differ by a digit, and so only those that ask for the very
amount of the line are looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from payrec.domain.matching.block import (
    AMOUNT_FACTOR,
    Candidates,
    amount_key,
    distinct,
    equal_pairs,
    in_full,
    number_key,
    unquoted,
)
from payrec.domain.matching.columns import PARTY_KEYS, Sides
from payrec.domain.matching.digits import DIGITS_MAX, comes_near
from payrec.domain.matching.rules import KEY_ITEMS_MAX, KEY_LINES_MAX, ReferenceLevel

_TAIL: Final = 1_000
_HEAD: Final = 10_000
"""What is changed in one place leaves either the last three digits as they are, or what stands before the last four."""

_IN_A_ROW: Final = 100
"""Less than what lies between two numbers that are not of one row, which only the last two digits tell apart."""

_KEYS: Final = ("row", "salt", "amount_minor")

Numbers = npt.NDArray[np.int64]

_POWERS: Final = np.array([10**place for place in range(DIGITS_MAX + 1)], dtype=np.int64)


def alike(asked: Numbers, quoted: Numbers) -> npt.NDArray[np.bool_]:
    """Tell of each two numbers what ``payrec.domain.matching.digits.is_alike`` does."""
    size, its = (np.searchsorted(_POWERS, numbers, side="right") - 1 for numbers in (asked, quoted))
    found: npt.NDArray[np.bool_] = comes_near(asked, quoted, size, its, int(size.max(initial=0)))
    return found


def _halves(digits: str, *heads: int) -> list[pl.Expr]:
    # What is left of the first digits is negative, so that it is never mistaken for the last ones.
    return [pl.col(digits) % _TAIL, *(-(pl.col(digits) // head) for head in heads)]


_ASKED: Final = _halves("reference_digits", _HEAD)
# A digit too much, one that is changed, one that is missing or cut off, two that are cut off.
_QUOTED: Final = _halves("quoted_digits", _HEAD * 10, _HEAD, _HEAD // 10, _HEAD // 100)


def halves_asked(items: pl.DataFrame) -> pl.DataFrame:
    """Return the items with a ``half`` of their reference, the items without one left out; each comes twice."""
    items = items.drop_nulls("reference_digits")
    return pl.concat([items.with_columns(half=half) for half in _ASKED])


def halves_quoted(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the lines with each ``half`` that the references may have which they nearly quote, and with the number."""
    said = _each_number(lines)
    return pl.concat([said.with_columns(half=half) for half in _QUOTED])


def _each_number(lines: pl.DataFrame) -> pl.DataFrame:
    return lines.explode("quoted_digits").drop_nulls("quoted_digits")


def _keyed(half: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return ``row`` and ``key``, the half and the amount in one."""
    factor = pl.lit(AMOUNT_FACTOR, dtype=pl.Int64)
    return pl.col("row"), ((amount_key() ^ (half * factor)) * factor + half).alias("key")


def near_pairs(items: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs ``e`` and ``i`` of equal amount of which the line nearly quotes the item's reference.

    The frames have ``row``, ``salt``, ``amount_minor`` and ``reference_digits`` or ``quoted_digits``.
    """
    numbers = _each_number(lines)
    of_items = pl.concat([items.drop_nulls("reference_digits").select(_keyed(half)) for half in _ASKED])
    # Nearly none is an item's: those of all lines together would be many times as many as there are lines.
    keys = of_items.select("key").unique()
    of_lines = pl.concat([numbers.select(_keyed(half)).join(keys, on="key", how="semi") for half in _QUOTED]).unique()
    found = equal_pairs(of_items, of_lines, items_max=KEY_ITEMS_MAX, lines_max=KEY_LINES_MAX).pairs.unique()
    both = (
        found.join(items.select(e="row", asked="reference_digits"), on="e")
        .join(lines.select(i="row", quoted="quoted_digits"), on="i")
        .explode("quoted")
    )
    near = pl.Series(alike(both["asked"].to_numpy(), both["quoted"].to_numpy()), dtype=pl.Boolean)
    return both.filter(near).select("e", "i").unique()


def with_near(found: Candidates, sides: Sides) -> Candidates:
    """Return the candidates with the pairs of which the line nearly quotes the item's reference.

    Of what is quoted in full with its amount nothing else is looked for, nor of a line that quotes what many have.
    """
    lines = sides.incoming.select(*_KEYS, "quoted_digits", "reversal")
    lines = lines.filter(~pl.col("reversal") & (pl.col("quoted_digits").list.len() > 0))
    if lines.is_empty() or sides.expected.is_empty():
        return found
    # Joined, because the lines of own money are not among these and rows are not their places.
    settled = (
        found.pairs.filter(in_full())
        .join(sides.expected.select("amount_minor", e="row"), on="e")
        .join(sides.incoming.select("amount_minor", i="row"), on=["i", "amount_minor"])
    )
    common = found.crowded.filter(pl.col("crowded_full") > 0)["i"]
    lines = lines.join(pl.concat([settled["i"], common]).to_frame("row"), on="row", how="anti")
    if lines.is_empty():
        return found
    items = sides.expected.select(*_KEYS, "reference_digits").join(settled.select(row="e"), on="row", how="anti")
    near = near_pairs(items, lines)
    if near.is_empty():
        return found
    # Whatever else is known of how the line quotes the item is more than this.
    quoted = found.pairs.filter(pl.col("reference") > 0)
    near = unquoted(near.join(quoted, on=["e", "i"], how="anti"))
    near = near.with_columns(reference=pl.lit(ReferenceLevel.NEAR.value, dtype=pl.Int8))
    pairs = distinct(pl.concat([found.pairs, near]))
    return replace(found, pairs=pairs, siblings=_siblings(near["e"], sides.expected))


def _siblings(nearly: pl.Series, items: pl.DataFrame) -> pl.Series:
    """Return those of the ``nearly`` quoted items beside which their counterparty has one that is called alike.

    Whoever quotes such a one in full nearly quotes the other, or they are numbered in a row: then there are more of
    them than are open, and a digit that is mistaken does not tell which of them is meant.
    """
    asked = items.select("row", "salt", *PARTY_KEYS, "reference_digits").drop_nulls("reference_digits")
    ours = asked.filter(pl.col("row").is_in(nearly.implode())).with_columns(quoted_digits="reference_digits")
    digits = asked.select("row", "reference_digits")
    found = []
    for name in PARTY_KEYS:
        its = asked.join(ours.select(name, "salt").drop_nulls().unique(), on=[name, "salt"], how="semi")
        of_items, of_ours = (
            pl.concat([rows.select("row", key=number_key(name, half)) for half in halves]).drop_nulls().unique()
            for rows, halves in ((its, _ASKED), (ours, _QUOTED))
        )
        joined = equal_pairs(of_items, of_ours, items_max=KEY_ITEMS_MAX, lines_max=KEY_LINES_MAX)
        others = joined.pairs.filter(pl.col("e") != pl.col("i")).unique()
        both = others.join(digits.rename({"row": "e"}), on="e").join(ours.select("quoted_digits", i="row"), on="i")
        one, other = both["reference_digits"].to_numpy(), both["quoted_digits"].to_numpy()
        near = alike(one, other) | (np.abs(one - other) < _IN_A_ROW)
        found += [both.filter(pl.Series(near, dtype=pl.Boolean))["i"], joined.crowded_lines]
    return pl.concat(found).unique()
