"""What settles a difference without money: a pair whose amounts are not equal is matched whole, and says by what.

The type of an adjustment follows from the difference itself and never from the tolerances of a tenant, which only
bound what is accepted without a person. What is short of an item counts on the item, what is beyond it on the line.
Short by more than a rounding or a fee, a payment is a part: the rest stays open on the item, without an adjustment.
Beyond by more than a fifth of the item, or by what another open item of the counterparty asks for, the rest stays open
on the line: it may pay something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import polars as pl

from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.matching.columns import ADJUSTMENTS_SCHEMA, PARTY_KEYS, Sides
from payrec.domain.matching.emptiness import of_none
from payrec.domain.matching.line_rules import ROUNDING_MINOR_MAX
from payrec.domain.matching.ruled import bound
from payrec.domain.matching.rules import FEE_SHARE_MAX, AdjustmentType, AmountLevel, MatchingRules

FEE_UNITS_MAX: Final = 25
"""Whole units of a currency that banks on the way may keep, where they are at most a tenth of the amount."""

FEE_PERCENT_MAX: Final = 3
"""Percent of an amount that payment services may keep, whatever the amount."""

OVER_PAYMENT_SHARE_MAX: Final = 5
"""What is beyond an item is an over-payment up to the item's amount divided by this."""

SETTLED_SCHEMA: Final = {
    "level": pl.Int8(),  # the GroupLevel of the groups that it belongs to
    "e": pl.UInt32(),  # null of what is settled on the line
    "i": pl.UInt32(),
    "type": pl.Int8(),
    "amount_minor": pl.Int64(),
}
"""What groups settle of an item without money, or of their line, which is ``i``."""

_ADJUSTED: Final = {
    "proposal": pl.UInt32(),
    "type": pl.Int8(),
    "e": pl.UInt32(),
    "i": pl.UInt32(),
    "amount_minor": pl.Int64(),
    "rate": pl.String(),
}
_DEFAULT_DIGITS: Final = 2
_ASKED: Final = pl.col("e_amount_minor")
_PAID: Final = pl.col("i_amount_minor")
_SHORT: Final = _ASKED - _PAID


def units(currency: pl.Series) -> pl.Series:
    """Return the minor units of one unit of each currency."""
    digits = currency.replace_strict(dict(MINOR_UNITS), default=_DEFAULT_DIGITS, return_dtype=pl.Int64)
    return digits.to_frame("digits").select(pl.lit(10, dtype=pl.Int64).pow("digits").alias("unit"))["unit"]


def rounded() -> pl.Expr:
    """Tell of pairs with ``unit`` whether the line's amount is the item's, rounded. No product leaves 64 bits."""
    gap, unit = _SHORT.abs(), pl.col("unit")
    near = (gap <= ROUNDING_MINOR_MAX) | ((gap < unit) & (_PAID % unit == 0))
    return near & (gap <= _ASKED // 10)


def less_a_fee() -> pl.Expr:
    """Tell of pairs with ``unit`` whether the line's amount is the item's without what banks and services keep."""
    share = _ASKED // 100 * FEE_PERCENT_MAX
    flat = _SHORT.le(FEE_UNITS_MAX * pl.col("unit")) & _SHORT.le(_ASKED // 10)
    return _SHORT.gt(0) & (_SHORT.le(share) | flat)


def tolerated_fee(rules: MatchingRules) -> pl.Expr:
    """Tell of pairs whether the line is short of the item by what the tenant takes for a fee."""
    most = bound(rules, lambda bounds: bounds.fee_tolerance_minor)
    return _SHORT.gt(0) & _SHORT.le(most) & _SHORT.le(_ASKED // FEE_SHARE_MAX)


def overpaid() -> pl.Expr:
    """Tell of pairs whether the line is beyond the item by no great part of it."""
    return (_SHORT < 0) & (-_SHORT <= _ASKED // OVER_PAYMENT_SHARE_MAX)


def adjusted(proposals: pl.DataFrame, taken: pl.Series, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return the adjustments of proposals, as ``proposal, type, e, i, amount_minor, rate``, in their order.

    ``proposals`` are competed pairs with ``proposal``, ``settled_minor`` and ``rate``; where ``g`` is not null they are
    groups, of which ``adjustments_of`` tells. Several parts of one item sum up and need none. ``taken`` are the items
    of all proposals.
    """
    pairs = proposals.filter(pl.col("g").is_null())
    pairs = pairs.filter((pl.len().over("e") == 1) & (pl.col("amount_level") != AmountLevel.EQUAL.value))
    return _of_differing(pairs, taken, sides, rules)


@of_none
def _of_differing(pairs: pl.DataFrame, taken: pl.Series, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return ``adjusted`` of pairs that do not sum up."""
    of_items = sides.expected.select(
        "currency", banded=pl.any_horizontal(pl.col("min_minor", "max_minor").is_not_null())
    )
    of_items = of_items[pairs["e"]]
    pairs = pairs.with_columns(unit=units(of_items["currency"]), banded=of_items["banded"])
    kind = pl.when(pl.col("rate").is_not_null()).then(AdjustmentType.FX.value).otherwise(_short(rules))
    short = pairs.with_columns(type=kind.cast(pl.Int8)).filter(pl.col("rate").is_not_null() | (_SHORT > 0))
    beyond = pairs.filter(pl.col("rate").is_null() & (_SHORT < 0)).with_columns(type=_beyond().cast(pl.Int8))
    nobody = pl.lit(None, dtype=pl.UInt32)
    settled = pl.coalesce("settled_minor", "i_amount_minor")
    found = pl.concat(
        [
            short.with_columns(i=nobody, amount_minor=_ASKED - settled),
            _for_nothing_else(beyond, taken, sides).with_columns(e=nobody, amount_minor=-_SHORT),
        ],
        how="diagonal",
    )
    return found.drop_nulls("type").sort("proposal").select("proposal", "type", "e", "i", "amount_minor", "rate")


def difference_type(rules: MatchingRules) -> pl.Expr:
    """Return the type of the difference of sums that a line and items are (Int8), null where nothing settles it."""
    return pl.when(_SHORT > 0).then(_short(rules)).otherwise(_beyond()).cast(pl.Int8)


def _short(rules: MatchingRules) -> pl.Expr:
    """Return the type of what is short of an item, null for a part.

    An item with limits of its own says itself what settles it.
    """
    level = pl.col("amount_level")
    outside = pl.col("banded") & (level == AmountLevel.SMALLER.value)
    return (
        pl.when(outside)
        .then(None)
        .when(level == AmountLevel.TERM.value)
        .then(AdjustmentType.DISCOUNT.value)
        .when(rounded())
        .then(AdjustmentType.ROUNDING.value)
        .when(level == AmountLevel.BAND.value)
        .then(AdjustmentType.DISCOUNT.value)
        .when(less_a_fee() | tolerated_fee(rules))
        .then(AdjustmentType.FEE.value)
        .when(level == AmountLevel.TOLERANCE.value)
        .then(AdjustmentType.WRITE_OFF.value)
    )


def _beyond() -> pl.Expr:
    """Return the type of what is beyond an item, null where it stays open on the line."""
    level = pl.col("amount_level")
    outside = pl.col("banded") & (level == AmountLevel.LARGER.value)
    whole = level.is_in([AmountLevel.BAND, AmountLevel.TOLERANCE])
    return (
        pl.when(outside)
        .then(None)
        .when(rounded())
        .then(AdjustmentType.ROUNDING.value)
        .when(whole | overpaid())
        .then(AdjustmentType.OVER_PAYMENT.value)
    )


def _for_nothing_else(beyond: pl.DataFrame, taken: pl.Series, sides: Sides) -> pl.DataFrame:
    """Leave out the over-payments of which an open item of the same counterparty asks for the very rest."""
    rest = pl.concat(
        [
            beyond.select("proposal", amount_minor=-_SHORT),
            sides.expected.select("part", *PARTY_KEYS)[beyond["e"]],
        ],
        how="horizontal",
    )
    free = sides.expected.join(taken.to_frame("row"), on="row", how="anti")
    asked_for = [
        rest.drop_nulls(name).join(free, on=["part", name, "amount_minor"], how="semi").select("proposal")
        for name in PARTY_KEYS
    ]
    whole = pl.col("amount_level") != AmountLevel.LARGER.value
    other = pl.col("proposal").is_in(pl.concat(asked_for)["proposal"].implode())
    return beyond.filter(whole | ~other)


@cache
def no_settled() -> pl.DataFrame:
    """Return nothing, as SETTLED_SCHEMA."""
    return pl.DataFrame(schema=SETTLED_SCHEMA)


def adjustments_of(proposals: pl.DataFrame, legs: pl.DataFrame, settled: pl.DataFrame) -> pl.DataFrame:
    """Return what is ``settled`` without money in those of the proposals that it belongs to, as ``adjusted`` does."""
    if settled.is_empty():
        return pl.DataFrame(schema=_ADJUSTED)
    # A line is in one proposal alone.
    of_lines = legs.select("proposal", "i").drop_nulls("i").unique()
    return (
        proposals.select("proposal", level="group_level")
        .join(of_lines, on="proposal")
        .join(settled, on=["level", "i"])
        .sort("proposal", "e")
        .with_columns(i=pl.when(pl.col("e").is_null()).then("i"), rate=pl.lit(None, dtype=pl.String))
        .select(list(_ADJUSTED))
    )


def with_ordinals(ways: Sequence[pl.DataFrame], sides: Sides) -> pl.DataFrame:
    """Return what ``adjusted`` and others found, by proposal, in the columns of ``ADJUSTMENTS_SCHEMA``."""
    filled = [way for way in ways if way.height]
    if not filled:
        return pl.DataFrame(schema=dict(ADJUSTMENTS_SCHEMA))
    found = pl.concat(filled, how="vertical_relaxed").sort("proposal", maintain_order=True)
    return found.select(
        "proposal",
        "type",
        expected=sides.expected["ordinal"][found["e"]],
        incoming=sides.incoming["ordinal"][found["i"]],
        amount_minor="amount_minor",
        rate="rate",
    ).cast(dict(ADJUSTMENTS_SCHEMA))  # type: ignore[arg-type]
