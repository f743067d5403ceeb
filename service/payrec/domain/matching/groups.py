"""Explicit groups: sets that somebody named, by a group id or by quoting each reference, and whose amounts sum exactly.

Nothing is searched for blindly. A group is all open items of a group id that a line has or quotes, all items that a
line quotes in full, or all lines that quote an item in full; where these are too much, the only set among a few of
them that sums up. What sums to another amount is no group, and what is held together by nothing but its sum is not
looked for here at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import polars as pl

from payrec.domain.matching.block import beyond_budget
from payrec.domain.matching.columns import Sides, shaped
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.line_rules import Required
from payrec.domain.matching.proofs import Proofs
from payrec.domain.matching.reasons import finding, no_findings
from payrec.domain.matching.ruled import PARTIES, bound, required
from payrec.domain.matching.rules import (
    GROUP_LEGS_MAX,
    SUBSET_MEMBERS_MAX,
    AmountLevel,
    GroupLevel,
    MatchingRules,
    Reason,
)
from payrec.domain.matching.score import span
from payrec.domain.matching.subsets import only_subset
from payrec.domain.matching.weights import PRIOR_WEIGHT, WEIGHTS

GROUP_SCHEMA: Final = {
    "g": pl.UInt32(),
    "level": pl.Int8(),
    "tried": pl.Int32(),  # sets whose sum was looked at
    "named": pl.Int32(),  # transactions that are claimed in all, members or not
    "same": pl.Int32(),  # other lines that would do just as well
    "unbounded": pl.Boolean(),
    "key": pl.Int64(),  # the group id's, else null
    "coincidences_ppm": pl.Int64(),  # null but for sets that nobody named
}
_NONE: Final = pl.lit(None, dtype=pl.Int64)
_MOSTLY: Final = {"same": pl.lit(0), "unbounded": pl.lit(value=False), "key": _NONE, "coincidences_ppm": _NONE}
LEG_SCHEMA: Final = {"g": pl.UInt32(), "e": pl.UInt32(), "i": pl.UInt32(), "leg_minor": pl.Int64()}
CLAIM_SCHEMA: Final = {"i": pl.UInt32(), "key": pl.Int64(), "e": pl.UInt32()}

KEY_SCORE: Final = PRIOR_WEIGHT + WEIGHTS["amount"][AmountLevel.EQUAL] + WEIGHTS["group"][GroupLevel.BY_KEY]
"""Thousandths of log-odds of a line and the items of its group id, as far as the id and the sum go."""


@dataclass(frozen=True, slots=True)
class Groups:
    """What one way of looking has found; ``g`` numbers the groups."""

    groups: pl.DataFrame
    legs: pl.DataFrame
    findings: pl.DataFrame
    """Why rows that were claimed are in no group, as ``payrec.domain.matching.reasons`` has them."""


@cache
def no_groups() -> Groups:
    """Return nothing found."""
    return Groups(pl.DataFrame(schema=GROUP_SCHEMA), pl.DataFrame(schema=LEG_SCHEMA), no_findings())


def group_rows(groups: pl.DataFrame) -> pl.DataFrame:
    """Return the groups as GROUP_SCHEMA, with what most of them have in the columns that they do not."""
    return shaped(groups.with_columns(**{n: v for n, v in _MOSTLY.items() if n not in groups.columns}), GROUP_SCHEMA)


def _sum(column: str) -> pl.Expr:
    """Sum amounts in 128 bits: a sum that wraps could equal anything."""
    return pl.col(column).cast(pl.Int128).sum()


def _items(sides: Sides) -> pl.DataFrame:
    """Return the items with a group id that could prove: ``e``, ``key``, the amount and the days of their span."""
    first, last = span()
    return sides.expected.filter((pl.col("group_key") & 1) == 1).select(
        "amount_minor",
        e="row",
        key=pl.col("group_key") ^ pl.col("salt"),
        opens=first,
        closes=last,
    )


def _claims(
    sides: Sides, items: pl.DataFrame, refused: pl.DataFrame, rules: MatchingRules
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return each line beside each group id of open items that it has or quotes, and what these items are together.

    A line and an id of which somebody has rejected a pair are left out. Where the lines name more than the budget
    allows to look at, so are the ids that most of them name; ``i`` and ``e``, the id's first item, come as second.
    """
    batches = items.group_by("key").agg(
        _sum("amount_minor").alias("total"), pl.col("opens").max(), pl.col("closes").min(), n=pl.len(), e=pl.min("e")
    )
    lines = sides.payments()
    named = pl.concat(
        [
            lines.select("row", "salt", key="group_key"),
            lines.select("row", "salt", key="reference_keys").explode("key"),
        ]
    ).select("row", key=pl.col("key") ^ pl.col("salt"))
    rejected = refused.select(e=pl.col("code") // 2**32, i=pl.col("code") % 2**32).cast(pl.UInt32)
    named = named.drop_nulls("key").join(batches.select("key"), on="key", how="semi")
    if named.is_empty():
        return named, named
    dropped = beyond_budget(named.group_by("key").agg(pairs=pl.len()), items.height + lines.height)
    beyond = named.join(dropped, on="key").join(batches, on="key").select("e", i="row")
    claims = named.join(dropped, on="key", how="anti").unique().join(batches, on="key")
    asking = lines.select(
        "row",
        since=pl.col("day") - bound(rules, lambda bounds: bounds.date_window_days_after),
        until=pl.col("day") + bound(rules, lambda bounds: bounds.date_window_days_before),
        of_party=required(rules, PARTIES),
        by_id=required(rules, Required.END_TO_END_ID),
        line_minor="amount_minor",
    )
    told = (
        claims.join(asking, on="row")
        .rename({"row": "i"})
        .join(rejected.join(items.select("e", "key"), on="e"), on=["i", "key"], how="anti")
        .with_columns(
            days_outside=pl.max_horizontal(pl.col("opens") - pl.col("until"), pl.col("since") - pl.col("closes"))
        )
    )
    return told, beyond


def _key_fault() -> pl.Expr:
    return (
        pl.when(pl.col("total") != pl.col("line_minor"))
        .then(Reason.AMOUNT_MISMATCH.value)
        .when(pl.col("days_outside") > 0)
        .then(Reason.DATE_OUT_OF_WINDOW.value)
        # Who pays a batch is the one who collected it: of its items the id alone agrees.
        .when("by_id")
        .then(Reason.MISSING_REFERENCE.value)
        .when("of_party")
        .then(Reason.COUNTERPARTY_MISMATCH.value)
        .when(pl.col("n") > GROUP_LEGS_MAX)
        .then(Reason.BUDGET_EXHAUSTED.value)
        .otherwise(0)
    )


def by_key(
    sides: Sides, proofs: Proofs, refused: pl.DataFrame, rules: MatchingRules
) -> tuple[Groups, pl.DataFrame, Taken]:
    """Find lines that have the amount of all open items of a group id that they have or quote.

    Returns the groups, at most one for each id, all claims (``i``, ``key`` and the first item ``e`` of the id), and
    the rows of which nobody can be sure: lines of which not all claims were looked at, and what an id of the right sum
    claims although a proof of equal amount says otherwise. Takes time and memory by the number of rows, however many
    of them share an id.
    """
    items = _items(sides)
    empty = pl.Series(dtype=pl.UInt32)
    nothing = no_groups(), pl.DataFrame(schema=CLAIM_SCHEMA), Taken(empty, empty)
    if items.is_empty():
        return nothing
    claims, beyond = _claims(sides, items, refused, rules)
    if claims.is_empty() and beyond.is_empty():
        return nothing
    claims = claims.with_columns(reason=_key_fault())
    taken = items.join(proofs.settled.select("e"), on="e", how="semi").select("key").unique()
    exact = claims.filter(pl.col("reason") == 0)
    good = exact.join(proofs.settled.select("i"), on="i", how="anti").join(taken, on="key", how="anti")
    # Of an id on one item, the proof may say the same.
    same = exact.filter(pl.col("n") == 1).join(proofs.settled, on=["e", "i"], how="semi")
    beaten = exact.join(pl.concat([good, same]), on=["key", "i"], how="anti")
    chosen = good.group_by("key").agg(pl.col("i").min(), pl.col("n").first(), same=pl.len() - 1).sort("key")
    chosen = chosen.with_row_index("g")
    groups = chosen.with_columns(level=pl.lit(GroupLevel.BY_KEY.value), tried=pl.lit(1), named="n")
    legs = chosen.select("g", "key", "i").join(items, on="key").rename({"amount_minor": "leg_minor"})
    lost = claims.join(chosen.select("key", "i"), on=["key", "i"], how="anti").with_columns(
        reason=pl.when(pl.col("reason") == 0).then(Reason.AMBIGUOUS.value).otherwise(pl.col("reason")),
        fits=pl.col("reason") == 0,
        # Nearly the line's own group, but not quite: what is found by a reference of its own is told before it.
        score_milli=pl.lit(KEY_SCORE - WEIGHTS["amount"][AmountLevel.EQUAL]),
        days_outside=pl.max_horizontal("days_outside", 0),
        difference_minor=(pl.col("line_minor") - pl.col("total")).cast(pl.Int64, strict=False),
    )
    of_items = (
        lost.sort("i")
        .unique("key", keep="first", maintain_order=True)
        .drop("e")
        .join(items.select("e", "key"), on="key")
    )
    unseen = pl.concat(
        [
            beyond.group_by("i").agg(pl.col("e").min()).select("e", "i"),
            beyond.group_by("e").agg(pl.col("i").min()).select("e", "i"),
        ]
    ).with_columns(
        reason=pl.lit(Reason.BUDGET_EXHAUSTED.value),
        fits=pl.lit(value=True),
        score_milli=pl.lit(KEY_SCORE),
        days_outside=pl.lit(None, dtype=pl.Int64),
        difference_minor=pl.lit(None, dtype=pl.Int64),
    )
    findings = pl.concat([finding(frame) for frame in (lost, of_items, unseen)]).unique(["e", "i"])
    found = Groups(group_rows(groups), shaped(legs, LEG_SCHEMA), findings)
    doubtful = Taken(
        items.join(beaten.select("key").unique(), on="key", how="semi")["e"],
        pl.concat([beyond["i"], beaten["i"]]).unique(),
    )
    return found, shaped(claims, CLAIM_SCHEMA), doubtful


def _searched(members: pl.DataFrame, centre: str, member: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Look for the only set that sums up; returns the pairs of those found, and ``centre, ways`` of all."""
    lists = (
        members.sort(centre, member)
        .group_by(centre, maintain_order=True)
        .agg(pl.col(member), pl.col(f"{member}_amount_minor"), pl.col(f"{centre}_amount_minor").first())
    )
    pairs: list[tuple[int, int]] = []
    ways: list[tuple[int, int]] = []
    for middle, rows, amounts, target in lists.iter_rows():
        count, chosen = only_subset(amounts, target)
        ways.append((middle, count))
        if count == 1:
            pairs += [(middle, row) for place, row in enumerate(rows) if chosen >> place & 1]
    return (
        pl.DataFrame(pairs, schema={centre: pl.UInt32, member: pl.UInt32}, orient="row"),
        pl.DataFrame(ways, schema={centre: pl.UInt32, "ways": pl.Int32}, orient="row"),
    )


def _sums(proofs: Proofs, members: pl.DataFrame, centre: str, member: str, rules: MatchingRules) -> pl.DataFrame:
    """Return what the members of each centre are together, and what speaks against a group of them (or 0)."""
    claimed = proofs.claimed.group_by(centre).agg(named=pl.len())
    sums = members.group_by(centre).agg(
        _sum(f"{member}_amount_minor").alias("total"),
        pl.col(f"{centre}_amount_minor").first().alias("target"),
        n=pl.len(),
    )
    exact = pl.col("total") == pl.col("target")
    most = pl.when(exact).then(rules.group_size_max).otherwise(SUBSET_MEMBERS_MAX)
    return (
        sums.filter(pl.col("n") > 1)
        .join(claimed, on=centre)
        .with_columns(
            exact=exact,
            reason=pl.when(pl.col("total") < pl.col("target"))
            .then(Reason.AMOUNT_MISMATCH.value)
            .when(pl.col("n") > most)
            .then(Reason.BUDGET_EXHAUSTED.value)
            .otherwise(0),
        )
    )


def by_quotes(proofs: Proofs, rules: MatchingRules, *, of_lines: bool) -> Groups:
    """Find lines that quote several items (``of_lines``) or items that several lines quote, and whose sums agree."""
    centre, member = ("i", "e") if of_lines else ("e", "i")
    # What is as much as the centre or more belongs to no set with others.
    members = proofs.fitting.filter(pl.col(f"{member}_amount_minor") < pl.col(f"{centre}_amount_minor"))
    members = members.join(proofs.settled.select(centre), on=centre, how="anti")
    if members.is_empty():
        return no_groups()
    sums = _sums(proofs, members, centre, member, rules)
    if sums.is_empty():
        return no_groups()
    good = sums.filter(pl.col("reason") == 0)
    partial = good.filter(~pl.col("exact"))
    pairs, ways = _searched(members.join(partial, on=centre, how="semi"), centre, member)
    pairs = pl.concat([members.join(good.filter("exact"), on=centre, how="semi").select(centre, member), pairs])
    sizes = pairs.group_by(centre).agg(size=pl.len())
    whole, some = (
        (GroupLevel.BY_REFERENCES, GroupLevel.BY_SOME_REFERENCES)
        if of_lines
        else (GroupLevel.BY_INSTALMENTS, GroupLevel.BY_SOME_INSTALMENTS)
    )
    groups = (
        good.join(sizes, on=centre)
        .filter(pl.col("size") <= rules.group_size_max)
        .sort(centre)
        .with_row_index("g")
        .with_columns(
            level=pl.when(pl.col("exact") & (pl.col("n") == pl.col("named"))).then(whole.value).otherwise(some.value),
            tried=pl.when("exact").then(1).otherwise(pl.lit(2).pow(pl.col("n"))),
        )
    )
    legs = pairs.join(groups.select("g", centre), on=centre).join(
        members.select("e", "i", leg_minor=f"{member}_amount_minor"), on=["e", "i"]
    )
    findings = _failed(members, sums.join(ways, on=centre, how="left"), groups, of_lines=of_lines)
    return Groups(group_rows(groups), shaped(legs, LEG_SCHEMA), findings)


def by_short_quotes(proofs: Proofs, found: Groups, rules: MatchingRules) -> Groups:
    """Find lines that quote several items of their counterparty, some by what proves little, and have their very sum.

    No subset is searched: what proves little by itself is only taken where all of it sums up. Lines of groups that were
    ``found`` are left out, and those that have an item of their own.
    """
    if proofs.short.is_empty():
        return no_groups()
    own = proofs.short.filter(pl.col("e_amount_minor") >= pl.col("i_amount_minor")).select("i")
    lines = (
        proofs.short.select("i")
        .unique()
        .join(pl.concat([own, proofs.settled.select("i"), found.legs.select("i")]), on="i", how="anti")
    )
    members = (
        pl.concat([proofs.fitting, proofs.short])
        .join(lines, on="i", how="semi")
        .filter(pl.col("e_amount_minor") < pl.col("i_amount_minor"))
    )
    groups = (
        members.group_by("i")
        .agg(_sum("e_amount_minor").alias("total"), pl.col("i_amount_minor").first(), n=pl.len())
        .filter((pl.col("total") == pl.col("i_amount_minor")) & pl.col("n").is_between(2, rules.group_size_max))
        .sort("i")
        .with_row_index("g")
        .with_columns(
            level=pl.lit(GroupLevel.BY_QUOTES.value),
            tried=pl.lit(1),
            named="n",
        )
    )
    legs = members.join(groups.select("g", "i"), on="i").select("g", "e", "i", leg_minor="e_amount_minor")
    return Groups(group_rows(groups), shaped(legs, LEG_SCHEMA), no_findings())


def _failed(members: pl.DataFrame, sums: pl.DataFrame, groups: pl.DataFrame, *, of_lines: bool) -> pl.DataFrame:
    """Say of members that came to no group why; it tells more than what keeps each of them from being a pair.

    Lines that quote one item and are less, or more without any set that sums up, are parts of it: pairs.
    """
    centre = "i" if of_lines else "e"
    failed = sums.join(groups.select(centre), on=centre, how="anti").with_columns(
        reason=pl.when(pl.col("reason") > 0)
        .then(pl.col("reason"))
        .when(pl.col("ways") == 0)
        .then(Reason.AMOUNT_MISMATCH.value)
        .when(pl.col("ways") > 1)
        .then(Reason.AMBIGUOUS.value)
        .otherwise(Reason.BUDGET_EXHAUSTED.value)
    )
    if not of_lines:
        failed = failed.filter(pl.col("reason") != Reason.AMOUNT_MISMATCH.value)
    difference = pl.col("target") - pl.col("total") if of_lines else pl.col("total") - pl.col("target")
    return finding(
        members.join(failed.select(centre, "reason", "target", "total"), on=centre).with_columns(
            fits=pl.lit(value=True),
            score_milli=pl.col("score_milli") + 1,
            difference_minor=difference.cast(pl.Int64, strict=False),
        )
    )
