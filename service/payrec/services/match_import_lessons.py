"""What imported decisions teach: matching decides once more what was open before them, and is compared with them.

So a decision that was made elsewhere teaches what it would have taught here: that what matching would have proposed is
right, or that it is wrong where matching would have proposed something else. Workers import this.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from uuid import UUID

import polars as pl

from payrec.constants.match_imports import IMPORTED_LEARNED_LEGS_MAX, IMPORTED_LEARNED_MAX
from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.rules import MatchKind, Uniqueness
from payrec.domain.matching.score import LEVELS
from payrec.services.match_columns import (
    Snapshot,
    expected_frame,
    incoming_frame,
    named,
    snapshot_of,
    stated_frame,
)
from payrec.services.match_names import names_read
from payrec.storage.allocations import CLOSED, Side
from payrec.storage.database import Connection
from payrec.storage.match_import_lessons import MatchImportLessonStore
from payrec.storage.match_runs import MatchRunStore
from payrec.storage.open_rows import stated_open_row

Key = tuple[Side, UUID]

_HELD: Final = frozenset({"accepted", "pending_approval"})
"""Statuses in which a match has its amounts."""

_SCHEMAS: Final = {Side.EXPECTED: EXPECTED_SCHEMA, Side.INCOMING: INCOMING_SCHEMA}


@dataclass(frozen=True, slots=True)
class Past:
    """What was open before decisions were imported, and what they are."""

    snapshot: Snapshot
    legs: list[dict[str, Any]]
    """As ``MatchImportLessonStore.waiting`` tells them."""
    match_ids: list[UUID]


async def past(connection: Connection, import_id: UUID, *, today: date) -> Past | None:
    """Return what was open before the newest decisions of a file of which nobody has learned yet; None without any.

    What is still open belongs to it: it may have been taken for what they decide about. It is one stretch of time, and
    not every so manieth decision, because what competed with each other was decided about the same time.
    """
    store = MatchImportLessonStore(connection)
    legs = _whole(await store.waiting(import_id, limit=IMPORTED_LEARNED_MAX, legs=IMPORTED_LEARNED_LEGS_MAX))
    if not legs:
        return None
    runs = MatchRunStore(connection)
    opened = {
        Side.EXPECTED: expected_frame(await runs.read_expected(None, today=today)),
        Side.INCOMING: incoming_frame(await runs.read_incoming(None)),
    }
    taken = _taken(legs)
    frames, names = [], []
    texts: dict[int, str] = {}
    for side in Side:
        rows: list[dict[str, Any]] = []
        ids = list(dict.fromkeys(leg[f"{side.name.lower()}_id"] for leg in legs))
        async for stated in store.stated(side, ids):
            rows += await asyncio.to_thread(_opened, side, stated, taken)
        texts |= {row["name_key"]: row["name"] for row in rows if row["name_key"] is not None}
        names.append(await names_read(connection, side, named(opened[side])))
        frames.append(await asyncio.to_thread(_frame, side, opened[side], rows))
    own = pl.DataFrame([*texts.items()], schema=["key", "text"], orient="row")
    texts_known = pl.concat([name.cast({"key": pl.Int64(), "text": pl.String()}) for name in (*names, own)])
    snapshot = snapshot_of(frames[0], frames[1], [texts_known.unique("key", keep="any")], 0)
    return Past(snapshot, legs, list(dict.fromkeys(leg["match_id"] for leg in legs)))


def _whole(legs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the last decision where its legs may not be all."""
    if len(legs) < IMPORTED_LEARNED_LEGS_MAX:
        return legs
    return [leg for leg in legs if leg["match_id"] != legs[-1]["match_id"]]


def lessons_of(proposals: Proposals, known: Past) -> list[dict[str, Any]]:
    """Return what the proposals of one item and one line say beside the decisions, as ``keep`` takes it."""
    decided: dict[Key, UUID] = {}
    pairs: dict[tuple[UUID, UUID], dict[str, Any]] = {}
    for leg in known.legs:
        decided.setdefault((Side.EXPECTED, leg["expected_id"]), leg["match_id"])
        decided.setdefault((Side.INCOMING, leg["incoming_id"]), leg["match_id"])
        pairs[leg["expected_id"], leg["incoming_id"]] = leg
    found = []
    for row in _pairs(proposals, known.snapshot).iter_rows(named=True):
        expected_id, incoming_id = UUID(bytes=row["expected_id"]), UUID(bytes=row["incoming_id"])
        same = pairs.get((expected_id, incoming_id))
        if same is not None and same["kind"] != "one_to_one":
            # A part of what was decided is not wrong, and not right either.
            continue
        match_id = same["match_id"] if same is not None else None
        match_id = match_id or decided.get((Side.INCOMING, incoming_id)) or decided.get((Side.EXPECTED, expected_id))
        if match_id is not None:
            found.append(
                {
                    "expected_id": expected_id,
                    "incoming_id": incoming_id,
                    "match_id": match_id,
                    "rival_milli": row["rival_milli"],
                    "agrees": same is not None,
                    "levels": [row[level] for level in LEVELS],
                    "uniqueness": Uniqueness(row["status"]).name.lower(),
                }
            )
    return found


def _pairs(proposals: Proposals, snapshot: Snapshot) -> pl.DataFrame:
    """Return the proposals of one item and one line, with both ids and the score of the best that fits as well."""
    rivals = proposals.alternatives.group_by("proposal").agg(rival_milli=pl.col("score_milli").max())
    matches = proposals.matches.with_row_index("proposal").filter(pl.col("kind") == MatchKind.ONE_TO_ONE.value)
    legs = proposals.legs.select("proposal", "expected", "incoming").drop_nulls()
    rows = (
        matches.select("proposal", "status", *LEVELS).join(legs, on="proposal").join(rivals, on="proposal", how="left")
    )
    if rows.is_empty():
        return rows.with_columns(expected_id=pl.lit(b""), incoming_id=pl.lit(b""))
    return rows.with_columns(
        expected_id=snapshot.expected_ids.gather(rows["expected"]),
        incoming_id=snapshot.incoming_ids.gather(rows["incoming"]),
    )


def _taken(legs: Sequence[Mapping[str, Any]]) -> Counter[Key]:
    """Return what the decisions have of each transaction."""
    found: Counter[Key] = Counter()
    adjusted: dict[UUID, Sequence[Mapping[str, Any]]] = {}
    for leg in legs:
        if leg["status"] in _HELD:
            found[Side.EXPECTED, leg["expected_id"]] += leg["settled_minor"]
            found[Side.INCOMING, leg["incoming_id"]] += leg["amount_minor"]
            adjusted[leg["match_id"]] = leg["adjustments"] or ()
    for adjustments in adjusted.values():
        for adjustment in adjustments:
            found[Side[adjustment["side"].upper()], UUID(adjustment["id"])] += adjustment["minor"]
    return found


def _opened(side: Side, rows: Sequence[dict[str, Any]], taken: Mapping[Key, int]) -> list[dict[str, Any]]:
    """Return the open rows that transactions had before; what was closed otherwise has none."""
    found = []
    for stated in rows:
        left = stated["left_minor"] + taken.get((side, stated["id"]), 0)
        if left < 1 or stated["status"] in CLOSED:
            continue
        opened = stated_open_row(side, stated)
        found.append(opened | {"open_minor": left, "revision": stated["revision"], "name": stated["counterparty_name"]})
    return found


def _frame(side: Side, opened: pl.DataFrame, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Return what was open of a side: these rows, and of those that are ``opened`` now the others."""
    own = stated_frame(rows, _SCHEMAS[side]).with_columns(
        transaction_id=pl.Series([row["transaction_id"].bytes for row in rows], dtype=pl.Binary()),
        reason=pl.lit(None, dtype=pl.Int16()),
    )
    others = opened.filter(~pl.col("transaction_id").is_in(own["transaction_id"].implode()))
    frame = pl.concat([own.drop("ordinal"), others.select(own.drop("ordinal").columns)])
    return frame.with_row_index("ordinal").with_columns(pl.col("ordinal").cast(pl.Int32))
