"""References of a counterparty that a line quotes in a list, by their digits alone or by the last of them.

Who pays several often writes what is the same of them once (``RE-2026-00141, 142/43``), or leaves the letters out. The
numbers of such a text are those of ``payrec.domain.matching.digits.series_digits``. They prove nothing, because another
number beside them may be meant as well: as with a short reference only items of one counterparty count, the line's own
or that of an item that it quotes in full.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from payrec.domain.matching.block import PARTY_KEYS, Candidates, distinct, equal_pairs, in_full, number_key, unquoted
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.rules import KEY_ITEMS_MAX, KEY_LINES_MAX, ReferenceLevel


def with_series(found: Candidates, sides: Sides) -> Candidates:
    """Return the candidates with the pairs of one counterparty of which the line has the item's digits in a list.

    What it quotes in full stays so.
    """
    items = sides.expected.drop_nulls("reference_digits")
    lines = sides.incoming.drop_nulls("series_digits").filter(~pl.col("reversal"))
    # Nearly no number of a text is a reference: those of all lines together would be many times as many as there are.
    asked = items.select(series_digits="reference_digits").unique()
    numbers = lines.select("row", "salt", "series_digits").explode("series_digits")
    numbers = numbers.join(asked, on="series_digits", how="semi")
    if numbers.is_empty():
        return found
    pairs = [
        equal_pairs(
            _keyed(items.select("row", "salt", digits="reference_digits", party=name)),
            _keyed(numbers.rename({"series_digits": "digits"}).join(parties, on="row")),
            items_max=KEY_ITEMS_MAX,
            lines_max=KEY_LINES_MAX,
        ).pairs
        for name, parties in _parties(lines, found, sides).items()
    ]
    listed = pl.concat(pairs).unique()
    if listed.is_empty():
        return found
    listed = unquoted(listed).with_columns(reference=pl.lit(ReferenceLevel.PARTIAL.value, dtype=pl.Int8))
    return replace(found, pairs=distinct(pl.concat([found.pairs, listed])))


def _parties(lines: pl.DataFrame, found: Candidates, sides: Sides) -> dict[str, pl.DataFrame]:
    """Return ``row`` and ``party``, by which key: lines' counterparties, and those of what they quote in full."""
    quoted = found.pairs.filter(in_full()).join(lines.select(i="row"), on="i", how="semi")
    of_items = quoted.select("e", row="i").join(sides.expected.select("account_key", "name_key", e="row"), on="e")
    named: dict[str, list[pl.DataFrame]] = {}
    for name, its_name in PARTY_KEYS:
        whose = named.setdefault(name, [of_items.select("row", party=name)])
        whose.append(lines.select("row", party=its_name))
    return {name: pl.concat(parties).drop_nulls().unique() for name, parties in named.items()}


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ``row`` and ``key``, the counterparty and the number in one."""
    return rows.drop_nulls("party").select("row", key=number_key("party", pl.col("digits")))
