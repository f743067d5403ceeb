"""Runs over some of what is open: what they may claim of it."""

from __future__ import annotations

from typing import Any

import polars as pl

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.partial import of_some_items, of_some_lines
from payrec.domain.matching.rules import EndToEndLevel, GroupLevel, ReferenceLevel
from payrec.domain.scope import TenantScope
from payrec.services.match_columns import Snapshot, array_of
from payrec.storage.database import Database
from payrec.storage.other_lines import COLUMNS, OtherLineStore


async def bounded(
    database: Database, scope: TenantScope, params: dict[str, Any], snapshot: Snapshot, proposals: Proposals
) -> Proposals:
    """Return the proposals of a run with what its filters leave of their claims to be the only ones.

    Nothing is accepted among some of the items, and among some of the lines none that does not name what it pays, and
    that another open line may be of, nor a set that nobody named.
    """
    if params.get("expectedFilter"):
        return of_some_items(proposals)
    if not params.get("incomingFilter"):
        return proposals
    wanted = _wanted(snapshot, proposals)
    rivalled: list[int] = []
    if not wanted.is_empty():
        async with database.tenant(scope, readonly=True) as connection:
            store = OtherLineStore(connection)
            rivalled = await store.rivalled(wanted.to_dict(as_series=False), lines=array_of(snapshot.incoming_ids))
    return of_some_lines(proposals, pl.Series("proposal", rivalled, dtype=pl.Int64))


def _wanted(snapshot: Snapshot, proposals: Proposals) -> pl.DataFrame:
    """Return COLUMNS of each item that would be accepted as paid by a line that does not name it."""
    named = (pl.col("reference_level") == ReferenceLevel.FULL.value) | (
        pl.col("end_to_end_level") == EndToEndLevel.EQUAL.value
    )
    unnamed = pl.col("auto") & ~named & (pl.col("group_level") == GroupLevel.UNKNOWN.value)
    accepted = proposals.matches.with_row_index("proposal").filter(unnamed).select("proposal", "amount_minor")
    items = snapshot.expected.select(
        *("currency", "direction", "name_key", "account_key"),
        expected="ordinal",
        reference_key=pl.when((pl.col("reference_key") & 1) == 1).then("reference_key"),
    )
    legs = proposals.legs.select("proposal", "expected").drop_nulls()
    return legs.join(accepted, on="proposal").join(items, on="expected").select(COLUMNS)
