"""Between the rows of the database and the columns of the engine: CSV in, COPY text out. Blocking; runs in a thread."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from payrec.domain.caller import IdSource
from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.domain.matching.engine import Proposals
from payrec.domain.matching.names import NAMES_SCHEMA
from payrec.domain.matching.rules import (
    BLIND_ITEMS_MAX,
    BLIND_LINES_MAX,
    BLIND_PARTS_MAX,
    BLIND_SEARCH_ITEMS_MAX,
    GROUP_LEGS_MAX,
    SUBSET_MEMBERS_MAX,
    Confidence,
    GroupLevel,
    MatchingRules,
    MatchKind,
    Uniqueness,
)
from payrec.domain.matching.score import LEVELS
from payrec.storage.match_runs import EXPECTED_COLUMNS, INCOMING_COLUMNS, STAGED_COLUMNS, STAGED_LEG_COLUMNS

_RENAMED: Final = {"open_minor": "amount_minor", "revision": "version"}
_CONFIDENCES: Final = {c.value: c.name.lower() for c in Confidence}
_KINDS: Final = {k.value: k.name.lower() for k in MatchKind}
_UNIQUENESSES: Final = {u.value: u.name.lower() for u in Uniqueness}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a run looks at: the engine's columns, and the ids that its ordinals stand for."""

    expected: pl.DataFrame
    incoming: pl.DataFrame
    expected_ids: pl.Series
    incoming_ids: pl.Series
    names: pl.DataFrame
    """The texts of name keys."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What a run writes, as COPY text for ``MatchRunStore.stage``."""

    matches: bytes
    legs: bytes
    reasons: bytes
    looked_at: bytes


def snapshot_of(expected: bytes, incoming: bytes, names: bytes) -> Snapshot:
    """Return the frames of what ``MatchRunStore`` and ``MatchNameStore`` have read."""
    left = _frame(expected, EXPECTED_COLUMNS, EXPECTED_SCHEMA)
    right = _frame(incoming, INCOMING_COLUMNS, INCOMING_SCHEMA)
    return Snapshot(
        expected=left.drop("transaction_id"),
        incoming=right.drop("transaction_id"),
        expected_ids=left["transaction_id"],
        incoming_ids=right["transaction_id"],
        names=_frame(names, list(NAMES_SCHEMA), NAMES_SCHEMA).drop("ordinal").drop_nulls(),
    )


def staged(proposals: Proposals, snapshot: Snapshot, ids: IdSource, rules: MatchingRules, *, filtered: bool) -> Staged:
    """Render the proposals with new ids, the reasons, and for a ``filtered`` run what it looked at."""
    count = proposals.matches.height
    first = ids.block(count)
    new = pl.Series([f"{number:032x}" for number in range(first, first + count)], dtype=pl.String)
    legs = _legs(proposals, snapshot, new)
    looked_at = b""
    if filtered:
        looked_at = _copy_text(
            pl.concat(
                [
                    pl.DataFrame({"id": found}).select(pl.lit(side), "id")
                    for side, found in ((1, snapshot.expected_ids), (2, snapshot.incoming_ids))
                ]
            )
        )
    return Staged(
        matches=_copy_text(_matches(proposals, snapshot, legs, rules)),
        legs=_copy_text(legs.select(STAGED_LEG_COLUMNS)),
        reasons=_copy_text(_reasons(proposals, snapshot)),
        looked_at=looked_at,
    )


def _frame(data: bytes, columns: list[str], schema: Any) -> pl.DataFrame:
    """Return the rows of a CSV in the engine's types, with their number as ``ordinal``."""
    types: dict[str, Any] = {}
    for column in columns:
        wanted = schema.get(_RENAMED.get(column, column), pl.String())
        types[column] = pl.String() if wanted in (pl.List(pl.Int64()), pl.Boolean()) else wanted
    if data:
        frame = pl.read_csv(io.BytesIO(data), has_header=False, new_columns=columns, schema=types, null_values=[""])
    else:
        frame = pl.DataFrame(schema=types)
    changes = [pl.col(c) == "t" for c in ("pending", "reversal", "duplicate") if c in types]
    if "reference_keys" in types:
        keys = pl.col("reference_keys").fill_null("").str.split(" ")
        changes.append(keys.list.eval(pl.element().filter(pl.element() != "").cast(pl.Int64)))
    renamed = frame.with_columns(changes).rename({k: v for k, v in _RENAMED.items() if k in columns})
    return renamed.with_row_index("ordinal").with_columns(pl.col("ordinal").cast(pl.Int32))


def _copy_text(frame: pl.DataFrame) -> bytes:
    """Return the rows as PostgreSQL's COPY text. No column holds a tab, a line feed or a backslash."""
    if frame.is_empty():
        return b""
    return frame.write_csv(include_header=False, separator="\t", quote_style="never", null_value="\\N").encode()


def _legs(proposals: Proposals, snapshot: Snapshot, new: pl.Series) -> pl.DataFrame:
    """Return the legs with what both sides were, the ids of their matches being ``new``, and the day of the line."""
    legs, matches = proposals.legs, proposals.matches
    expected, incoming, number = legs["expected"], legs["incoming"], legs["proposal"]
    first = (matches["size"].cum_sum() - matches["size"]).gather(number)
    return legs.with_columns(
        match_id=new.gather(number),
        ordinal=pl.int_range(pl.len()) - first,
        expected_id=snapshot.expected_ids.gather(expected),
        incoming_id=snapshot.incoming_ids.gather(incoming),
        expected_open_minor=snapshot.expected["amount_minor"].gather(expected),
        incoming_open_minor=snapshot.incoming["amount_minor"].gather(incoming),
        expected_revision=snapshot.expected["version"].gather(expected),
        incoming_revision=snapshot.incoming["version"].gather(incoming),
        currency=snapshot.expected["currency"].gather(expected),
        auto=matches["auto"].gather(number),
        day=snapshot.incoming["booking_day"].gather(incoming),
    )


def _matches(proposals: Proposals, snapshot: Snapshot, legs: pl.DataFrame, rules: MatchingRules) -> pl.DataFrame:
    levels = pl.concat_str([pl.lit("{"), pl.concat_str(LEVELS, separator=","), pl.lit("}")])
    of_legs = legs.group_by("proposal", maintain_order=True).agg(
        pl.col("match_id", "currency").first(), effective_on=pl.col("day").max().cast(pl.Date)
    )
    return (
        pl.concat([proposals.matches, of_legs], how="horizontal")
        .join(_alternatives(proposals, snapshot), on="proposal", how="left", maintain_order="left")
        .with_columns(
            id="match_id",
            score="score_milli",
            candidates=pl.col("tried") + pl.col("rivals_expected") + pl.col("rivals_incoming"),
            kind=pl.col("kind").replace_strict(_KINDS, return_dtype=pl.String),
            confidence=pl.col("confidence").replace_strict(_CONFIDENCES, return_dtype=pl.String),
            uniqueness=pl.col("status").replace_strict(_UNIQUENESSES, return_dtype=pl.String),
            levels=levels,
            proof=_proof(rules),
        )
        .select(STAGED_COLUMNS)
    )


def _proof(rules: MatchingRules) -> pl.Expr:
    """Return how a group was found, as JSON text; null for a pair."""
    named = {"groupSizeMax": rules.group_size_max, "legsMax": GROUP_LEGS_MAX, "searchedMax": SUBSET_MEMBERS_MAX}
    blind = {
        "groupSizeMax": rules.group_size_max,
        "itemsMax": BLIND_ITEMS_MAX,
        "linesMax": BLIND_LINES_MAX,
        "partsMax": BLIND_PARTS_MAX,
        "searchedMax": BLIND_SEARCH_ITEMS_MAX,
    }
    found_blindly = pl.col("group_level").is_in([level.value for level in GroupLevel if level.blind])
    return pl.when(pl.col("group_level") != GroupLevel.UNKNOWN.value).then(
        pl.concat_str(
            [
                pl.lit('{"sets":'),
                pl.col("tried"),
                pl.lit(',"named":'),
                pl.col("named"),
                pl.lit(',"coincidencesPpm":'),
                pl.col("coincidences_ppm").cast(pl.String).fill_null("null"),
                pl.lit(',"bounds":'),
                pl.when(found_blindly).then(pl.lit(json.dumps(blind))).otherwise(pl.lit(json.dumps(named))),
                pl.lit("}"),
            ]
        )
    )


def _alternatives(proposals: Proposals, snapshot: Snapshot) -> pl.DataFrame:
    """Return ``proposal`` and ``alternatives``, its rivals as JSON text, best first."""
    found = proposals.alternatives
    text = pl.concat_str(
        [
            pl.lit('{"expected":"'),
            pl.col("expected_id"),
            pl.lit('","incoming":"'),
            pl.col("incoming_id"),
            pl.lit('","score":'),
            pl.col("score_milli"),
            pl.lit("}"),
        ]
    )
    return (
        found.with_columns(
            expected_id=snapshot.expected_ids.gather(found["expected"]),
            incoming_id=snapshot.incoming_ids.gather(found["incoming"]),
        )
        .with_columns(text=text)
        .group_by("proposal", maintain_order=True)
        .agg("text")
        .select(
            "proposal",
            alternatives=pl.concat_str([pl.lit("["), pl.col("text").list.join(","), pl.lit("]")]),
        )
    )


def _reasons(proposals: Proposals, snapshot: Snapshot) -> pl.DataFrame:
    sides = ((1, proposals.open_expected, snapshot.expected_ids), (2, proposals.open_incoming, snapshot.incoming_ids))
    return pl.concat(
        [
            frame.select(pl.lit(side), pl.Series("id", ids.gather(frame["ordinal"])), "reason")
            for side, frame, ids in sides
        ]
    )
