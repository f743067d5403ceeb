"""What a run may say that did not look at all that would fit: never that nothing else would.

So it is of a run over some of the open items or lines. And so it is where an earlier run has settled what would fit as
well: what it has accepted may be wrong, and makes nobody surer of the rest. And where the line names a number that
nothing open has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from payrec.domain.matching.certificate import proved
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import (
    Confidence,
    GroupLevel,
    LineLevel,
    MatchKind,
    NameLevel,
    PartyLevel,
    Uniqueness,
)
from payrec.domain.matching.score import said_of_line

BLIND: Final = [level.value for level in GroupLevel if level.blind]
"""Levels of sets that nobody named."""


def of_some_items(proposals: Proposals) -> Proposals:
    """Return the proposals without a claim to be the only ones: what would be a rival may not have been looked at."""
    return _less_sure(proposals, pl.lit(value=True), Uniqueness.UNBOUNDED)


def of_some_lines(proposals: Proposals, contested: pl.Series) -> Proposals:
    """Return the proposals, of which those with these numbers have a rival among the lines that were left out.

    Of sets that nobody named nobody can say that they are the only ones: any line that was left out may be of another.
    Nor of pairs that a score alone makes sure: whom a name resembles is told among all lines.
    """
    unseen = pl.col("group_level").is_in(BLIND) | _sure_by_score()
    proposals = _less_sure(proposals, unseen, Uniqueness.UNBOUNDED)
    return _rivalled(proposals, contested, "rivals_incoming")


def _sure_by_score() -> pl.Expr:
    """Tell of the levels of pairs that are sure whether neither a proof nor the counterparty makes them so."""
    names = [NameLevel.EQUAL.value, NameLevel.ULTIMATE.value]
    payer = (pl.col("account_level") == PartyLevel.EQUAL.value) | pl.col("name_level").is_in(names)
    sure = (pl.col("confidence") >= Confidence.HIGH.value) & (pl.col("kind") == MatchKind.ONE_TO_ONE.value)
    return sure & (pl.col("group_level") == GroupLevel.UNKNOWN.value) & ~proved() & ~payer


def of_settled(proposals: Proposals, seen: pl.Series, *, items: pl.Series, lines: pl.Series) -> Proposals:
    """Return the proposals, of which runs that have seen the same rows have settled rivals.

    The series have numbers of proposals: those with a rival among the ``items`` or the ``lines`` that were settled, and
    all whose rows such a run has ``seen``. Of these, no set that nobody named is the only one: any of what was settled
    may be of it. Nor is a refund: any of that may have quoted the same.
    """
    place = pl.int_range(pl.len())
    of_anything = pl.col("group_level").is_in(BLIND) | (pl.col("kind") == MatchKind.REFUND.value)
    proposals = _less_sure(proposals, of_anything & place.is_in(seen.implode()), Uniqueness.UNBOUNDED)
    # What was settled is a rival once, on whichever side: an item and its payment are mostly both.
    lines = lines.filter(~lines.is_in(items.implode()))
    proposals = _rivalled(_rivalled(proposals, items, "rivals_expected"), lines, "rivals_incoming")
    return _said(proposals, pl.concat([items, lines]), LineLevel.RIVAL_SETTLED)


def of_other_numbers(proposals: Proposals, quoting: pl.Series) -> Proposals:
    """Return the proposals, of which those with these numbers have what their line quotes as a rival."""
    return _said(_rivalled(proposals, quoting, "rivals_expected"), quoting, LineLevel.OTHER_NUMBER)


def _said(proposals: Proposals, these: pl.Series, level: LineLevel) -> Proposals:
    """Return the proposals, of which the pairs with these numbers say why they are less sure."""
    told = pl.int_range(pl.len()).is_in(these.implode()) & (pl.col("kind") == MatchKind.ONE_TO_ONE.value)
    return replace(proposals, matches=proposals.matches.with_columns(line_level=said_of_line(told, level)))


def _rivalled(proposals: Proposals, contested: pl.Series, counter: str) -> Proposals:
    """Return the proposals, of which those with these numbers have a rival at least that the counter counts."""
    has_rival = pl.int_range(pl.len()).is_in(contested.implode())
    found = _less_sure(proposals, has_rival, Uniqueness.CONTESTED)
    more = pl.when(has_rival).then(pl.max_horizontal(counter, 1)).otherwise(counter)
    return replace(found, matches=found.matches.with_columns(more.cast(pl.Int32).alias(counter)))


def _less_sure(proposals: Proposals, these: pl.Expr, instead: Uniqueness) -> Proposals:
    """Return the proposals, of which none of these is ``instead`` unique, surer than that, or accepted."""
    unique = pl.col("status") == Uniqueness.UNIQUE.value
    medium = pl.min_horizontal("confidence", pl.lit(Confidence.MEDIUM.value, dtype=pl.Int8))
    matches = proposals.matches.with_columns(
        status=pl.when(these & unique).then(pl.lit(instead.value, dtype=pl.Int8)).otherwise("status"),
        confidence=pl.when(these).then(medium).otherwise("confidence"),
        auto=pl.col("auto") & ~these,
        sampled=pl.col("sampled") & ~these,
    )
    counts = replace(proposals.counts, auto_accepted=int(matches["auto"].sum()))
    return replace(proposals, matches=matches, counts=counts)
