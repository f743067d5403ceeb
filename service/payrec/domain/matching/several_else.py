"""Differences that several things of a counterparty are together: two small items beside the one that is paid too much.

Only what is smaller than the difference counts, which is small itself: nearly no counterparty has two of that. Where
one has too many to try all sets, any difference may be one.
"""

from __future__ import annotations

import polars as pl

from payrec.domain.matching.columns import PARTY_KEYS
from payrec.domain.matching.rules import SUBSET_MEMBERS_MAX
from payrec.domain.matching.subsets import only_subset

_ENDS = ("e", "i")


def asked_of(asked: pl.DataFrame, frame: pl.DataFrame, end: str) -> pl.DataFrame:
    """Add to amounts what their ``end`` is of: currency, parties, its ``own`` amount, and the direction of the way."""
    said = frame.select("currency", "direction", *PARTY_KEYS, own="amount_minor", **{end: "row"})
    return asked.join(said, on=end).with_columns(direction=(pl.col("direction") * pl.col("way")).cast(pl.Int8))


def several(gaps: pl.DataFrame, frame: pl.DataFrame, end: str) -> pl.DataFrame:
    """Return ``e, i`` of the gaps that several rows of their ``end``'s counterparty sum up to.

    ``gaps`` has ``e, i, amount_minor, way``.
    """
    if gaps.is_empty():
        return gaps.select(_ENDS)
    its = asked_of(gaps, frame, end)
    most = its["amount_minor"].max()
    found = [gaps.select(_ENDS).clear()]
    for name in PARTY_KEYS:
        key = ["currency", "direction", name]
        few = frame.select(*key, "row", less="amount_minor").filter(pl.col("less") < most).drop_nulls(name)
        few = few.join(its.select(key).unique(), on=key, how="semi").sort("less", "row")
        # One more than can be tried, and one that may be its own.
        few = few.group_by(key, maintain_order=True).head(SUBSET_MEMBERS_MAX + 2)
        members = its.drop_nulls(name).join(few, on=key).filter(pl.col("less") < pl.col("amount_minor"))
        sets = members.filter(pl.col("row") != pl.col(end)).group_by(*_ENDS, "amount_minor").agg("less")
        sets = sets.filter(pl.col("less").list.len() > 1)
        told = [_sums_up(less, target) for target, less in sets.select("amount_minor", "less").iter_rows()]
        found.append(sets.filter(pl.Series(told, dtype=pl.Boolean)).select(_ENDS))
    return pl.concat(found).unique()


def _sums_up(amounts: list[int], target: int) -> bool:
    return len(amounts) > SUBSET_MEMBERS_MAX or only_subset(amounts, target)[0] > 0
