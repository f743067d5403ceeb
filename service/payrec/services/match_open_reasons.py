"""Why what a run leaves is open, as far as that is not what was said before. Blocking."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import polars as pl

from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import Reason
from payrec.services.match_columns import Snapshot
from payrec.storage.binary_copy import encoded

_SIDES: Final = (("expected", 1), ("incoming", 2))
_OTHER_SIDE: Final = {"expected": "incoming", "incoming": "expected"}


def new_reasons(proposals: Proposals, snapshot: Snapshot, *, filtered: Collection[str] = ()) -> bytes:
    """Return why transactions are open where it is not what it was: side, id and reason.

    Of a side that was ``filtered`` not everybody was looked at: that nobody was found there takes back nothing that an
    earlier run has said of the other side.
    """
    changes = []
    for (name, side), found in zip(_SIDES, (proposals.open_expected, proposals.open_incoming), strict=True):
        ids, before = getattr(snapshot, f"{name}_ids"), getattr(snapshot, f"{name}_reasons")
        rows = (
            pl.DataFrame({"id": ids, "before": before})
            .with_row_index("ordinal")
            .with_columns(pl.col("ordinal").cast(pl.Int32))
            .join(found.select("ordinal", "reason"), on="ordinal", how="left", maintain_order="left")
            .filter(pl.col("before").ne_missing(pl.col("reason").cast(pl.Int16)))
        )
        if _OTHER_SIDE[name] in filtered:
            said = (pl.col("reason") == Reason.NO_CANDIDATE.value) & pl.col("before").is_not_null()
            rows = rows.filter(~said.fill_null(value=False))
        changes.append(rows.select(pl.lit(side, dtype=pl.Int16), "id", pl.col("reason").cast(pl.Int16)))
    return encoded(pl.concat(changes))
