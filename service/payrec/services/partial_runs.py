"""Runs over some of what is open: what they may claim of it."""

from __future__ import annotations

from typing import Any

import polars as pl

from payrec.domain.matching.certificate import proved
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.partial import of_some_items, of_some_lines
from payrec.domain.matching.rules import GroupLevel
from payrec.domain.matching.score import NEARLY
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
    """Return COLUMNS of each item that would be accepted as paid by a line that does not name it, or pays it nearly.

    What is nearly paid may be by another line: one that has its amount, or the difference.
    """
    alone, near = pl.col("group_level") == GroupLevel.UNKNOWN.value, pl.col("amount_level").is_in(NEARLY)
    accepted = proposals.matches.with_row_index("proposal").filter("auto", (~proved() & alone) | near)
    items = snapshot.expected.select(
        *("currency", "direction", "name_key", "account_key"),
        expected="ordinal",
        asked_minor="amount_minor",
        reference_key=pl.when((pl.col("reference_key") & 1) == 1).then("reference_key"),
    )
    legs = proposals.legs.select("proposal", "expected").drop_nulls()
    paid = accepted.select("proposal", "amount_minor", near=near, alone=alone)
    rows = legs.join(paid, on="proposal").join(items, on="expected")
    asked = rows.filter("near", "alone").with_columns(amount_minor="asked_minor")
    # What is missing comes as the item does, what is too much goes back.
    way = pl.when(pl.col("incoming").is_null()).then(1).otherwise(-1).cast(pl.Int8)
    adjusted = proposals.adjustments.select("proposal", rest_minor="amount_minor", way=way)
    rest = rows.filter("near").join(adjusted, on="proposal")
    rest = rest.with_columns(amount_minor="rest_minor", direction=pl.col("direction") * pl.col("way"))
    return pl.concat([frame.select(COLUMNS) for frame in (rows, asked, rest)])
