"""References of a counterparty that a line quotes in a list, by their digits alone or by the last of them.

Who pays several often writes what is the same of them once (``RE-2026-00141, 142/43``), or leaves the letters out. The
numbers of such a text are those of ``payrec.domain.matching.digits.series_digits``. They prove nothing, because another
number beside them may be meant as well; so only items of the line's counterparty count, as a short reference does.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from payrec.domain.matching.block import AMOUNT_FACTOR, PARTY_KEYS, Candidates, distinct, equal_pairs
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.rules import KEY_ITEMS_MAX, KEY_LINES_MAX, ReferenceLevel


def with_series(found: Candidates, sides: Sides) -> Candidates:
    """Return the candidates with the pairs of one counterparty of which the line has the item's digits in a list.

    What it quotes in full stays so.
    """
    items = sides.expected.drop_nulls("reference_digits")
    lines = sides.incoming.drop_nulls("series_digits").filter(~pl.col("reversal"))
    if items.is_empty() or lines.is_empty():
        return found
    # Nearly no number of a text is a reference: those of all lines together would be many times as many as there are.
    asked = items.select(series_digits="reference_digits").unique()
    parties = [its_name for _, its_name in PARTY_KEYS]
    numbers = lines.select("row", "salt", "series_digits", *parties).explode("series_digits")
    numbers = numbers.join(asked, on="series_digits", how="semi")
    pairs = [
        equal_pairs(
            _keyed(items, name, "reference_digits"),
            _keyed(numbers, its_name, "series_digits"),
            items_max=KEY_ITEMS_MAX,
            lines_max=KEY_LINES_MAX,
        ).pairs
        for name, its_name in PARTY_KEYS
    ]
    listed = pl.concat(pairs).unique()
    if listed.is_empty():
        return found
    listed = listed.with_columns(
        reference=pl.lit(ReferenceLevel.PARTIAL.value, dtype=pl.Int8), end_to_end=pl.lit(0, dtype=pl.Int8)
    )
    return replace(found, pairs=distinct(pl.concat([found.pairs, listed])))


def _keyed(rows: pl.DataFrame, party: str, digits: str) -> pl.DataFrame:
    """Return ``row`` and ``key``, the counterparty and the number in one."""
    factor = pl.lit(AMOUNT_FACTOR, dtype=pl.Int64)
    return rows.drop_nulls(party).select("row", key=(pl.col(party) ^ pl.col("salt")) * factor + pl.col(digits))
