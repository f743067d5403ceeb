"""Proposals that join just what somebody has refused to have joined: they are left out when a run commits.

The engine never pairs what was rejected as a pair. It knows nothing of sets, of which nobody has said which of their
pairs is wrong, nor of what was rejected after it was told.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from payrec.services.match_columns import Snapshot, frame_of, ids_of
from payrec.services.match_staging import Draft
from payrec.storage.match_rejections import REJECTED_COLUMNS

_ENDS: Final = ("expected", "contra_expected", "incoming", "contra_incoming")
_SIGNATURE: Final = ("legs", "signature")


def refused(draft: Draft, rejected: bytes) -> pl.Series:
    """Return the numbers of the proposals that join what a rejected match did; ``rejected`` is what the store tells.

    Two sets of legs are the same when they are as many and their hashes add up to the same.
    """
    if not rejected or draft.legs.is_empty():
        return draft.matches["proposal"].clear()
    told = frame_of(rejected, dict.fromkeys(["match_id", *REJECTED_COLUMNS], pl.String()))
    known = _signatures(_ordinals(told, draft.snapshot), "match_id")
    legs = told.group_by("match_id").agg(whole=pl.len())
    # What joins rows that the run does not look at is not proposed either.
    known = known.join(legs, on="match_id").filter(pl.col("legs") == pl.col("whole"))
    proposed = _signatures(draft.legs.select("proposal", *_ENDS), "proposal")
    return proposed.join(known, on=list(_SIGNATURE), how="semi")["proposal"]


def _ordinals(told: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
    """Return legs with the places of their rows instead of ids; a leg of a row that is not there is left out."""
    for end in _ENDS:
        ids = snapshot.expected_ids if end.endswith("expected") else snapshot.incoming_ids
        places = pl.DataFrame({f"{end}_id": ids}).with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias(end))
        told = told.with_columns(ids_of(told[f"{end}_id"])).join(places, on=f"{end}_id", how="left")
    return told.select("match_id", *_ENDS).filter(pl.sum_horizontal(pl.col(_ENDS).is_not_null()) == len(_ENDS) // 2)


def _signatures(legs: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return how many legs each has and what their hashes add up to, whichever of two of one side is called contra."""
    ends = [pl.col(end).cast(pl.Int64) for end in _ENDS]
    sides = [
        value
        for one, other in (ends[:2], ends[2:])
        for value in (pl.min_horizontal(one, other), pl.max_horizontal(one, other), one.is_null() | other.is_null())
    ]
    hashed = pl.struct([value.alias(str(place)) for place, value in enumerate(sides)]).hash()
    return legs.select(by, signature=hashed).group_by(by).agg(legs=pl.len(), signature=pl.sum("signature"))
