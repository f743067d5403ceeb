"""Runs over some of what is open: what they may claim of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.left_out import Rivals, rivals_wanted
from payrec.domain.matching.near import alike
from payrec.domain.matching.partial import of_some_items, of_some_lines
from payrec.domain.matching.rules import MatchingRules
from payrec.services.asking import Ask
from payrec.services.match_columns import Snapshot, array_of
from payrec.services.meanwhile import FEW, aside
from payrec.storage.other_lines import OtherLineStore


async def bounded(
    ask: Ask, params: dict[str, Any], snapshot: Snapshot, proposals: Proposals, rules: MatchingRules
) -> Proposals:
    """Return the proposals of a run with what its filters leave of their claims to be the only ones.

    Nothing is accepted among some of the items, and among some of the lines nothing that a run over all of them would
    leave to a person.
    """
    if params.get("expectedFilter"):
        return of_some_items(proposals)
    if not params.get("incomingFilter"):
        return proposals
    few = proposals.matches.height <= FEW
    wanted = await aside(rivals_wanted, proposals, snapshot.expected, snapshot.incoming, rules, few=few)
    rivalled: list[int] = []
    if not wanted.is_empty():
        rivalled = await _rivalled(OtherLineStore(await ask(), lines=array_of(snapshot.incoming_ids)), wanted)
    return of_some_lines(proposals, pl.Series("proposal", rivalled, dtype=pl.Int64))


async def _rivalled(store: OtherLineStore, wanted: Rivals) -> list[int]:
    """Return the proposals with a rival among the lines that were left out."""
    found: list[int] = []
    asking = (
        (wanted.quoted, store.quoting),
        (wanted.of_party, store.of_party),
        (wanted.paid, store.paying),
        (wanted.own, store.own),
    )
    for rows, ask in asking:
        left = rows.filter(~pl.col("proposal").is_in(found))
        if not left.is_empty():
            found += await ask(left.to_dict(as_series=False))
    said = wanted.paid.drop_nulls("reference_digits").filter(~pl.col("proposal").is_in(found))
    for row in await store.nearly(said.to_dict(as_series=False)) if not said.is_empty() else ():
        if row["quoted"] is None:
            found += row["proposals"]
            continue
        asked, quoted = (np.array(row[name], dtype=np.int64) for name in ("asked", "quoted"))
        proposals = np.array(row["proposals"], dtype=np.int64)
        found += proposals[np.any(alike(asked[:, None], quoted), axis=1)].tolist()
    return found
