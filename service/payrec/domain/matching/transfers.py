"""The tenant's own money on its way: from one own account to another, and from a payment service to the bank.

Own accounts are those on which there is a line, or for which an item is expected, among what the run sees. A line that
names another own account as its counterparty, or the payout id of a line on another own account, moves the tenant's own
money: it pays no item, unless the items themselves carry its group id. Two lines of one amount and of near days alone
are no transfer, but where one of them is a payout: what left with a payout id has to arrive, and what nothing else
explains may be it. That is proposed, and never accepted without a person.

An end-to-end id alone says of two lines that they are one payment, where they name nobody, or the same. Ids such as
that of a month are used by many: where one of the two alone says whom it is from, it pays an item if one fits, and two
that name two parties are for a person to look at. So are a line that names an own account and one on it that says
nothing but that it is from somebody else than that line is to: a customer may have paid there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from payrec.domain.matching.block import equal_pairs, keyed
from payrec.domain.matching.columns import Sides
from payrec.domain.matching.money_pairs import (
    RANK_NAMED,
    beside,
    date_level,
    edges,
    left_over,
    line_level,
    no_edges,
    proved_where_strict,
    salted,
)
from payrec.domain.matching.reasons import finding, no_findings
from payrec.domain.matching.ruled import columns, strict_lines
from payrec.domain.matching.rules import (
    KEY_ITEMS_MAX,
    TRANSFER_DAYS_MAX,
    AmountLevel,
    EndToEndLevel,
    MatchingRules,
    NameLevel,
    PartyLevel,
    Reason,
    ReferenceLevel,
)
from payrec.domain.matching.score import RANK_PROOF, without

_SPAN_FACTOR: Final = 0xC2B2AE3D27D4EB4F - 2**64
"""Odd, so that wrapping multiplication keeps spans of days apart; not the number that keeps amounts apart."""

_SPAN_DAYS: Final = 2 * TRANSFER_DAYS_MAX + 1
"""Days that share a key; what is near a day is in at most two such spans."""

_SAID: Final = (
    "currency", "amount_minor", "day", "account_key", "name_key", "own_account_key", "end_to_end_key", "group_key",
    "reference_keys", "pending", "duplicate", "twin",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OwnMoney:
    """Which lines move the tenant's own money, and what may be the two ends of a transfer."""

    lines: pl.Series
    """Lines (UInt32) that pay no item, unless the items carry their group id."""
    pairs: pl.DataFrame
    """``payrec.domain.matching.money_pairs.EDGE_SCHEMA``."""
    findings: pl.DataFrame

    def others(self, sides: Sides) -> Sides:
        """Return the sides without these lines."""
        if self.lines.is_empty():
            return sides
        return replace(sides, incoming=sides.incoming.join(self.lines.to_frame("row"), on="row", how="anti"))


def own_money(sides: Sides, rules: MatchingRules, refused: pl.DataFrame) -> OwnMoney:
    """Return the lines that move the tenant's own money between its accounts.

    ``refused`` has the ``code`` of pairs that a person has rejected.
    """
    own = sides.own_accounts
    if own.is_empty():
        return OwnMoney(pl.Series(dtype=pl.UInt32), no_edges(), no_findings())
    lines = salted(sides.incoming.filter(~pl.col("reversal")))
    named = lines.filter(
        pl.col("account_key").is_in(own.implode()) & pl.col("account_key").ne_missing(pl.col("own_account_key"))
    )
    payouts = _payouts(lines)
    found, crowded = _pairs(lines.filter(~pl.col("duplicate")), named, payouts)
    pairs = without(_judged(found, sides, crowded, rules), refused)
    sure = _own_alone(pairs.filter(pl.col("rank") == RANK_PROOF), sides)
    held = pl.concat([named["row"], payouts["row"], sure["e"], sure["i"]]).unique().sort()
    reasons = _reasons(held, pairs, payouts, crowded, sides, rules)
    return OwnMoney(held, proved_where_strict(pairs, strict_lines(sides, rules)), reasons)


def _own_alone(pairs: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """Return the pairs of which neither end can be a payment of somebody whom the other does not name."""
    by_id = (pl.col("reference_level") == 0) & (pl.col("account_level") == 0)
    names = beside(pairs, sides.incoming, ["name_key"])
    alike = names.select(pl.col("e_name_key").eq_missing(pl.col("i_name_key"))).to_series()
    return pairs.filter(~by_id | alike)


def arrivals(sides: Sides, taken: pl.Series, rules: MatchingRules) -> pl.DataFrame:
    """Return payouts and what may be their arrival though nothing names them, as ``EDGE_SCHEMA``.

    Of lines that are not ``taken``: of one amount, on another own account, on the same day or within days.
    """
    if sides.incoming["direction"].n_unique() < 2:
        return no_edges()
    taken = pl.concat([taken, strict_lines(sides, rules)]).unique()
    lines = left_over(sides.incoming, taken, (*_SAID, *columns(rules), "row", "direction", "reversal"))
    lines = lines.filter(~pl.col("reversal") & ~pl.col("duplicate") & pl.col("own_account_key").is_not_null())
    left = _side(lines, -1).filter((pl.col("group_key") & 1) == 1)
    arrived = _side(lines, 1).filter(pl.col("group_key").is_null())
    if left.is_empty() or arrived.is_empty():
        return no_edges()
    keys = [
        _keyed(salted(frame).with_columns(amount_key="amount_minor"), "amount_key", spread=spread)
        for frame, spread in ((arrived, True), (left, False))
    ]
    found = equal_pairs(*keys, items_max=KEY_ITEMS_MAX, lines_max=KEY_ITEMS_MAX)
    frame = (
        beside(found.pairs.unique(), sides.incoming, (*_SAID, *columns(rules)))
        .with_columns(gap=pl.col("e_day").cast(pl.Int64) - pl.col("i_day").cast(pl.Int64))
        .filter(
            (pl.col("e_currency") == pl.col("i_currency"))
            & (pl.col("e_amount_minor") == pl.col("i_amount_minor"))
            & pl.col("gap").is_between(0, TRANSFER_DAYS_MAX)
            & (pl.col("e_own_account_key") != pl.col("i_own_account_key"))
        )
    )
    unsure = pl.concat([found.crowded_items, found.crowded_lines.alias(found.crowded_items.name)]).implode()
    return edges(
        frame.with_columns(
            amount_level=pl.lit(AmountLevel.EQUAL.value),
            date_level=date_level(),
            line_level=line_level(),
            rank=pl.lit(0),
            pending=pl.col("e_pending") | pl.col("i_pending"),
            safe=pl.lit(value=False),
            unbounded=pl.col("e").is_in(unsure) | pl.col("i").is_in(unsure),
        ),
        rules,
    )


def _side(lines: pl.DataFrame, direction: int) -> pl.DataFrame:
    return lines.filter(pl.col("direction") == direction)


def _keyed(lines: pl.DataFrame, name: str, *, spread: bool | None) -> pl.DataFrame:
    """Return ``row`` and ``key``: a key column with amount and currency, and with its span of days, or all near it."""
    keys = keyed(lines, name, with_amount=True)
    if spread is None:
        return keys
    day = pl.col("day").cast(pl.Int64)
    reach = TRANSFER_DAYS_MAX if spread else 0
    spans = pl.concat_list((day - reach) // _SPAN_DAYS, (day + reach) // _SPAN_DAYS).list.unique()
    days = lines.select("row", "day").drop_nulls("day").select("row", span=spans)
    return (
        keys.join(days, on="row")
        .explode("span")
        .select("row", key=pl.col("key") + pl.col("span") * pl.lit(_SPAN_FACTOR, dtype=pl.Int64))
    )


def _ids(lines: pl.DataFrame) -> pl.DataFrame:
    """Return every group id that could prove and is on a line, as ``key``, with the account and direction it is on."""
    return (
        lines.filter((pl.col("group_key") & 1) == 1)
        .group_by("direction", own="own_account_key", key=pl.col("group_key") ^ pl.col("salt"))
        .agg(n=pl.len())
    )


def _payouts(lines: pl.DataFrame) -> pl.DataFrame:
    """Return ``row`` and ``key`` of lines that name the group id of a line of another account and direction.

    A line that shares its group id with others of its account is one of what was collected, and not what was paid out.
    """
    ids = _ids(lines)
    empty = pl.DataFrame(schema={"row": pl.UInt32, "key": pl.Int64})
    if ids.is_empty():
        return empty
    said = ["row", "direction", "own_account_key", "salt"]
    quoted = lines.select(*said, key="reference_keys").explode("key")
    quoted = pl.concat([lines.select(*said, key="group_key"), quoted]).with_columns(pl.col("key") ^ pl.col("salt"))
    others = quoted.join(ids.select("key", "own", its_direction="direction"), on="key").filter(
        (pl.col("direction") != pl.col("its_direction")) & pl.col("own_account_key").ne_missing(pl.col("own"))
    )
    alike = ids.group_by("key", "own").agg(pl.col("n").sum())
    collected = (
        lines.select("row", own="own_account_key", key=pl.col("group_key") ^ pl.col("salt"))
        .join(alike.filter(pl.col("n") > 1), on=["key", "own"], nulls_equal=True)
        .select("row", "key")
    )
    return pl.concat([empty, others.join(collected, on=["row", "key"], how="anti").select("row", "key")]).unique()


def _pairs(lines: pl.DataFrame, named: pl.DataFrame, payouts: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return ``e`` and ``i`` that share an account, an id or a payout id, and the lines of which too many do."""
    arrived, left = _side(lines, 1), _side(lines, -1)
    named = named.filter(~pl.col("duplicate"))
    by_id = pl.col("own_account_key").is_not_null() & ((pl.col("end_to_end_key") & 1) == 1)
    issued = lines.filter((pl.col("group_key") & 1) == 1)
    claimed = lines.join(payouts.rename({"key": "payout"}), on="row").with_columns(
        payout=pl.col("payout") ^ pl.col("salt")
    )
    joins = [
        (_keyed(_side(named, 1), "account_key", spread=True), _keyed(left, "own_account_key", spread=False)),
        (_keyed(arrived, "own_account_key", spread=False), _keyed(_side(named, -1), "account_key", spread=True)),
        (
            _keyed(arrived.filter(by_id), "end_to_end_key", spread=True),
            _keyed(left.filter(by_id), "end_to_end_key", spread=False),
        ),
        (_keyed(_side(claimed, 1), "payout", spread=None), _keyed(_side(issued, -1), "group_key", spread=None)),
        (_keyed(_side(issued, 1), "group_key", spread=None), _keyed(_side(claimed, -1), "payout", spread=None)),
    ]
    found = [equal_pairs(one, other, items_max=KEY_ITEMS_MAX, lines_max=KEY_ITEMS_MAX) for one, other in joins]
    crowded = pl.concat([rows.alias("row") for join in found for rows in (join.crowded_items, join.crowded_lines)])
    return pl.concat([join.pairs for join in found]).unique(), crowded.unique()


def _names(one: str, other: str) -> pl.Expr:
    """Tell whether one end quotes or has the group id of the other, which could prove."""
    key = pl.col(f"{other}_group_key")
    quoted = pl.col(f"{one}_reference_keys").list.contains(key) | (pl.col(f"{one}_group_key") == key)
    return (quoted & ((key & 1) == 1)).fill_null(value=False)


def _judged(found: pl.DataFrame, sides: Sides, crowded: pl.Series, rules: MatchingRules) -> pl.DataFrame:
    """Return the pairs that may be transfers."""
    if found.is_empty():
        return no_edges()
    means = [
        pl.col(f"{one}_account_key") == pl.col(f"{other}_own_account_key") for one, other in (("e", "i"), ("i", "e"))
    ]
    own = pl.col("e_own_account_key"), pl.col("i_own_account_key")
    ids = pl.col("e_end_to_end_key")
    # Each of them names an account, or they are one payment.
    certain = pl.all_horizontal(pl.col("e_account_key", "i_account_key").is_not_null()) | pl.col("same_id")
    frame = (
        beside(found, sides.incoming, (*_SAID, *columns(rules)))
        .with_columns(
            gap=(pl.col("e_day").cast(pl.Int64) - pl.col("i_day").cast(pl.Int64)).abs(),
            named=pl.any_horizontal(means).fill_null(value=False),
            denied=pl.any_horizontal(~mean for mean in means).fill_null(value=False),
            same_id=((ids == pl.col("i_end_to_end_key")) & ((ids & 1) == 1)).fill_null(value=False),
            payout=_names("e", "i") | _names("i", "e"),
            apart=own[0].ne_missing(own[1]),
            other_name=(pl.col("e_name_key") != pl.col("i_name_key")).fill_null(value=False),
        )
        .with_columns(doubtful=pl.col("other_name") & ~pl.col("payout") & ~(pl.col("named") & certain))
        .filter(
            (pl.col("e_currency") == pl.col("i_currency"))
            & (pl.col("e_amount_minor") == pl.col("i_amount_minor"))
            & (pl.col("gap") <= TRANSFER_DAYS_MAX)
            & pl.col("apart")
            & (
                pl.col("payout")
                | (
                    ~pl.col("denied")
                    & (pl.col("named") | (pl.col("same_id") & (own[0] != own[1]).fill_null(value=False)))
                )
            )
        )
    )
    unsure = pl.col("e").is_in(crowded.implode()) | pl.col("i").is_in(crowded.implode())
    return edges(
        frame.with_columns(
            reference_level=pl.when("payout").then(ReferenceLevel.FULL.value).otherwise(0),
            end_to_end_level=pl.when("same_id").then(EndToEndLevel.EQUAL.value).otherwise(0),
            amount_level=pl.lit(AmountLevel.EQUAL.value),
            date_level=date_level(),
            account_level=pl.when("named").then(PartyLevel.EQUAL.value).otherwise(0),
            name_level=pl.when("doubtful").then(NameLevel.DIFFERENT.value).otherwise(0),
            line_level=line_level(),
            rank=pl.when("doubtful")
            .then(0)
            .when(pl.col("payout") | pl.col("same_id"))
            .then(RANK_PROOF)
            .otherwise(RANK_NAMED),
            pending=pl.col("e_pending") | pl.col("i_pending"),
            safe=~pl.col("doubtful"),
            unbounded=unsure,
        ),
        rules,
    )


def _reasons(
    held: pl.Series, pairs: pl.DataFrame, payouts: pl.DataFrame, crowded: pl.Series, sides: Sides, rules: MatchingRules
) -> pl.DataFrame:
    """Say why each line of own money stays open, where it does."""
    weak = pairs.filter(pl.col("rank") < RANK_PROOF)
    left = proved_where_strict(weak, strict_lines(sides, rules))
    told = [
        (_ends(pairs.filter(pl.col("rank") == RANK_PROOF)), Reason.AMBIGUOUS),
        (_ends(left), Reason.AMBIGUOUS),
        (_ends(weak), Reason.MISSING_REFERENCE),
        # The other end of a payout is there, and comes at another time or has another amount.
        (_of_other_day(payouts, sides), Reason.DATE_OUT_OF_WINDOW),
        (payouts["row"], Reason.AMOUNT_MISMATCH),
        (crowded, Reason.AMBIGUOUS),
        (held, Reason.NO_CANDIDATE),
    ]
    rows = pl.concat(
        [lines.cast(pl.UInt32).to_frame("i").with_columns(reason=pl.lit(reason.value)) for lines, reason in told]
    )
    first = rows.filter(pl.col("i").is_in(held.implode())).unique("i", keep="first", maintain_order=True)
    return finding(
        first.with_columns(
            e=None, fits=pl.lit(value=True), score_milli=pl.lit(0), days_outside=None, difference_minor=None
        )
    )


def _ends(pairs: pl.DataFrame) -> pl.Series:
    return pl.concat([pairs["e"], pairs["i"].alias("e")])


def _of_other_day(payouts: pl.DataFrame, sides: Sides) -> pl.Series:
    """Return the lines whose payout is there with their amount, so that only the days keep them apart."""
    if payouts.is_empty():
        return payouts["row"]
    lines = salted(sides.incoming)
    issued = lines.select("direction", "amount_minor", key=pl.col("group_key") ^ pl.col("salt")).drop_nulls("key")
    mine = lines.select("row", "amount_minor", direction=-pl.col("direction")).join(payouts, on="row")
    return mine.join(issued, on=["key", "direction", "amount_minor"], how="semi")["row"]
