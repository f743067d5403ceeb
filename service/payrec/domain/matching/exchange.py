"""Foreign exchange: an item and a line of different currencies, where a rate of about the day makes them equal.

Proposals only: that a converted amount lies near another one proves nothing. What is compared shares a reference, an
end-to-end id, an account or a name; the amount of the line, converted, must lie within the tolerance of the item's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from payrec.constants import AMOUNT_MINOR_MAX, FX_RATE_DIGITS_MAX, FX_RATE_PLACES_MAX
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.fx_rates import DERIVED_PLACES_MAX
from payrec.domain.matching.block import (
    PARTY_KEYS,
    Candidates,
    candidates,
    distinct,
    equal_pairs,
    keyed,
    quoted_in_full,
    unquoted,
)
from payrec.domain.matching.columns import ColumnsError, Sides, checked
from payrec.domain.matching.compete import Taken, competed
from payrec.domain.matching.line_rules import BASIS_POINTS
from payrec.domain.matching.reasons import finding, lost, no_findings
from payrec.domain.matching.ruled import lacking
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    KEY_LINES_MAX,
    AmountLevel,
    DateLevel,
    MatchingRules,
    Reason,
)
from payrec.domain.matching.score import RANK_HINT, RANK_PROOF, contradicted, resembles, score_milli, scored, without
from payrec.domain.rate_book import RateBook, pivots

RATES_SCHEMA: Final[Mapping[str, pl.DataType]] = MappingProxyType(
    {
        "day": pl.Int32(),  # since 1970-01-01
        "base": pl.String(),
        "quote": pl.String(),
        "mantissa": pl.Int64(),  # units of ``quote`` for one of ``base``, without the decimal point
        "places": pl.Int8(),  # digits after it
    }
)
"""Exchange rates, one of each day, base and quote."""

_TRIPLE: Final = ("day", "paid_in", "asked_in")
_PRICED: Final = {"mantissa": pl.Int64(), "places": pl.Int8(), "rate": pl.String()}
_POWERS: Final = pl.lit(pl.Series([10**n for n in range(DERIVED_PLACES_MAX + 5)], dtype=pl.Int128))
_RATE_BOUNDS: Final = {"mantissa": (1, 10**FX_RATE_DIGITS_MAX - 1), "places": (0, FX_RATE_PLACES_MAX)}


def checked_rates(rates: pl.DataFrame) -> pl.DataFrame:
    """Return the rates in the columns of ``RATES_SCHEMA``.

    Raises
    ------
    ColumnsError
        A column is missing or has another type, or a rate is not one that ``parse_rate`` could have read.

    """
    found = checked(rates, RATES_SCHEMA)
    for name, (least, most) in _RATE_BOUNDS.items():
        if found[name].null_count() or not found[name].is_between(least, most).all():
            raise ColumnsError(name, f"must be {least} to {most}")
    return found.drop_nulls()


def exchanged(
    sides: Sides, busy: Taken, rates: pl.DataFrame, found: Candidates, rejected: pl.DataFrame, rules: MatchingRules
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Propose across currencies among the rows that are not ``busy``; returns competed pairs, and findings.

    ``found`` are the candidates of one currency, ``rejected`` the ``code`` of pairs never to propose. To the columns of
    competed pairs come ``settled_minor`` (the line's amount in the item's currency) and ``rate``.
    """
    rates = checked_rates(rates)
    if rates.is_empty():
        return _none(found, sides, rules, busy), no_findings()
    items, lines = busy.left(sides, lists=True)
    if _nothing_to_exchange(items, lines):
        return _none(found, sides, rules, busy), no_findings()
    one = _of_one_currency(items, lines)
    found = candidates(one, rules)
    pairs = _priced(without(_foreign(one, found, sides), rejected), sides, rates, rules)
    if pairs.is_empty():
        return _none(found, sides, rules, busy), no_findings()
    near = _settled(scored(pairs, sides, rules), pairs, sides, rules)
    near = near.filter(_allowed(rules))
    in_time = _in_time()
    close = pl.col("gap_minor") <= _tolerance(rules)
    chosen = near.filter(in_time & close).drop("gap_minor")
    # Nobody quoted anything: of several that are near by chance none is meant.
    only = (pl.len().over("e") == 1) & (pl.len().over("i") == 1)
    chosen = chosen.filter((pl.col("rank") >= RANK_HINT) | only)
    result = competed(chosen, found, rules, busy).with_columns(leg_minor="i_amount_minor")
    reason = pl.when(in_time).then(Reason.AMOUNT_MISMATCH.value).otherwise(Reason.DATE_OUT_OF_WINDOW.value)
    # Another amount of another currency is no neighbour, unless the line quotes the item.
    beyond = near.filter((pl.col("rank") >= RANK_HINT) & ~(in_time & close)).with_columns(
        reason=reason, fits=pl.lit(value=False)
    )
    return result, pl.concat([finding(beyond), lost(result)])


def claimed(
    sides: Sides, pairs: pl.DataFrame, rates: pl.DataFrame, rejected: pl.DataFrame, rules: MatchingRules
) -> Taken:
    """Return the items that lines of another currency quote in full and nearly pay, and those lines.

    What a line names is not for another one that only has its amount. ``pairs`` are scored, of one currency: of whoever
    is quoted or quotes in full among them nothing is claimed.
    """
    if rates.is_empty():
        return Taken(pairs["e"].clear(), pairs["i"].clear())
    proofs = pairs.filter(pl.col("rank") == RANK_PROOF)
    items, lines = Taken(proofs["e"], proofs["i"]).left(sides, lists=True)
    if items.is_empty() or lines.is_empty() or _nothing_to_exchange(items, lines):
        return Taken(pairs["e"].clear(), pairs["i"].clear())
    one = _of_one_currency(items, lines)
    quoted = _of_two_currencies(quoted_in_full(one), sides)
    priced = _priced(without(quoted, rejected), sides, checked_rates(rates), rules)
    if priced.is_empty():
        return Taken(priced["e"], priced["i"])
    near = _settled(scored(priced, sides, rules), priced, sides, rules)
    near = near.filter(_allowed(rules) & _in_time() & (pl.col("gap_minor") <= _tolerance(rules)))
    return Taken(near["e"].unique(), near["i"].unique())


def _none(found: Candidates, sides: Sides, rules: MatchingRules, busy: Taken) -> pl.DataFrame:
    empty = scored(found.pairs.clear(), sides, rules).with_columns(
        settled_minor=pl.lit(None, dtype=pl.Int64), rate=pl.lit(None, dtype=pl.String)
    )
    return competed(empty, found, rules, busy)


def _nothing_to_exchange(items: pl.DataFrame, lines: pl.DataFrame) -> bool:
    """Tell whether both sides are of one currency altogether."""
    currencies = pl.concat([items["currency"], lines["currency"]])
    return currencies.n_unique() <= 1


def _of_one_currency(items: pl.DataFrame, lines: pl.DataFrame) -> Sides:
    """Return both with keys that are salted by the direction alone, so that they join across currencies."""
    salt = pl.when(pl.col("direction") > 0).then(0).otherwise(2).cast(pl.Int64)
    return Sides(items.with_columns(salt=salt), lines.with_columns(salt=salt))


def _foreign(one: Sides, found: Candidates, sides: Sides) -> pl.DataFrame:
    """Return the pairs of two currencies that share a reference or the counterparty."""
    joins = [
        equal_pairs(
            keyed(one.expected, name), keyed(one.incoming, its_name), items_max=KEY_ITEMS_MAX, lines_max=KEY_LINES_MAX
        ).pairs
        for name, its_name in PARTY_KEYS
    ]
    quoted = found.pairs.filter((pl.col("reference") > 0) | (pl.col("end_to_end") > 0))
    pairs = distinct(pl.concat([quoted, *(unquoted(join) for join in joins)]))
    return _of_two_currencies(pairs, sides)


def _of_two_currencies(pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    return pairs.filter(sides.expected["part"][pairs["e"]] != sides.incoming["part"][pairs["i"]])


def _priced(pairs: pl.DataFrame, sides: Sides, rates: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    """Add the rate of the line's day from its currency into the item's; pairs without one are left out."""
    lines = sides.incoming.select("day", paid_in="currency")[pairs["i"]]
    items = sides.expected.select(asked_in="currency")[pairs["e"]]
    pairs = pl.concat([pairs, lines, items], how="horizontal").drop_nulls("day")
    wanted = pairs.select(_TRIPLE).unique()
    currencies = [*wanted["paid_in"].unique(), *wanted["asked_in"].unique(), *pivots(rules.base_currency)]
    of_these = rates.filter(pl.col("base").is_in(currencies) & pl.col("quote").is_in(currencies))
    book = RateBook(of_these.iter_rows(), base_currency=rules.base_currency)
    known = [book.rate(*triple) for triple in wanted.iter_rows()]
    prices = pl.DataFrame(
        [(r.mantissa, r.places, str(r)) if r is not None else (None, None, None) for r in known],
        schema=_PRICED,
        orient="row",
    )
    priced = pl.concat([wanted, prices], how="horizontal").drop_nulls("mantissa")
    return pairs.join(priced, on=_TRIPLE).sort("e", "i")


def _settled(pairs: pl.DataFrame, priced: pl.DataFrame, sides: Sides, rules: MatchingRules) -> pl.DataFrame:
    """Compare the converted amount with the item's; what is beyond any amount is left out.

    Converted in 128 bits: an amount of 63 bits times a rate of 50 times 10,000 is less.
    """
    digits = [
        side["currency"].gather(pairs[end]).replace_strict(dict(MINOR_UNITS), default=2, return_dtype=pl.Int64)
        for side, end in ((sides.expected, "e"), (sides.incoming, "i"))
    ]
    up, down = pl.max_horizontal("more", 0), pl.max_horizontal(0 - pl.col("more"), 0)
    divisor = _POWERS.gather(pl.col("places") + down)
    # Rounded half up, without doubling a numerator that may fill the bits.
    product = pl.col("i_amount_minor").cast(pl.Int128) * pl.col("mantissa").cast(pl.Int128) * _POWERS.gather(up)
    whole, rest = product // divisor, product % divisor
    minor = whole + (2 * rest >= divisor).cast(pl.Int128)
    asked = pl.col("e_amount_minor")
    frame = (
        pairs.with_columns(mantissa=priced["mantissa"], places=priced["places"], rate=priced["rate"])
        .with_columns(more=digits[0] - digits[1])
        .with_columns(wide=minor)
        .filter(pl.col("wide").is_between(1, AMOUNT_MINOR_MAX))
        .with_columns(settled_minor=pl.col("wide").cast(pl.Int64))
        .with_columns(
            difference_minor=pl.col("settled_minor") - asked, gap_minor=(pl.col("settled_minor") - asked).abs()
        )
        .drop("mantissa", "places", "more", "wide")
    )
    return frame.with_columns(
        amount_level=pl.lit(AmountLevel.CONVERTED.value, dtype=pl.Int8), equal=pl.lit(value=False)
    ).with_columns(score_milli=score_milli(rules))


def _in_time() -> pl.Expr:
    return pl.col("date_level") != DateLevel.OUTSIDE.value


def _tolerance(rules: MatchingRules) -> pl.Expr:
    """Return by how much a converted amount may differ; rounded up, as an amount is rounded when it is converted."""
    asked, points = pl.col("e_amount_minor"), rules.fx_tolerance_basis_points
    part = (asked % BASIS_POINTS) * points
    return (asked // BASIS_POINTS) * points + (part + BASIS_POINTS - 1) // BASIS_POINTS


def _allowed(rules: MatchingRules) -> pl.Expr:
    """Tell which pairs have evidence enough besides the amount."""
    named = pl.col("payer") | resembles()
    timely = pl.col("date_level").is_in([DateLevel.NEAR, DateLevel.CLOSE])
    hinted = pl.col("rank") >= RANK_HINT
    by_party = named & timely & ~hinted
    enough = (pl.col("rank") == RANK_PROOF) | ((hinted | by_party) & ~contradicted())
    return enough & (lacking(rules) == 0)
