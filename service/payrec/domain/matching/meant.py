"""Which name of an item a line means that does not have that very name: one alike, or one that it tells beside."""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.keys import NAME_WORDS_MAX
from payrec.domain.matching.rules import NameLevel

_LINES_AT_ONCE: Final = 50_000
"""Lines whose texts are looked at together."""


def learned() -> pl.Expr:
    """Tell of the levels whether the line's name means the item's by what decisions have taught.

    Who has paid for one may pay for others: that is a reason to propose, and makes no doubtful reference a sure one.
    """
    return pl.col("name_level") == NameLevel.ALIAS.value


def names_another() -> pl.Expr:
    """Tell of both sides of pairs whether the text of a line without a name names somebody else than the item's.

    It may be what he writes to somebody, so it contradicts nothing by itself.
    """
    other = (pl.col("i_meant") == NameLevel.TEXT.value) & (pl.col("i_similar_key") != pl.col("e_name_key"))
    return other.fill_null(value=False)


def called(lines: pl.DataFrame) -> list[pl.Series]:
    """Return all keys of names by which lines may call an item's counterparty, some of them null or 0."""
    return [lines[name].alias("key") for name in ("name_key", "ultimate_name_key")] + [
        lines["text_name_keys"].drop_nulls().explode().alias("key")
    ]


def meant(lines: pl.DataFrame, similar: pl.DataFrame, of_items: pl.Series) -> pl.DataFrame:
    """Add to lines whom they mean.

    ``similar_key`` (Int64) is the key of the items' name, null where items have the line's own name or none is meant;
    ``meant`` (Int8) the NameLevel that it has then: SIMILAR or ALIAS by the line's own name, ULTIMATE by the one on
    whose behalf is paid, which says more, TEXT by the text of a line that has no name.

    ``lines`` are in content order, ``similar`` is what ``payrec.domain.matching.names.resolved`` returns, ``of_items``
    are the keys of the names of all items.
    """
    own = {"similar_key": pl.lit(None, dtype=pl.Int64), "meant": pl.lit(NameLevel.SIMILAR.value, dtype=pl.Int8)}
    if not similar.is_empty():
        own["similar_key"] = pl.col("name_key").replace_strict(
            similar["key"], similar["similar_key"], default=None, return_dtype=pl.Int64
        )
    taught = similar.filter(pl.col("name_level") == NameLevel.ALIAS.value)["key"]
    if not taught.is_empty():
        by_alias = pl.col("name_key").is_in(taught.implode()).fill_null(value=False)
        own["meant"] = pl.when(by_alias).then(pl.lit(NameLevel.ALIAS.value, dtype=pl.Int8)).otherwise(own["meant"])
    lines = lines.with_columns(**own)
    behalf = lines["ultimate_name_key"]
    says_names = lines["text_name_keys"].null_count() < lines.height
    tells_behalf = behalf.null_count() < lines.height
    if not says_names and not tells_behalf:
        return lines
    known = of_items.drop_nulls().unique()
    if says_names:
        named = _named(lines, known)
        lines = _meaning(lines, named["row"], named["key"], NameLevel.TEXT)
    if tells_behalf:
        of_line = behalf.is_in(known.implode()) & behalf.ne_missing(lines["name_key"])
        lines = _meaning(lines, lines["row"].filter(of_line), behalf.filter(of_line), NameLevel.ULTIMATE)
    return lines


def _meaning(lines: pl.DataFrame, rows: pl.Series, keys: pl.Series, level: NameLevel) -> pl.DataFrame:
    """Return the lines, of which these ``rows`` mean these ``keys``."""
    return lines.with_columns(
        similar_key=lines["similar_key"].scatter(rows, keys),
        meant=lines["meant"].scatter(rows, level.value),
    )


def _named(lines: pl.DataFrame, known: pl.Series) -> pl.DataFrame:
    """Return ``row`` and ``key`` of lines without a name whose text has one that is known.

    A name may be part of a longer one. Who names two in different places means neither for sure.
    """
    texts = lines.select("row", key="text_name_keys").drop_nulls("key")
    place = pl.int_ranges(pl.col("key").list.len(), dtype=pl.UInt32)
    # A million lines have nearly fifty million keys, of which next to none is a name's.
    there = [
        some.with_columns(place=place).explode("key", "place").filter(pl.col("key").is_in(known.implode()))
        for some in texts.iter_slices(_LINES_AT_ONCE)
    ]
    found = (
        pl.concat(there)
        .group_by("row", "key")
        .agg(pl.col("place").min())
        .select("row", "key", begin=pl.col("place") // NAME_WORDS_MAX, words=pl.col("place") % NAME_WORDS_MAX + 1)
        .with_columns(end=pl.col("begin") + pl.col("words"))
    )
    longest = found.filter(pl.col("words") == pl.col("words").max().over("row"))
    around = longest.select("row", first="begin", last="end").unique("row", keep="any")
    beside = found.join(around, on="row").filter((pl.col("begin") < pl.col("first")) | (pl.col("end") > pl.col("last")))
    return longest.join(beside, on="row", how="anti").select("row", "key")
