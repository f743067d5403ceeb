"""Which pairs are looked at at all: equality joins on keys, the crowded keys dropped before joining.

A key that sits on too many open items ("RENT") would join everything with everything and tell nothing. It is dropped,
but not forgotten: whoever carries a dropped key is reported, because "nobody else fits" cannot be said of it any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from payrec.domain.matching.columns import Sides
from payrec.domain.matching.emptiness import of_none, once
from payrec.domain.matching.ruled import bound
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    KEY_LINES_MAX,
    LINE_CANDIDATES_MAX,
    PAIRS_MIN,
    EndToEndLevel,
    MatchingRules,
    ReferenceLevel,
)

AMOUNT_FACTOR: Final = 0x9E3779B97F4A7C15 - 2**64
"""Odd, so that wrapping multiplication keeps amounts apart (the golden ratio of 64 bits, Knuth TAOCP 6.4)."""

PARTY_KEYS: Final = (("account_key", "account_key"), ("name_key", "name_key"), ("name_key", "similar_key"))
"""The columns of items and of lines that name the same counterparty when they are equal."""

LINE_KEYS: Final = ("account_key", "name_key", "similar_key")
"""Those of the lines among them, each once."""

_HITS: Final = {"row": pl.UInt32, "key": pl.Int64, "items": pl.UInt32}
_NOBODY: Final = pl.Series(dtype=pl.UInt32)
_NO_KEYS: Final = pl.DataFrame(schema={"row": pl.UInt32, "key": pl.Int64})


@dataclass(frozen=True, slots=True)
class Candidates:
    """The pairs, and where something was left out. All row numbers are UInt32 places in content order."""

    pairs: pl.DataFrame
    """``e``, ``i``, ``reference`` and ``end_to_end`` (Int8 levels as far as quoting goes, else 0); sorted, unique."""
    crowded: pl.DataFrame
    """``i``, ``crowded`` and ``crowded_full``: how many dropped references the line quotes, and how many in full."""
    alike_items: pl.Series
    """Items whose counterparty-and-amount key was dropped."""
    alike_lines: pl.Series
    """Lines whose counterparty-and-amount key was dropped."""
    capped_items: pl.Series
    capped_lines: pl.Series
    """Items and lines that name more than the budget allows to look at."""
    repeated: pl.Series
    """Items beside which the same counterparty, by name or by account, has others of the same amount."""
    siblings: pl.Series
    """Of those that a line nearly quotes, items beside which the same counterparty has others that are called alike."""


@dataclass(frozen=True, slots=True)
class Equal:
    """What an equality join found and left out."""

    pairs: pl.DataFrame
    crowded_items: pl.Series
    crowded_lines: pl.Series
    capped_items: pl.Series
    capped_lines: pl.Series
    """Of the crowded rows, those whose key was dropped for nothing but the budget of the whole join."""


class BeyondBudgetError(Exception):
    """A run that was given a part of what is open goes beyond a budget that all of it together might have."""


_OF_PART: Final = ContextVar("of_part", default=False)


@contextmanager
def of_part(*, is_part: bool) -> Iterator[None]:
    """Within, nothing is left out for a budget: where it would be, BeyondBudgetError is raised.

    A budget grows with what is open, so a part within its own is within that of everything, and decides the same.
    """
    token = _OF_PART.set(is_part)
    try:
        yield
    finally:
        _OF_PART.reset(token)


def left_out(keys: pl.DataFrame) -> pl.DataFrame:
    """Return what is left out for a budget.

    Raises
    ------
    BeyondBudgetError
        There is anything, and the run was given a part of what is open.
    """
    if _OF_PART.get() and not keys.is_empty():
        raise BeyondBudgetError
    return keys


def beyond_budget(keys: pl.DataFrame, rows: int) -> pl.DataFrame:
    """Return the ``key`` of those that bring the most ``pairs``, until the others are few enough for so many rows."""
    budget = max(PAIRS_MIN, rows)
    if keys.is_empty() or keys["pairs"].cast(pl.Int64).sum() <= budget:
        return keys.select("key").clear()
    return left_out(keys.sort("pairs", "key").filter(pl.col("pairs").cast(pl.Int64).cum_sum() > budget).select("key"))


def equal_pairs(items: pl.DataFrame, lines: pl.DataFrame, *, items_max: int, lines_max: int) -> Equal:
    """Join two frames of ``row`` and ``key``, without the keys on more than the given numbers of rows.

    Where all together bring more than the budget of the join, those that bring most are left out as well.
    """
    items, lines = (rows.drop_nulls("key") if rows["key"].null_count() else rows for rows in (items, lines))
    none = items["row"].clear()
    if items.is_empty() or lines.is_empty():
        return Equal(pl.DataFrame({"e": none, "i": none}), none, none, none, none)
    if items.height <= items_max and lines.height <= lines_max and items.height * lines.height <= PAIRS_MIN:
        # Too few for any key to be on too many.
        return Equal(_joined(items, lines), none, none, none, none)
    keys = (
        items.group_by("key")
        .agg(items=pl.len())
        .join(lines.group_by("key").agg(lines=pl.len()), on="key")
        .with_columns(
            crowded=(pl.col("items") > items_max) | (pl.col("lines") > lines_max),
            pairs=pl.col("items").cast(pl.Int64) * pl.col("lines"),
        )
    )
    capped = beyond_budget(keys.filter(~pl.col("crowded")), items.height + lines.height)
    bad = pl.concat([keys.filter("crowded").select("key"), capped])
    # Few are bad: to leave them out takes less than to look up all that are good.
    good = items.join(bad, on="key", how="anti") if bad.height else items
    return Equal(
        pairs=_joined(good, lines),
        crowded_items=_having(items, bad),
        crowded_lines=_having(lines, bad),
        capped_items=_having(items, capped),
        capped_lines=_having(lines, capped),
    )


def _joined(items: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    return items.join(lines, on="key", suffix="_i").select_seq(e="row", i="row_i")


def _having(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.Series:
    if keys.is_empty():
        return rows["row"].clear()
    return rows.join(keys, on="key", how="semi")["row"]


def keyed(frame: pl.DataFrame, name: str, *, with_amount: bool = False) -> pl.DataFrame:
    """Return ``row`` and ``key`` of a key column, salted by currency and direction, the amount mixed in on demand."""
    nulls = frame[name].null_count()
    if nulls == frame.height:
        return _NO_KEYS.clone()
    key = pl.col(name) ^ pl.col("salt")
    if with_amount:
        key += pl.col("amount_minor") * pl.lit(AMOUNT_FACTOR, dtype=pl.Int64)
    found = frame.select_seq("row", key=key)
    return found.drop_nulls("key") if nulls else found


def _item_references(expected: pl.DataFrame) -> pl.DataFrame:
    """Return ``row``, ``key`` and ``is_id`` (it is the end-to-end id) of everything by which items may be quoted."""
    return pl.concat(
        [
            keyed(expected, "reference_key").with_columns(is_id=pl.lit(value=False)),
            keyed(expected, "end_to_end_key").with_columns(is_id=pl.lit(value=True)),
        ]
    )


def _hits(references: pl.DataFrame, incoming: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return ``row``, ``key`` and ``items``: which keys of open items each line quotes, and how many items have it.

    The second frame has, in the same columns, what the budget of all lines together left out of the first.
    """
    if references.is_empty():
        none = pl.DataFrame(schema=_HITS)
        return none, none
    counts = references.group_by("key").agg(items=pl.col("row").n_unique())
    quoted = (
        incoming.select("row", "salt", key="reference_keys")
        .explode("key")
        .select("row", key=pl.col("key") ^ pl.col("salt"))
        .drop_nulls("key")
        .join(counts, on="key")
    )
    ids = keyed(incoming, "end_to_end_key").join(counts, on="key")
    hits = pl.concat([quoted, ids]).cast(_HITS)  # type: ignore[arg-type]
    if hits.is_empty():
        return hits, hits
    telling = hits.filter(pl.col("items") <= KEY_ITEMS_MAX).group_by("key").agg(pairs=pl.col("items").sum())
    dropped = beyond_budget(telling, references.height + incoming.height)
    if dropped.is_empty():
        return hits.unique(["row", "key"]), hits.clear()
    kept = hits.join(dropped, on="key", how="anti").unique(["row", "key"])
    return kept, hits.join(dropped, on="key", how="semi")


def _within_budget(hits: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Keep the rarest references of lines that quote too many, and name those lines."""
    if hits.is_empty():
        return hits, hits["row"]
    over = hits.group_by("row").agg(total=pl.col("items").sum()).filter(pl.col("total") > LINE_CANDIDATES_MAX)
    if over.is_empty():
        return hits, over["row"]
    kept = (
        hits.join(over, on="row", how="semi")
        .sort("row", "items", "key")
        .filter(pl.col("items").cum_sum().over("row") <= LINE_CANDIDATES_MAX)
    )
    return pl.concat([hits.join(over, on="row", how="anti"), kept]), over["row"]


def _quoted_pairs(references: pl.DataFrame, hits: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of items and the lines that quote them; the key's lowest bit tells full from partial."""
    full = (pl.col("key") & 1) == 1
    reference = pl.when(full).then(ReferenceLevel.FULL.value).otherwise(ReferenceLevel.PARTIAL.value)
    end_to_end = pl.when(full).then(EndToEndLevel.EQUAL.value).otherwise(EndToEndLevel.PARTIAL.value)
    return references.join(hits, on="key", suffix="_i").select(
        e="row",
        i="row_i",
        reference=pl.when("is_id").then(0).otherwise(reference).cast(pl.Int8),
        end_to_end=pl.when("is_id").then(end_to_end).otherwise(0).cast(pl.Int8),
    )


@of_none
def unquoted(pairs: pl.DataFrame) -> pl.DataFrame:
    """Add the levels of quoting to pairs that no quotation brought."""
    return pairs.with_columns(reference=pl.lit(0, dtype=pl.Int8), end_to_end=pl.lit(0, dtype=pl.Int8))


def in_full() -> pl.Expr:
    """Tell of pairs whether the line quotes the item by what could prove its payment."""
    return (pl.col("reference") == ReferenceLevel.FULL.value) | (pl.col("end_to_end") == EndToEndLevel.EQUAL.value)


def with_code(pairs: pl.DataFrame) -> pl.DataFrame:
    """Add ``code``, the pair as one Int64 that sorts as (e, i)."""
    return pairs.with_columns(code=pl.col("e").cast(pl.Int64) * 2**32 + pl.col("i").cast(pl.Int64))


@of_none
def distinct(pairs: pl.DataFrame) -> pl.DataFrame:
    """Merge pairs that several joins found, sorted by (e, i)."""
    return (
        with_code(pairs)
        .group_by("code")
        .agg(pl.col("e").first(), pl.col("i").first(), pl.col("reference").max(), pl.col("end_to_end").max())
        .sort("code")
        .drop("code")
    )


def _with_common(pairs: pl.DataFrame, references: pl.DataFrame, crowded: pl.DataFrame) -> pl.DataFrame:
    """Mark the pairs, found otherwise, whose reference is one of the dropped ones that the line quotes."""
    if crowded.is_empty():
        return pairs
    of_items = references.filter(~pl.col("is_id")).join(crowded.select("key").unique(), on="key", how="semi")
    common = (
        pairs.select("e", "i")
        .join(of_items.select(e="row", key="key"), on="e")
        .join(crowded.select(i="row", key="key"), on=["i", "key"], how="semi")
        .select("e", "i", common=pl.lit(ReferenceLevel.COMMON.value, dtype=pl.Int8))
    )
    return (
        pairs.join(common, on=["e", "i"], how="left")
        .with_columns(reference=pl.max_horizontal("reference", "common"))
        .drop("common")
        .sort("e", "i")
    )


def _counterparty_joins(sides: Sides, incoming: pl.DataFrame, rules: MatchingRules) -> list[Equal]:
    """Join by account or name with the amount; where unequal amounts may do, by account or name alone as well."""
    own = pl.any_horizontal(pl.col("min_minor", "max_minor", "terms").is_not_null())
    banded = sides.expected.filter(own)
    tolerant = incoming.filter(bound(rules, lambda bounds: bounds.tolerates))
    everybody = tolerant.height == incoming.height
    joins = (
        (sides.expected, incoming, True),
        # What an item itself allows, and what is allowed of a line.
        (banded.clear() if everybody else banded, incoming, False),
        (sides.expected, tolerant, False),
    )
    found = []
    for name, its_name in PARTY_KEYS:
        for items, lines, with_amount in joins:
            if items.is_empty() or lines.is_empty():
                continue
            found.append(
                equal_pairs(
                    keyed(items, name, with_amount=with_amount),
                    keyed(lines, its_name, with_amount=with_amount),
                    items_max=KEY_ITEMS_MAX,
                    lines_max=KEY_LINES_MAX,
                )
            )
    return found


def _repeated(expected: pl.DataFrame) -> pl.Series:
    """Return the items beside which their counterparty has others of the same amount, whoever pays those."""
    if expected.height < len(("one", "another")):
        return _NOBODY
    keys = [keyed(expected, name, with_amount=True) for name in ("account_key", "name_key")]
    return once(*(of_party.filter(pl.col("key").is_duplicated())["row"] for of_party in keys))


@of_none
def _crowded(hits: pl.DataFrame) -> pl.DataFrame:
    """Count the references of many items that each line quotes."""
    return hits.group_by(i="row").agg(
        crowded=pl.len().cast(pl.Int32), crowded_full=(pl.col("key") & 1).sum().cast(pl.Int32)
    )


def candidates(sides: Sides, rules: MatchingRules) -> Candidates:
    """Return the pairs that share a reference, an end-to-end id, or counterparty and amount."""
    incoming = sides.lines()
    references = _item_references(sides.expected)
    hits, dropped = _hits(references, incoming)
    crowded = hits.filter(pl.col("items") > KEY_ITEMS_MAX)
    kept, capped = _within_budget(hits.filter(pl.col("items") <= KEY_ITEMS_MAX))
    joins = _counterparty_joins(sides, incoming, rules)
    pairs = distinct(pl.concat([_quoted_pairs(references, kept), *(unquoted(found.pairs) for found in joins)]))
    return Candidates(
        pairs=_with_common(pairs, references, crowded),
        crowded=_crowded(crowded),
        alike_items=once(_NOBODY, *(found.crowded_items for found in joins)),
        alike_lines=once(_NOBODY, *(found.crowded_lines for found in joins)),
        capped_items=once(_NOBODY, _having(references, dropped), *(found.capped_items for found in joins)),
        capped_lines=once(capped, dropped["row"], *(found.capped_lines for found in joins)),
        repeated=_repeated(sides.expected),
        siblings=_NOBODY,
    )


def quoted_in_full(sides: Sides) -> pl.DataFrame:
    """Return the pairs of which the line quotes what could prove the payment of the item, as ``candidates`` does."""
    references = _item_references(sides.expected).filter((pl.col("key") & 1) == 1)
    hits, _ = _hits(references, sides.payments())
    kept, _ = _within_budget(hits.filter(pl.col("items") <= KEY_ITEMS_MAX))
    return distinct(_quoted_pairs(references, kept))


def amount_pairs(expected: pl.DataFrame, incoming: pl.DataFrame) -> Equal:
    """Return the pairs of equal amount, currency and direction, as ``candidates`` returns them."""
    found = equal_pairs(
        expected.select("row", key=amount_key()),
        incoming.select("row", key=amount_key()),
        items_max=KEY_ITEMS_MAX,
        lines_max=KEY_ITEMS_MAX,
    )
    return replace(found, pairs=distinct(unquoted(found.pairs)))


def number_key(party: str, number: pl.Expr) -> pl.Expr:
    """Return the key of a number and the counterparty that has it."""
    factor = pl.lit(AMOUNT_FACTOR, dtype=pl.Int64)
    return (pl.col(party) ^ pl.col("salt")) * factor + number


def amount_key() -> pl.Expr:
    """Return the key of an amount in its currency and direction."""
    return pl.col("salt") + pl.col("amount_minor") * pl.lit(AMOUNT_FACTOR, dtype=pl.Int64)
