"""Why the rest stays open, with the nearest candidate and what was missing.

A *finding* is a pair that came to nothing: one that a rule forbids, one that lost to another, or one that is looked up
only now because nothing else was found (another currency, another amount of the same counterparty).
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import polars as pl

from payrec.domain.matching.block import PARTY_KEYS, Candidates, equal_pairs, keyed, with_code
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.emptiness import of_none
from payrec.domain.matching.rules import KEY_ITEMS_MAX, KEY_LINES_MAX, AmountLevel, Reason

FINDING_SCHEMA: Final = {
    "e": pl.UInt32(),
    "i": pl.UInt32(),
    "reason": pl.Int8(),
    "fits": pl.Boolean(),  # it was forbidden by nothing, and lost
    "score_milli": pl.Int32(),
    "days_outside": pl.Int64(),
    "difference_minor": pl.Int64(),
}

_LOOKED_UP_SCORE: Final = -100_000
"""Below every score of a pair that was really scored, so that a looked-up neighbour is named last."""


@cache
def no_findings() -> pl.DataFrame:
    """Return an empty table of findings."""
    return pl.DataFrame(schema=FINDING_SCHEMA)


def finding(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as findings, in the columns of ``FINDING_SCHEMA``."""
    return shaped(frame, FINDING_SCHEMA) if frame.height else no_findings()


@of_none
def forbidden(pairs: pl.DataFrame) -> pl.DataFrame:
    """Turn scored pairs with a fault into findings."""
    return finding(pairs.filter(pl.col("fault") > 0).with_columns(reason=pl.col("fault"), fits=pl.lit(value=False)))


@of_none
def repeated(pairs: pl.DataFrame) -> pl.DataFrame:
    """Turn scored pairs of lines that repeat an earlier one into findings."""
    return finding(pairs.with_columns(reason=pl.lit(Reason.DUPLICATE.value), fits=pl.lit(value=False)))


@of_none
def lost(pairs: pl.DataFrame) -> pl.DataFrame:
    """Turn competed pairs that were not chosen into findings: a part beyond the open amount, or a lost tie."""
    beyond = pl.col("amount_level") == AmountLevel.SMALLER.value
    reason = pl.when(beyond).then(Reason.AMOUNT_MISMATCH.value).otherwise(Reason.AMBIGUOUS.value)
    return finding(pairs.filter(~pl.col("chosen")).with_columns(reason=reason, fits=pl.lit(value=True)))


@of_none
def alike(pairs: pl.DataFrame) -> pl.DataFrame:
    """Turn pairs that have too many equals to be proposed into findings."""
    return finding(pairs.with_columns(reason=pl.lit(Reason.AMBIGUOUS.value), fits=pl.lit(value=True)))


def _beside(pairs: pl.DataFrame, items: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    columns = ["row", "part", "direction", "amount_minor"]
    return pairs.join(items.select(columns), left_on="e", right_on="row").join(
        lines.select(columns), left_on="i", right_on="row", suffix="_i"
    )


def _other_currency(items: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Find open items of the same reference and direction in another currency."""
    quoted = pl.concat(
        [
            lines.select("row", key="reference_keys").explode("key"),
            lines.select("row", key="end_to_end_key"),
        ]
    ).unique()
    named = pl.concat([items.select("row", key="reference_key"), items.select("row", key="end_to_end_key")]).unique()
    pairs = equal_pairs(named, quoted, items_max=KEY_ITEMS_MAX, lines_max=KEY_LINES_MAX).pairs
    return (
        _beside(pairs, items, lines)
        .filter((pl.col("part") != pl.col("part_i")) & (pl.col("direction") == pl.col("direction_i")))
        .with_columns(
            reason=pl.lit(Reason.CURRENCY_MISMATCH.value),
            difference_minor=pl.lit(None, dtype=pl.Int64),
            score_milli=pl.lit(_LOOKED_UP_SCORE + 1),
        )
    )


def _other_amount(items: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Find open items of the same counterparty, currency and direction with another amount; the nearest counts."""
    pairs = pl.concat(
        [
            equal_pairs(
                keyed(items, name), keyed(lines, its_name), items_max=KEY_ITEMS_MAX, lines_max=KEY_LINES_MAX
            ).pairs
            for name, its_name in PARTY_KEYS
        ]
    ).unique()
    return _beside(pairs, items, lines).with_columns(
        reason=pl.lit(Reason.AMOUNT_MISMATCH.value),
        difference_minor=pl.col("amount_minor_i") - pl.col("amount_minor"),
        score_milli=pl.lit(_LOOKED_UP_SCORE),
    )


def looked_up(items: pl.DataFrame, lines: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """Find neighbours of rows without any finding: by reference in other currencies, by counterparty."""
    found = [
        finding(
            with_code(pairs)
            .join(rejected, on="code", how="anti")
            .with_columns(fits=pl.lit(value=False), days_outside=pl.lit(None, dtype=pl.Int64))
        )
        for pairs in (_other_currency(items, lines), _other_amount(items, lines))
    ]
    return pl.concat(found)


def _best(findings: pl.DataFrame, end: str) -> pl.DataFrame:
    """Return one finding for each row: one that fits before one that does not, the best score, the nearest amount."""
    order = ["fits", "score_milli", "_gap", "days_outside", "e", "i"]
    return (
        findings.with_columns(_gap=pl.col("difference_minor").abs())
        .sort(order, descending=[True, True, False, False, False, False], nulls_last=True)
        .unique(end, keep="first", maintain_order=True)
    )


def open_incoming(sides: Sides, proposed: pl.Series, findings: pl.DataFrame, found: Candidates) -> pl.DataFrame:
    """Say why each line without a proposal stays open: ``ordinal, reason, nearest, days_outside, difference_minor``."""
    left = sides.incoming.select("row", "ordinal", "duplicate", "reversal").filter(
        ~pl.col("row").is_in(proposed.implode())
    )
    return _of_lines(left, sides, findings, found)


@of_none
def _of_lines(left: pl.DataFrame, sides: Sides, findings: pl.DataFrame, found: Candidates) -> pl.DataFrame:
    row = pl.col("row")
    crowded = row.is_in(found.alike_lines.implode()) | row.is_in(found.crowded["i"].implode())
    reason = (
        pl.when("duplicate")
        .then(Reason.DUPLICATE.value)
        .when("reversal")
        .then(Reason.NO_CANDIDATE.value)
        .when(row.is_in(found.capped_lines.implode()))
        .then(Reason.BUDGET_EXHAUSTED.value)
        .when(pl.col("reason").is_not_null())
        .then(pl.col("reason"))
        .when(crowded)
        .then(Reason.AMBIGUOUS.value)
        .otherwise(Reason.NO_CANDIDATE.value)
    )
    return (
        left.join(_best(findings, "i"), left_on="row", right_on="i", how="left")
        .join(sides.expected.select(e="row", nearest="ordinal"), on="e", how="left")
        .with_columns(reason=reason.cast(pl.Int8))
        .sort("row")
        .select("ordinal", "reason", "nearest", "days_outside", "difference_minor")
    )


def open_expected(sides: Sides, proposed: pl.Series, findings: pl.DataFrame, found: Candidates) -> pl.DataFrame:
    """Say why each item without a proposal stays open, as ``open_incoming`` does; ``nearest`` is a line."""
    left = sides.expected.select("row", "ordinal").filter(~pl.col("row").is_in(proposed.implode()))
    near = _of_items(left, sides, findings, found)
    if sides.apart.is_empty():
        return near
    nobody = pl.lit(Reason.NO_CANDIDATE.value, dtype=pl.Int8)
    return pl.concat([near, sides.apart.to_frame("ordinal").with_columns(reason=nobody)], how="diagonal")


@of_none
def _of_items(left: pl.DataFrame, sides: Sides, findings: pl.DataFrame, found: Candidates) -> pl.DataFrame:
    row = pl.col("row")
    flags = sides.incoming.select(i="row", nearest="ordinal", pending="pending", duplicate="duplicate")
    own, waits = findings, pl.lit(value=False)
    if sides.incoming["duplicate"].any():
        # What repeats another line says nothing about the item.
        own = findings.join(flags.filter("duplicate").select("i"), on="i", how="anti")
    if sides.incoming["pending"].any():
        lines = own.join(flags.select("i", "pending"), on="i").group_by("e").agg(pending_only=pl.col("pending").all())
        left, waits = left.join(lines, left_on="row", right_on="e", how="left"), pl.col("pending_only")
    reason = (
        pl.when(waits)
        .then(Reason.PENDING_ONLY.value)
        .when(pl.col("reason").is_not_null())
        .then(pl.col("reason"))
        .when(row.is_in(found.alike_items.implode()))
        .then(Reason.AMBIGUOUS.value)
        .otherwise(Reason.NO_CANDIDATE.value)
    )
    return (
        left.join(_best(own, "e"), left_on="row", right_on="e", how="left")
        .join(flags.select("i", "nearest"), on="i", how="left")
        .with_columns(reason=reason.cast(pl.Int8))
        .sort("row")
        .select("ordinal", "reason", "nearest", "days_outside", "difference_minor")
    )


def by_reason(rows: pl.DataFrame) -> dict[str, int]:
    """Count open rows by the code of their ``reason``."""
    counts = np.bincount(rows["reason"].to_numpy(), minlength=max(Reason) + 1).tolist()
    return {reason.code: counts[reason] for reason in Reason if counts[reason]}
