"""Payments that were given back by a payment of their own: not by the bank, which says so, but by whoever got them.

The earlier of two lines is given back by the later one, in whole when the counterparty or a reference says so, in part
only when both do. An item that fits is preferred: what pays an item gives nothing back.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.domain.matching.block import equal_pairs, keyed, with_code
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.money_pairs import (
    beside,
    date_level,
    edges,
    left_over,
    line_level,
    no_edges,
    salted,
)
from payrec.domain.matching.ruled import columns, strict_lines
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    REFUND_DAYS_MAX,
    AmountLevel,
    EndToEndLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    ReferenceLevel,
)
from payrec.domain.matching.score import RANK_PROOF, agreement

_SAID: Final = (
    "currency", "amount_minor", "day", "account_key", "name_key", "own_account_key", "end_to_end_key",
    "pending", "duplicate", "twin",
)  # fmt: skip


_LOOKED_AT: Final = (
    "row", "currency", "direction", "amount_minor", "account_key", "name_key", "end_to_end_key", "reference_keys",
    "reversal", "duplicate",
)  # fmt: skip


def refunds(said: Sides, sides: Sides, taken: pl.Series, rules: MatchingRules, *, quoted: bool) -> pl.DataFrame:
    """Return what may be refunds among the lines that are not ``taken``, as ``EDGE_SCHEMA``.

    Those that share a reference (``quoted``), or those that share nothing but the counterparty and the amount.
    ``said`` are the sides before repetitions were looked for: what was paid twice is what is given back most.
    """
    if said.incoming["direction"].n_unique() < 2:
        return no_edges()
    if not quoted:
        # Where something is required, nothing but a reference will do.
        taken = pl.concat([taken, strict_lines(sides, rules)]).unique()
    lines = left_over(said.incoming, taken, _LOOKED_AT).filter(~pl.col("reversal") & ~pl.col("duplicate"))
    lines = salted(lines)
    arrived, left = (lines.filter(pl.col("direction") == direction) for direction in (1, -1))
    if arrived.is_empty() or left.is_empty():
        return no_edges()
    if quoted:
        keys = _quoting(left)
        joins = [(_quoting(arrived).join(keys, on="key", how="semi"), keys)]
    else:
        sides_of = (arrived, left), _telling(arrived, left)
        joins = [
            (keyed(one, name, with_amount=True), keyed(other, name, with_amount=True))
            for name, (one, other) in zip(("account_key", "name_key"), sides_of, strict=True)
        ]
    found = [equal_pairs(one, other, items_max=KEY_ITEMS_MAX, lines_max=KEY_ITEMS_MAX) for one, other in joins]
    crowded = pl.concat([rows.alias("row") for join in found for rows in (join.crowded_items, join.crowded_lines)])
    pairs = pl.concat([join.pairs for join in found]).unique()
    if pairs.is_empty():
        return no_edges()
    alone = _alone(pairs, lines, said) if quoted else pl.DataFrame(schema={"code": pl.Int64})
    return _judged(pairs, sides, crowded.unique(), alone, rules, quoted=quoted)


def _telling(arrived: pl.DataFrame, left: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the lines with a name that says who it is: what banks call their fees is the name of many lines."""
    names = pl.concat([frame.select("name_key") for frame in (arrived, left)]).drop_nulls()
    many = names.group_by("name_key").len().filter(pl.col("len") > KEY_ITEMS_MAX)
    if many.is_empty():
        return arrived, left
    return arrived.join(many, on="name_key", how="anti"), left.join(many, on="name_key", how="anti")


def _quoting(lines: pl.DataFrame) -> pl.DataFrame:
    """Return ``row`` and ``key``: everything that a line quotes, its end-to-end id included, and that could prove."""
    keys = lines.select("row", "salt", key="reference_keys").explode("key").filter((pl.col("key") & 1) == 1)
    return keys.select("row", key=pl.col("key") ^ pl.col("salt"))


def _alone(pairs: pl.DataFrame, lines: pl.DataFrame, said: Sides) -> pl.DataFrame:
    """Return ``code`` of the pairs with something to quote that no third line quotes, of theirs or still without match.

    A customer's number is on all that he pays, and a date on all of a day: neither says what is given back.
    """
    ends = said.incoming[pl.concat([pairs["e"], pairs["i"]]).unique()]
    theirs = pl.col("account_key").is_in(ends["account_key"].drop_nulls().implode())
    theirs |= pl.col("name_key").is_in(ends["name_key"].drop_nulls().implode())
    others = said.incoming.select("row", "currency", "account_key", "name_key", "reference_keys").filter(theirs)
    keys = _quoting(
        pl.concat(
            [lines.select("row", "salt", "reference_keys"), salted(others).select("row", "salt", "reference_keys")]
        )
    ).unique()
    shared = (
        pairs.join(keys.rename({"row": "e"}), on="e")
        .join(keys.rename({"row": "i"}), on=["i", "key"])
        .join(keys.group_by("key").len(), on="key")
    )
    return with_code(shared.filter(pl.col("len") == 2)).select("code").unique()


def _judged(
    pairs: pl.DataFrame,
    sides: Sides,
    crowded: pl.Series,
    alone: pl.DataFrame,
    rules: MatchingRules,
    *,
    quoted: bool,
) -> pl.DataFrame:
    """Return the pairs of which the later line may give back the earlier one."""
    ids = pl.col("e_end_to_end_key")
    frame = (
        beside(pairs, sides.incoming, (*_SAID, *columns(rules)))
        .with_columns(
            later=pl.col("e_day").cast(pl.Int64) - pl.col("i_day").cast(pl.Int64),
            more=pl.col("e_amount_minor") - pl.col("i_amount_minor"),
            account_level=agreement("account"),
            name_level=agreement("name"),
            own_account_level=agreement("own_account"),
            same_id=((ids == pl.col("i_end_to_end_key")) & ((ids & 1) == 1)).fill_null(value=False),
            alone=with_code(pairs)["code"].is_in(alone["code"].implode()),
        )
        .with_columns(
            gap=pl.col("later").abs(),
            payer=(pl.col("account_level") == PartyLevel.EQUAL.value) | (pl.col("name_level") == NameLevel.EQUAL.value),
            differs=(pl.col("account_level") == PartyLevel.DIFFERENT.value)
            | (pl.col("name_level") == NameLevel.DIFFERENT.value),
            # Nobody gives back more than he got.
            part=((pl.col("more") > 0) & (pl.col("later") <= 0)) | ((pl.col("more") < 0) & (pl.col("later") >= 0)),
        )
    )
    equal, proved = pl.col("more") == 0, pl.col("alone") & pl.col("payer")
    # Who quotes the same without being the same might be anybody, were it not for the amount.
    stranger = pl.col("differs") | (pl.col("own_account_level") == PartyLevel.DIFFERENT.value) | ~pl.col("alone")
    fits = equal & (pl.col("payer") | ~stranger) | (pl.col("part") & proved) if quoted else equal & pl.col("payer")
    unsure = pl.col("e").is_in(crowded.implode()) | pl.col("i").is_in(crowded.implode())
    return edges(
        frame.filter(
            (pl.col("e_currency") == pl.col("i_currency")) & (pl.col("gap") <= REFUND_DAYS_MAX) & fits
        ).with_columns(
            reference_level=pl.when(pl.lit(quoted) & ~pl.col("same_id")).then(ReferenceLevel.FULL.value).otherwise(0),
            end_to_end_level=pl.when("same_id").then(EndToEndLevel.EQUAL.value).otherwise(0),
            amount_level=pl.when(equal).then(AmountLevel.EQUAL.value).otherwise(AmountLevel.SMALLER.value),
            date_level=date_level(),
            line_level=line_level(),
            rank=pl.when(proved & equal).then(RANK_PROOF).otherwise(0),
            pending=pl.col("e_pending") | pl.col("i_pending"),
            safe=proved & equal & ~pl.col("e_duplicate") & ~pl.col("i_duplicate"),
            unbounded=unsure,
        ),
        rules,
    )
