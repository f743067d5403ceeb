"""What a run may say that looked at some of the open items only: never that nothing else would fit."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import Confidence, Uniqueness


def of_some_items(proposals: Proposals) -> Proposals:
    """Return the proposals without a claim to be the only ones: what would be a rival may not have been looked at."""
    status = pl.col("status")
    matches = proposals.matches.with_columns(
        status=pl.when(status == Uniqueness.UNIQUE.value)
        .then(pl.lit(Uniqueness.UNBOUNDED.value, dtype=pl.Int8))
        .otherwise(status),
        confidence=pl.min_horizontal("confidence", pl.lit(Confidence.MEDIUM.value, dtype=pl.Int8)),
        auto=pl.lit(value=False),
        sampled=pl.lit(value=False),
    )
    return replace(proposals, matches=matches, counts=replace(proposals.counts, auto_accepted=0))
