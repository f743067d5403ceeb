"""From pairs to levels, from levels to a score, and what forbids a pair."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

import polars as pl

from payrec.domain.matching.adjustments import tolerated_fee
from payrec.domain.matching.block import in_full, with_code
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.emptiness import of_none_by
from payrec.domain.matching.few_digits import of_few_digits
from payrec.domain.matching.line_rules import ROUNDING_MINOR_MAX
from payrec.domain.matching.meant import learned, names_another
from payrec.domain.matching.other_periods import of_periods
from payrec.domain.matching.ruled import bound, columns, lacking, tolerance
from payrec.domain.matching.rules import (
    CLOSE_DAYS,
    CLOSE_EARLY_DAYS,
    FEATURES,
    NEAR_DAYS,
    AmountLevel,
    DateLevel,
    EndToEndLevel,
    GroupLevel,
    LineLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.weights import PRIOR_WEIGHT, weights_of

LEVELS: Final = tuple(f"{feature}_level" for feature in FEATURES)
"""The level columns of a scored pair, in the order of the features."""

AS_ASKED: Final = [AmountLevel.EQUAL.value, AmountLevel.TERM.value]
"""Amounts of which nothing is left to explain."""

NEARLY: Final = [AmountLevel.TOLERANCE.value, AmountLevel.BAND.value]
"""Amounts that are taken for equal, and are not: they agree within what the rules or the item allow."""

RANK_PROOF: Final = 2
"""A reference quoted in full, or an equal end-to-end id."""
RANK_HINT: Final = 1
"""A reference that is quoted, but proves nothing."""

_EXPECTED: Final = (
    "amount_minor", "total_minor", "min_minor", "max_minor", "due_day", "from_day", "to_day",
    "reference_key", "end_to_end_key", "name_key", "account_key", "own_account_key", "twin", "direction",
    "is_shared", "of_several", "reference_digits",
)  # fmt: skip
_INCOMING: Final = (
    "amount_minor", "total_minor", "day", "pending", "duplicate",
    "reference_keys", "end_to_end_key", "name_key", "similar_key", "meant", "account_key",
    "own_account_key", "twin", "is_known",
)  # fmt: skip


def _gathered(pairs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Put the columns of both sides beside each pair, as ``e_…`` and ``i_…``, and what tells the bounds of its line.

    ``in_terms`` tells whether the line is what one of the item's terms asks for, in time, ``other_period`` whether it
    names another period than the item, ``by_period`` whether only a reference that says a period could prove the pair.
    """
    own = columns(rules)
    incoming = sides.incoming.select(*_INCOMING, *own).with_columns(
        reference_keys=pl.col("reference_keys").list.len().fill_null(0) > 0
    )
    return pl.concat(
        [
            pairs,
            sides.expected.select(_EXPECTED)[pairs["e"]].select(pl.all().name.prefix("e_")),
            incoming[pairs["i"]].select(pl.exclude(own).name.prefix("i_"), *own),
            _in_terms(pairs, sides, rules),
            of_periods(pairs, sides),
        ],
        how="horizontal",
    )


def _in_terms(pairs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    terms = sides.terms()
    if terms.is_empty() or pairs.is_empty():
        return pairs.select(in_terms=pl.repeat(value=False, n=pl.len(), dtype=pl.Boolean))
    paid = sides.incoming.select("row", "day", "amount_minor", *columns(rules))
    # A share of an amount is rounded here and there otherwise, and of each position of an invoice by some.
    beside = pl.min_horizontal(bound(rules, lambda bounds: bounds.amount_tolerance_minor), ROUNDING_MINOR_MAX)
    off = pl.col("amount_minor") - pl.col("amount_minor_paid")
    asked = (
        pairs.select("e", "i", place=pl.int_range(pl.len()))
        .join(terms, left_on="e", right_on="row")
        .join(paid, left_on="i", right_on="row", suffix="_paid")
        .filter((off.abs() <= beside) & (pl.col("day") <= pl.col("last_day")))
    )
    return pairs.select(in_terms=pl.int_range(pl.len()).is_in(asked["place"].implode()))


@cache
def agreement(name: str) -> pl.Expr:
    """Return the ``PartyLevel`` of a key that both ends, ``e_…`` and ``i_…``, may have."""
    equal = pl.col(f"e_{name}_key") == pl.col(f"i_{name}_key")
    return (
        pl.when(equal)
        .then(PartyLevel.EQUAL.value)
        .when(~equal)
        .then(PartyLevel.DIFFERENT.value)
        .otherwise(PartyLevel.UNKNOWN.value)
    )


@cache
def _name() -> pl.Expr:
    similar = pl.col("e_name_key") == pl.col("i_similar_key")
    return pl.when(similar).then("i_meant").otherwise(agreement("name"))


def resembles() -> pl.Expr:
    """Tell of the levels whether the counterparty's name speaks for the item, though it is not the very name."""
    return pl.col("name_level").is_in([NameLevel.SIMILAR.value, NameLevel.TEXT.value, NameLevel.ALIAS.value])


def other_account() -> pl.Expr:
    """Tell of the levels whether the account is somebody else's; who acts for others has one of his own."""
    acts_for = pl.col("name_level") == NameLevel.ULTIMATE.value
    return (pl.col("account_level") == PartyLevel.DIFFERENT.value) & ~acts_for


def contradicted() -> pl.Expr:
    """Tell of the levels whether the line is of somebody else."""
    return other_account() | (pl.col("name_level") == NameLevel.DIFFERENT.value)


@cache
def _of_another() -> pl.Expr:
    """Tell of pairs whether the line says that it is of somebody else.

    Where no reference proves it: it comes from the account of another one who has open items, whatever the name, or is
    paid on behalf of such a one, or from an account of several (a payment service's) under a name that is not the
    item's. Of money that goes out in any case, where the account differs, or is not known and the name differs: many
    suppliers' bills have one number, and whoever diverts a payment writes the name that is expected. An end-to-end id
    is ours there. And where the reference says when, and not who (``Rent 03/2026``): everybody pays for March.
    """
    account, behalf = pl.col("i_is_known") & other_account(), NameLevel.ULTIMATE.value
    told = (pl.col("i_meant") == behalf) & pl.col("i_similar_key").is_not_null() & (pl.col("name_level") != behalf)
    same = pl.col("account_level") == PartyLevel.EQUAL.value
    ours = pl.col("end_to_end_level") == EndToEndLevel.EQUAL.value
    paid_out = (pl.col("e_direction") < 0) & (other_account() | (contradicted() & ~same & ~ours))
    period = pl.col("by_period") & ~pl.col("payer") & contradicted()
    several = same & pl.col("e_of_several") & (pl.col("name_level") == NameLevel.DIFFERENT.value)
    return ((pl.col("rank") < RANK_PROOF) & (account | told | several)) | paid_out | period


@cache
def _reference() -> pl.Expr:
    silent = pl.col("e_reference_key").is_null() | ~pl.col("i_reference_keys")
    return (
        pl.when(pl.col("reference") > 0)
        .then(pl.col("reference"))
        .when(silent)
        .then(ReferenceLevel.UNKNOWN.value)
        .otherwise(ReferenceLevel.ABSENT.value)
    )


@cache
def _end_to_end() -> pl.Expr:
    differ = pl.col("e_end_to_end_key") != pl.col("i_end_to_end_key")
    return (
        pl.when(pl.col("end_to_end") > 0)
        .then(pl.col("end_to_end"))
        .when(differ)
        .then(EndToEndLevel.DIFFERENT.value)
        .otherwise(EndToEndLevel.UNKNOWN.value)
    )


def tolerated(rules: MatchingRules) -> pl.Expr:
    """Tell whether the difference of amounts is within the tolerance of amounts."""
    points = bound(rules, lambda bounds: bounds.amount_tolerance_basis_points)
    minor = bound(rules, lambda bounds: bounds.amount_tolerance_minor)
    return pl.col("difference_minor").abs() <= tolerance(pl.col("e_amount_minor"), points=points, minor=minor)


def _amount(rules: MatchingRules) -> pl.Expr:
    """Compare what is open on both sides."""
    open_minor = pl.col("e_amount_minor")
    difference = pl.col("difference_minor")
    # The band is about paying the whole item by the whole line.
    untouched = (open_minor == pl.col("e_total_minor")) & (pl.col("i_amount_minor") == pl.col("i_total_minor"))
    has_band = pl.col("e_min_minor").is_not_null() | pl.col("e_max_minor").is_not_null()
    line = pl.col("i_amount_minor")
    in_band = (
        has_band
        & untouched
        & (line >= pl.coalesce("e_min_minor", "e_amount_minor"))
        & (line <= pl.coalesce("e_max_minor", "e_amount_minor"))
    )
    # What a proving reference says is short of the item, a bank on the way has kept.
    quoted = in_full()
    fee = quoted & tolerated_fee(rules)
    return (
        pl.when(difference == 0)
        .then(AmountLevel.EQUAL.value)
        .when(untouched & pl.col("in_terms"))
        .then(AmountLevel.TERM.value)
        .when(tolerated(rules) | fee)
        .then(AmountLevel.TOLERANCE.value)
        .when(in_band)
        .then(AmountLevel.BAND.value)
        .when(difference < 0)
        .then(AmountLevel.SMALLER.value)
        .otherwise(AmountLevel.LARGER.value)
    )


def span(prefix: str = "") -> tuple[pl.Expr, pl.Expr]:
    """Return the first and the last day on which an item is expected, each null when the item does not say."""
    first = pl.min_horizontal(f"{prefix}from_day", f"{prefix}due_day").cast(pl.Int64)
    last = pl.max_horizontal(f"{prefix}to_day", f"{prefix}due_day").cast(pl.Int64)
    return first, last


def _days(rules: MatchingRules) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """Return the days beside the item's span, whether they are before it, and the days outside the window.

    The numbers of days are null when a side has no date.
    """
    day = pl.col("i_day").cast(pl.Int64)
    first, last = span("e_")
    known = day.is_not_null() & (first.is_not_null() | last.is_not_null())
    early = (first - day).fill_null(0)
    late = (day - last).fill_null(0)
    beside = pl.max_horizontal(early, late, 0)
    before = bound(rules, lambda bounds: bounds.date_window_days_before)
    after = bound(rules, lambda bounds: bounds.date_window_days_after)
    outside = pl.max_horizontal(early - before, late - after, 0)
    return pl.when(known).then(beside), early > 0, pl.when(known).then(outside)


@cache
def _date() -> pl.Expr:
    return (
        pl.when(pl.col("days_beside").is_null())
        .then(DateLevel.UNKNOWN.value)
        .when(pl.col("days_outside") > 0)
        .then(DateLevel.OUTSIDE.value)
        .when(pl.col("days_beside") <= NEAR_DAYS)
        .then(DateLevel.NEAR.value)
        .when(pl.col("days_beside") <= pl.when("is_early").then(CLOSE_EARLY_DAYS).otherwise(CLOSE_DAYS))
        .then(DateLevel.CLOSE.value)
        .otherwise(DateLevel.WITHIN.value)
    )


@cache
def _line() -> pl.Expr:
    return (
        pl.when("i_duplicate")
        .then(LineLevel.DUPLICATE.value)
        .when("i_pending")
        .then(LineLevel.PENDING.value)
        .otherwise(LineLevel.BOOKED.value)
    )


def said_of_line(that: pl.Expr, level: LineLevel) -> pl.Expr:
    """Return the level of the line: the given one where that is so and nothing else is said but that it is booked."""
    booked = pl.col("line_level") == LineLevel.BOOKED.value
    return pl.when(booked & that).then(level.value).otherwise("line_level").cast(pl.Int8)


def _fault(rules: MatchingRules) -> pl.Expr:
    """Return the reason that forbids the pair, or 0."""
    hinted = pl.col("rank") >= RANK_HINT
    lacks = lacking(rules)
    return (
        pl.when(pl.col("date_level") == DateLevel.OUTSIDE.value)
        .then(Reason.DATE_OUT_OF_WINDOW.value)
        .when(~pl.col("equal") & (pl.col("rank") < RANK_PROOF))
        .then(Reason.AMOUNT_MISMATCH.value)
        .when(lacks > 0)
        .then(lacks)
        .when(~hinted & ~pl.col("payer") & contradicted())
        .then(Reason.COUNTERPARTY_MISMATCH.value)
        .otherwise(0)
    )


def without(pairs: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs, sorted by (e, i), without those whose ``code`` is among the rejected."""
    if rejected.is_empty():
        return pairs
    return with_code(pairs).join(rejected, on="code", how="anti").drop("code").sort("e", "i")


def score_milli(rules: MatchingRules) -> pl.Expr:
    """Return the log-odds of the level columns, in thousandths (Int32)."""
    return _summed(tuple(tuple(weights_of(feature, rules.calibration)) for feature in FEATURES))


@lru_cache(maxsize=16)
def _summed(weights: tuple[tuple[int, ...], ...]) -> pl.Expr:
    """Return the log-odds by the weights of each feature's levels: what a tenant has learned is the same for long."""
    found = [
        pl.lit(pl.Series(of_feature, dtype=pl.Int32)).gather(pl.col(f"{feature}_level"))
        for feature, of_feature in zip(FEATURES, weights, strict=True)
    ]
    return (pl.sum_horizontal(found) + PRIOR_WEIGHT).cast(pl.Int32)


@of_none_by(lambda _sides, rules: columns(rules))
def scored(pairs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return the pairs with their levels, score and what forbids them, in the order given.

    To ``e`` and ``i`` come the level columns (``LEVELS``, Int8), ``score_milli`` (Int32), ``difference_minor`` (line
    less item, Int64), ``days_outside`` (Int64, null without dates), ``rank`` (of the reference, Int8), ``payer``
    (account or name agree), ``equal`` (amounts agree within what the rules allow), ``fault`` (Int8, 0 or a Reason),
    both open amounts, ``pending``, ``duplicate`` and ``twin``, ``elsewhere`` (the line says that it is of somebody
    else), ``shared`` (it does, and several have the item's reference, or may have it), ``named_other`` (nothing but its
    text says so), and the ``rule`` of the line if there are rules.
    """
    return _levelled(_gathered(pairs, sides, rules), rules)


def in_time(pairs: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Return those of the pairs ``e``, ``i`` that are not beyond the days for a line that says nothing of its item."""
    silent = [pl.lit(0, dtype=pl.Int8).alias(name) for name in ("reference", "end_to_end")]
    late = scored(pairs.select("e", "i", *silent), sides, rules)["days_outside"] > 0
    return pairs.filter(~late.fill_null(value=False))


def _levelled(pairs: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Return ``scored`` of pairs that have the columns of both sides beside them."""
    beside, is_early, outside = _days(rules)
    frame = pairs.with_columns(
        difference_minor=pl.col("i_amount_minor") - pl.col("e_amount_minor"),
        days_beside=beside,
        is_early=is_early,
        days_outside=outside,
    ).with_columns(
        reference_level=_reference().cast(pl.Int8),
        end_to_end_level=_end_to_end().cast(pl.Int8),
        amount_level=_amount(rules).cast(pl.Int8),
        date_level=_date().cast(pl.Int8),
        account_level=agreement("account").cast(pl.Int8),
        name_level=_name().cast(pl.Int8),
        own_account_level=agreement("own_account").cast(pl.Int8),
        line_level=_line().cast(pl.Int8),
        group_level=pl.lit(GroupLevel.UNKNOWN.value, dtype=pl.Int8),
    )
    silent = pl.all_horizontal(pl.col("account_level", "name_level") == 0)
    proof = (pl.col("reference_level") == ReferenceLevel.FULL.value) | (
        pl.col("end_to_end_level") == EndToEndLevel.EQUAL.value
    )
    hint = (pl.col("reference_level") >= ReferenceLevel.COMMON.value) | (
        pl.col("end_to_end_level") == EndToEndLevel.PARTIAL.value
    )
    frame = frame.with_columns(
        score_milli=score_milli(rules),
        rank=pl.when(proof).then(RANK_PROOF).when(hint).then(RANK_HINT).otherwise(0).cast(pl.Int8),
        payer=(pl.col("account_level") == PartyLevel.EQUAL.value)
        | pl.col("name_level").is_in([NameLevel.EQUAL.value, NameLevel.ULTIMATE.value]),
        equal=pl.col("amount_level").is_in(AS_ASKED + NEARLY),
    )
    by_id = pl.col("end_to_end_level") == EndToEndLevel.EQUAL.value
    few_digits = of_few_digits(frame, contradicted() & ~pl.col("payer") & proof & ~by_id)
    return (
        frame.with_columns(fault=_fault(rules).cast(pl.Int8), elsewhere=_of_another() | few_digits)
        .with_columns(line_level=said_of_line(pl.col("elsewhere"), LineLevel.OF_ANOTHER))
        .with_columns(line_level=said_of_line(pl.col("other_period"), LineLevel.OF_OTHER_PERIOD))
        .with_columns(anybody=pl.col("by_period") & silent & proof)
        .with_columns(line_level=said_of_line(pl.col("anybody"), LineLevel.OF_ANYBODY))
        .with_columns(elsewhere=pl.any_horizontal("elsewhere", "other_period", "anybody"))
        .select(
            "e",
            "i",
            *LEVELS,
            "score_milli",
            "difference_minor",
            "days_outside",
            "rank",
            "payer",
            "equal",
            "fault",
            "e_amount_minor",
            "i_amount_minor",
            *columns(rules),
            "elsewhere",
            shared=(pl.col("e_is_shared") | pl.col("by_period")) & ~pl.col("payer") & (contradicted() | learned()),
            named_other=names_another() & ~pl.col("payer"),
            pending="i_pending",
            duplicate="i_duplicate",
            twin=pl.col("e_twin") | pl.col("i_twin"),
        )
    )
