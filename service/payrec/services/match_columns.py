"""From the rows of the database to the columns of the engine. Blocking; runs in a thread."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.domain.matching.names import NAMES_SCHEMA
from payrec.storage.match_runs import EXPECTED_COLUMNS, INCOMING_COLUMNS

_RENAMED: Final = {"open_minor": "amount_minor", "revision": "version"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a run looks at: the engine's columns, and the ids that its ordinals stand for."""

    expected: pl.DataFrame
    incoming: pl.DataFrame
    expected_ids: pl.Series
    incoming_ids: pl.Series
    expected_reasons: pl.Series
    """Why each row is open, as the last run has said."""
    incoming_reasons: pl.Series
    names: pl.DataFrame
    """The texts of name keys."""


def expected_frame(data: bytes) -> pl.DataFrame:
    """Return the rows that ``MatchRunStore.read_expected`` has read."""
    return _frame(data, EXPECTED_COLUMNS, EXPECTED_SCHEMA)


def incoming_frame(data: bytes) -> pl.DataFrame:
    """Return the rows that ``MatchRunStore.read_incoming`` has read."""
    return _frame(data, INCOMING_COLUMNS, INCOMING_SCHEMA)


def snapshot_of(left: pl.DataFrame, right: pl.DataFrame, names: bytes) -> Snapshot:
    """Return the columns of both sides and the texts that ``MatchNameStore`` has read."""
    return Snapshot(
        expected=left.drop("transaction_id", "reason"),
        incoming=right.drop("transaction_id", "reason"),
        expected_ids=left["transaction_id"],
        incoming_ids=right["transaction_id"],
        expected_reasons=left["reason"],
        incoming_reasons=right["reason"],
        names=_frame(names, list(NAMES_SCHEMA), NAMES_SCHEMA).drop("ordinal").drop_nulls(),
    )


def ids_at(snapshot: Snapshot, places: pl.Series, end: str) -> pl.Series:
    """Return the ids of the transactions at these places of a side, null where there is none.

    ``end`` is ``expected`` or ``incoming``, or one of them with ``contra_`` before.
    """
    ids: pl.Series = getattr(snapshot, f"{end.removeprefix('contra_')}_ids")
    return ids.gather(places) if places.len() else ids.clear()


def frame_of(data: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows of a CSV without header that PostgreSQL has written, in these columns."""
    if not data:
        return pl.DataFrame(schema=dict(schema))
    return pl.read_csv(io.BytesIO(data), has_header=False, schema=dict(schema), null_values=[""])


def _frame(data: bytes, columns: list[str], schema: Any) -> pl.DataFrame:
    """Return the rows of a CSV in the engine's types, with their number as ``ordinal``."""
    types: dict[str, Any] = {}
    for column in columns:
        wanted = schema.get(_RENAMED.get(column, column), pl.String())
        wanted = pl.Int16() if column == "reason" else wanted
        types[column] = pl.String() if wanted in (pl.List(pl.Int64()), pl.Boolean()) else wanted
    frame = frame_of(data, types)
    changes = [pl.col(c) == "t" for c in ("pending", "reversal", "duplicate") if c in types]
    if "reference_keys" in types:
        keys = pl.col("reference_keys").fill_null("").str.split(" ")
        changes.append(keys.list.eval(pl.element().filter(pl.element() != "").cast(pl.Int64)))
    renamed = frame.with_columns(changes).rename({k: v for k, v in _RENAMED.items() if k in columns})
    return renamed.with_row_index("ordinal").with_columns(pl.col("ordinal").cast(pl.Int32))
