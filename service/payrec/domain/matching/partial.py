"""What a run may say that looked at some of the open items or lines only: never that nothing else would fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import Confidence, GroupLevel, Uniqueness

_BLIND: Final = [level.value for level in GroupLevel if level.blind]


def of_some_items(proposals: Proposals) -> Proposals:
    """Return the proposals without a claim to be the only ones: what would be a rival may not have been looked at."""
    return _less_sure(proposals, pl.lit(value=True), Uniqueness.UNBOUNDED)


def of_some_lines(proposals: Proposals, contested: pl.Series) -> Proposals:
    """Return the proposals, of which those with these numbers have a rival among the lines that were left out.

    Of sets that nobody named nobody can say that they are the only ones: any line that was left out may be of another.
    """
    proposals = _less_sure(proposals, pl.col("group_level").is_in(_BLIND), Uniqueness.UNBOUNDED)
    has_rival = pl.int_range(pl.len()).is_in(contested.implode())
    found = _less_sure(proposals, has_rival, Uniqueness.CONTESTED)
    more = pl.when(has_rival).then(pl.max_horizontal("rivals_incoming", 1)).otherwise("rivals_incoming")
    return replace(found, matches=found.matches.with_columns(rivals_incoming=more.cast(pl.Int32)))


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
