"""Rivals: how sure a pair is once everything else that would fit is counted, and which pairs are proposed.

A pair's probability is its share of the strength of all pairs of its item and of its line, "no match" included.
Uniqueness is counted, not estimated: a rival counts unless the pair has all of the rival's evidence and more. All sums
are of integers, so no order of adding changes a bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import polars as pl
import polars.selectors as cs

from payrec.domain.matching.block import Candidates
from payrec.domain.matching.certificate import acceptable, certified
from payrec.domain.matching.columns import PAYS, Sides
from payrec.domain.matching.emptiness import of_none, once
from payrec.domain.matching.ruled import bound, least
from payrec.domain.matching.rules import (
    PARTS_PER_MILLION,
    AmountLevel,
    Confidence,
    MatchingRules,
    ReferenceLevel,
    Uniqueness,
)
from payrec.domain.matching.score import NEARLY, RANK_HINT, RANK_PROOF, contradicted, resembles


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows that something else has: places in content order (UInt32), unique."""

    items: pl.Series
    lines: pl.Series

    def touches(self) -> pl.Expr:
        """Tell of pairs whether either end is taken."""
        if self.items.is_empty() and self.lines.is_empty():
            return pl.lit(value=False)
        return pl.col("e").is_in(self.items.implode()) | pl.col("i").is_in(self.lines.implode())

    def joined(self, items: pl.Series, lines: pl.Series) -> Taken:
        """Return these rows and others."""
        if items.is_empty() and lines.is_empty():
            return self
        return Taken(once(self.items, items), once(self.lines, lines))

    def left(self, sides: Sides, *, lists: bool = False) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the items and the payments that nothing has.

        Without ``lists``, such as of all that a line quotes, which take longer than all other columns.
        """
        items, lines = (frame if lists else frame.select(~cs.list()) for frame in (sides.expected, sides.incoming))
        row = pl.col("row")
        return items.filter(~row.is_in(self.items.implode())), lines.filter(PAYS & ~row.is_in(self.lines.implode()))


_STRENGTH_CLIP: Final = 22_000
_STRENGTH_STEP: Final = 100
_NO_MATCH_STRENGTH: Final = 1_000

_STRENGTHS: Final = tuple(
    round(_NO_MATCH_STRENGTH * math.exp(milli / 1000))
    for milli in range(-_STRENGTH_CLIP, _STRENGTH_CLIP + 1, _STRENGTH_STEP)
)
"""exp(score) as integers, "no match" being 1,000. A million of the greatest still fit 64 bits."""

_CLASSES: Final = tuple((rank, payer) for rank in range(RANK_PROOF + 1) for payer in (0, 1))


@cache
def strength() -> pl.Expr:
    """Return exp(score) as an integer, "no match" being 1,000."""
    clipped = pl.col("score_milli").clip(-_STRENGTH_CLIP, _STRENGTH_CLIP)
    return pl.lit(pl.Series(_STRENGTHS, dtype=pl.Int64)).gather((clipped + _STRENGTH_CLIP) // _STRENGTH_STEP)


@cache
def probability() -> pl.Expr:
    """Return the share of ``strength`` in the ``total`` of it and its rivals, "no match" included, in millionths."""
    share = pl.col("strength") * PARTS_PER_MILLION // (pl.col("total") + _NO_MATCH_STRENGTH)
    return share.cast(pl.Int32)


@cache
def _just() -> pl.Expr:
    """Tell of pairs whether counterparty and amount agree to the minor unit, and nothing else says so.

    The counterparty also by a name that resembles it, or was taught to mean it: that is enough for a doubt.
    """
    equal = pl.col("amount_level") == AmountLevel.EQUAL.value
    return equal & (pl.col("payer") | resembles()) & (pl.col("rank") < RANK_PROOF)


def _class_columns(end: str) -> list[str]:
    return [f"{end}_class_{at}" for at in range(len(_CLASSES))]


def _tallies(pairs: pl.DataFrame, end: str) -> pl.DataFrame:
    """Count the pairs of each row of one side by class of evidence, and sum their strength.

    A flagged duplicate is no rival of the line that it repeats: the earlier of two pays.
    """
    counts = pl.lit(value=True) if end == "i" else ~pl.col("duplicate")
    return pairs.group_by(end).agg(
        pl.len().cast(pl.Int32).alias(f"{end}_pairs"),
        pl.col("strength").sum().alias(f"{end}_strength"),
        (pl.col("shared") & counts).sum().cast(pl.Int32).alias(f"{end}_shared"),
        (_just() & counts).sum().cast(pl.Int32).alias(f"{end}_just"),
        *(
            ((pl.col("class") == at) & counts).sum().cast(pl.Int32).alias(name)
            for at, name in enumerate(_class_columns(end))
        ),
    )


@cache
def _undominated(end: str) -> pl.Expr:
    """Count the rivals on one side that have some evidence which the pair lacks, or just the same."""
    names = _class_columns(end)
    result = pl.lit(0, dtype=pl.Int32)
    for at, (rank, payer) in enumerate(_CLASSES):
        rivals = [
            pl.col(names[other])
            for other, (its_rank, its_payer) in enumerate(_CLASSES)
            if other == at or its_rank > rank or its_payer > payer
        ]
        result = pl.when(pl.col("class") == at).then(pl.sum_horizontal(rivals)).otherwise(result)
    own = pl.lit(1) if end == "i" else (~pl.col("duplicate")).cast(pl.Int32)
    return result - own


@cache
def _proofs(end: str) -> pl.Expr:
    """Count the rivals on one side that have a proving reference, whatever their amount."""
    names = _class_columns(end)
    proofs = pl.sum_horizontal(pl.col(names[at]) for at, (rank, _) in enumerate(_CLASSES) if rank == RANK_PROOF)
    own = pl.col("rank") == RANK_PROOF
    # By a reference that several items have, the one is meant whose payer and amount agree.
    shared = pl.when(pl.col("payer") & pl.col("equal")).then(pl.col(f"{end}_shared")).otherwise(0)
    return proofs - shared - (own if end == "i" else own & ~pl.col("duplicate")).cast(pl.Int32)


def _with_rivals(pairs: pl.DataFrame) -> pl.DataFrame:
    """Add probability, the numbers of rivals, and how many of them count."""
    pairs = pairs.with_columns(
        strength=strength(), **{"class": (pl.col("rank") * 2 + pl.col("payer").cast(pl.Int8)).cast(pl.Int8)}
    )
    alone = ~(pl.col("e").is_duplicated() | pl.col("i").is_duplicated())
    pairs = pairs.with_columns(alone=alone)
    rivals = _among_rivals(pairs.filter(~pl.col("alone")))
    zero = pl.lit(0, dtype=pl.Int32)
    lone = pairs.filter("alone").with_columns(
        total=pl.col("strength"),
        rivals_expected=zero,
        rivals_incoming=zero,
        text_rivals=zero,
        proof_rivals=zero,
        just_rivals=zero,
        just_items=zero,
    )
    return pl.concat([lone, rivals.select(lone.columns)]).with_columns(probability_ppm=probability())


@of_none
def _among_rivals(contested: pl.DataFrame) -> pl.DataFrame:
    """Add what the rivals of each pair are together."""
    return (
        contested.join(_tallies(contested, "e"), on="e", how="left")
        .join(_tallies(contested, "i"), on="i", how="left")
        .with_columns(
            total=pl.col("e_strength") + pl.col("i_strength") - pl.col("strength"),
            rivals_expected=pl.col("i_pairs") - 1,
            rivals_incoming=pl.col("e_pairs") - 1,
            text_rivals=_undominated("e") + _undominated("i"),
            proof_rivals=_proofs("e") + _proofs("i"),
            just_rivals=pl.col("e_just") + pl.col("i_just"),
            just_items="i_just",
        )
    )


def _with_bounds(pairs: pl.DataFrame, found: Candidates) -> pl.DataFrame:
    """Add ``unbounded``: something that might be a rival was not looked at, so uniqueness cannot be claimed."""
    crowded, crowded_full = pl.col("crowded").fill_null(0), pl.col("crowded_full").fill_null(0)
    # A common reference that the item itself has speaks for no other item more than for this one.
    foreign = crowded > (pl.col("reference_level") == ReferenceLevel.COMMON.value).cast(pl.Int32)
    capped = pl.col("e").is_in(found.capped_items.implode()) | pl.col("i").is_in(found.capped_lines.implode())
    alike = pl.col("e").is_in(found.alike_items.implode()) | pl.col("i").is_in(found.alike_lines.implode())
    return (
        pairs.join(found.crowded, on="i", how="left")
        .with_columns(
            unbounded=capped | pl.when(pl.col("rank") == RANK_PROOF).then(crowded_full > 0).otherwise(foreign | alike)
        )
        .drop("crowded", "crowded_full")
    )


def assign(
    items: Sequence[int],
    lines: Sequence[int],
    scores: Sequence[int],
    parts: Sequence[bool],
    item_amounts: Sequence[int],
    line_amounts: Sequence[int],
    held: Sequence[bool],
) -> tuple[list[bool], list[bool]]:
    """Take the best pairs first, each line once, each item once or by parts up to its amount, and none that is held.

    The pairs come sorted by falling score, then content. Returns which are taken, and which of those only content
    order decided: when its turn came, another pair of the same score was free on the same line or item. Parts of one
    item do not compete with each other, only with its amount. A held pair is never taken and still counts as another:
    what holds it makes nobody surer of himself.
    """
    taken = [False] * len(items)
    tied = [False] * len(items)
    used: set[int] = set()
    left: dict[int, int] = {}

    def free(at: int) -> bool:
        if lines[at] in used:
            return False
        if parts[at]:
            return left.get(items[at], item_amounts[at]) >= line_amounts[at]
        return items[at] not in left

    start, count = 0, len(items)
    while start < count:
        stop = start + 1
        while stop < count and scores[stop] == scores[start]:
            stop += 1
        live = [at for at in range(start, stop) if free(at)]
        by_line = Counter(lines[at] for at in live)
        by_item = Counter(items[at] for at in live if not parts[at])
        for at in live:
            if held[at] or not free(at):
                continue
            taken[at] = True
            tied[at] = by_line[lines[at]] > 1 or (not parts[at] and by_item[items[at]] > 1)
            used.add(lines[at])
            left[items[at]] = left.get(items[at], item_amounts[at]) - line_amounts[at] if parts[at] else 0
        start = stop
    return taken, tied


def _with_choice(pairs: pl.DataFrame, held: Taken) -> pl.DataFrame:
    """Add ``chosen`` and ``tied``. Only pairs with rivals need the loop: nearly all others stand alone."""
    pairs = pairs.with_columns(held=held.touches())
    lone = pairs.filter("alone").with_columns(chosen=~pl.col("held"), tied=pl.lit(value=False))
    rest = pairs.filter(~pl.col("alone")).sort(["score_milli", "e", "i"], descending=[True, False, False])
    taken, tied = assign(
        rest["e"].to_list(),
        rest["i"].to_list(),
        rest["score_milli"].to_list(),
        (rest["amount_level"] == AmountLevel.SMALLER.value).to_list(),
        rest["e_amount_minor"].to_list(),
        rest["i_amount_minor"].to_list(),
        rest["held"].to_list(),
    )
    rest = rest.with_columns(chosen=pl.Series(taken, dtype=pl.Boolean), tied=pl.Series(tied, dtype=pl.Boolean))
    return pl.concat([lone, rest]).drop("held").sort("e", "i")


def standing(ambiguous: pl.Expr, *, unique: pl.Expr) -> pl.Expr:
    """Return the ``Uniqueness`` of a proposal that has a column ``unbounded``."""
    return (
        pl.when(ambiguous)
        .then(Uniqueness.AMBIGUOUS.value)
        .when("unbounded")
        .then(Uniqueness.UNBOUNDED.value)
        .when(unique)
        .then(Uniqueness.UNIQUE.value)
        .otherwise(Uniqueness.CONTESTED.value)
    )


def _told_apart(found: Candidates) -> pl.Expr:
    """Tell of pairs whether the line tells the item apart from others of its counterparty and amount.

    It does so by a reference that is quoted in part or with a digit mistaken, where none of the others is called alike.
    """
    near = pl.col("reference_level") == ReferenceLevel.NEAR.value
    return near & pl.col("payer") & ~pl.col("e").is_in(found.siblings.implode())


@of_none
def competed(pairs: pl.DataFrame, found: Candidates, rules: MatchingRules, held: Taken) -> pl.DataFrame:
    """Let the pairs without a fault compete, of which those that touch a ``held`` row are not chosen.

    Takes scored pairs, returns them sorted by (e, i) with ``probability_ppm``, ``rivals_expected``,
    ``rivals_incoming``, ``alone``, ``chosen``, ``leg_minor``, ``status`` (Uniqueness), ``confidence`` and ``auto``.
    """
    pairs = _with_choice(_with_bounds(_with_rivals(pairs), found), held)
    proof = pl.col("rank") == RANK_PROOF
    similar = resembles()
    text = (pl.col("rank") >= RANK_HINT) | pl.col("payer") | similar
    ambiguous = pl.col("tied") | pl.col("twin")
    # An item may name the payer by account and another by name, or be due when it is no rival: who has several items of
    # one amount open does not tell by the amount which one is paid.
    again = ~proof & pl.col("e").is_in(found.repeated.implode()) & ~_told_apart(found)
    # Who quotes what is somebody else's, and has such an item of his own, may have mistaken the number.
    mistaken = contradicted() & ((pl.col("text_rivals") > 0) | (pl.col("just_rivals") > 0))
    mistaken |= pl.col("named_other") & (pl.col("just_items") > 0)
    # So may who quotes one of his items, which is near, and pays to the minor unit what another one of his asks for.
    nearly = pl.col("amount_level").is_in(NEARLY) & (pl.col("just_rivals") > 0)
    other = again | pl.col("elsewhere") | pl.col("shared")
    unique = (
        pl.when(proof).then((pl.col("proof_rivals") == 0) & ~mistaken & ~nearly).otherwise(pl.col("text_rivals") == 0)
    ) & ~other
    sure = pl.col("equal") & unique & ~pl.col("unbounded")
    safe = acceptable(sure)
    status = standing(ambiguous, unique=unique)
    confidence = (
        pl.when(ambiguous | pl.col("duplicate") | ~text)
        .then(Confidence.LOW.value)
        .when(proof & sure)
        .then(Confidence.EXACT.value)
        .when(safe & (pl.col("payer") | certified(rules)))
        .then(Confidence.HIGH.value)
        .otherwise(Confidence.MEDIUM.value)
    )
    auto = (
        (pl.col("confidence") >= bound(rules, least))
        & pl.col("equal")
        & text
        & ~pl.col("pending")
        & ~pl.col("duplicate")
    )
    return pairs.with_columns(
        leg_minor=pl.min_horizontal("e_amount_minor", "i_amount_minor"),
        rivals_expected=pl.max_horizontal("rivals_expected", other.cast(pl.Int32)),
        status=status.cast(pl.Int8),
        confidence=confidence.cast(pl.Int8),
    ).with_columns(auto=auto)
