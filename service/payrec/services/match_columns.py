"""From the rows of the database to the columns of the engine. Blocking; runs in a thread."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from payrec.domain.matching.advices import ADVICES_SCHEMA
from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA, Known
from payrec.domain.matching.exchange import RATES_SCHEMA
from payrec.domain.matching.names import NAMES_SCHEMA, in_order
from payrec.storage.binary_copy import encoded
from payrec.storage.binary_reading import decoded
from payrec.storage.fx_rates import RATE_COLUMNS
from payrec.storage.match_runs import EXPECTED_COLUMNS, INCOMING_COLUMNS
from payrec.storage.remittance_advices import OPEN_COLUMNS
from payrec.storage.rows import CopiedRows

_RENAMED: Final = {"open_minor": "amount_minor", "revision": "version"}
_COLUMNS: Final = {name: column for column, name in _RENAMED.items()}
"""Columns of the engine that open rows call otherwise."""

_NOT_THE_ENGINES: Final = {"transaction_id": pl.Binary(), "reason": pl.Int16()}
_UUID_PARTS: Final = ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))
"""Where the parts of a uuid's text begin among its digits, and how many each has."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Both sides in the engine's columns, and the ids that its ordinals stand for."""

    expected: pl.DataFrame
    incoming: pl.DataFrame
    expected_ids: pl.Series
    """16 bytes each."""
    incoming_ids: pl.Series


@dataclass(frozen=True, slots=True)
class Snapshot(Rows):
    """What a run looks at."""

    expected_reasons: pl.Series
    """Why each row is open, as the last run has said."""
    incoming_reasons: pl.Series
    names: pl.DataFrame
    """The texts of name keys."""
    horizon: int = 0
    """As ``MatchRunStore.horizon`` has it."""
    known: Known = field(default_factory=Known)
    """The names that earlier runs have kept, and what is known of everything else where only a part was read."""
    kept_names: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))
    """Keys of all names that were kept, where everything was read."""
    items_open: int | None = None
    """And how many items are open in all."""
    new_names: pl.DataFrame | None = None
    """And the names among them that are not kept yet, as ``CounterpartyNameStore`` keeps them; None without any."""
    advices: pl.DataFrame | None = None
    """What payers have listed of payments that may be among the lines, as ADVICES_SCHEMA."""


def expected_frame(rows: CopiedRows) -> pl.DataFrame:
    """Return the rows that ``MatchRunStore.read_expected`` has read."""
    return _frame(rows, EXPECTED_COLUMNS, EXPECTED_SCHEMA)


def unnumbered_frame(rows: CopiedRows) -> pl.DataFrame:
    """Return the same rows without ``ordinal``."""
    return _typed(rows, EXPECTED_COLUMNS, EXPECTED_SCHEMA)


def incoming_frame(rows: CopiedRows) -> pl.DataFrame:
    """Return the rows that ``MatchRunStore.read_incoming`` has read."""
    return _frame(rows, INCOMING_COLUMNS, INCOMING_SCHEMA)


def stated_frame(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return open rows that were made anew of what transactions state; ``schema`` is the engine's of their side."""
    typed = {name: dtype for name, dtype in schema.items() if name != "ordinal"}
    columns = {name: [row[_COLUMNS.get(name, name)] for row in rows] for name in typed}
    frame = pl.DataFrame(columns, schema=typed).with_row_index("ordinal")
    return frame.with_columns(pl.col("ordinal").cast(pl.Int32)).select(list(schema))


def rates_frame(data: bytes) -> pl.DataFrame:
    """Return the exchange rates that ``FxRateStore`` has read."""
    return frame_of(data, {name: RATES_SCHEMA[name] for name in RATE_COLUMNS})


def advices_frame(data: bytes) -> pl.DataFrame:
    """Return the remittance advices that ``RemittanceAdviceStore`` has read."""
    return frame_of(data, {name: ADVICES_SCHEMA[name] for name in OPEN_COLUMNS})


def named(frame: pl.DataFrame, known: pl.Series | None = None) -> pl.DataFrame:
    """Return ``key`` and ``transaction_id``, a row of the frame for each of its names, except those already known.

    Which row's text stands for a key does not matter: all of them are the same when normalised.
    """
    names = frame.select("transaction_id", key="name_key").drop_nulls("key").unique("key", keep="any")
    return names if known is None else names.filter(~pl.col("key").is_in(known.implode()))


def array_of(ids: pl.Series) -> str:
    """Return ids as the array that the database reads."""
    return f"{{{ids.bin.encode('hex').str.join(',')[0]}}}"


def names_of(wanted: pl.DataFrame, data: bytes) -> pl.DataFrame:
    """Return the texts that ``MatchNameStore`` has read of the rows of ``named``."""
    found = frame_of(data, {"id": pl.String(), "text": pl.String()}).drop_nulls()
    texts = found.select("text", transaction_id=ids_of(found["id"]))
    return wanted.join(texts, on="transaction_id").select("key", "text")


def snapshot_of(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[pl.DataFrame], horizon: int) -> Snapshot:
    """Return the columns of both sides and the texts of their names, as ``names_of`` returns them."""
    return Snapshot(
        expected=left[[name for name in left.columns if name not in _NOT_THE_ENGINES]],
        incoming=right[[name for name in right.columns if name not in _NOT_THE_ENGINES]],
        expected_ids=left["transaction_id"],
        incoming_ids=right["transaction_id"],
        expected_reasons=left["reason"],
        incoming_reasons=right["reason"],
        names=pl.concat([pl.DataFrame(schema=NAMES_SCHEMA), *names]),
        horizon=horizon,
    )


def whole_snapshot(
    left: pl.DataFrame,
    right: pl.DataFrame,
    kept: pl.DataFrame,
    names: Sequence[pl.DataFrame],
    horizon: int,
    *,
    closed: pl.DataFrame,
) -> Snapshot:
    """Return what is open with the names that are ``kept``, and the texts of the others, beside what is ``closed``."""
    keys = pl.concat([left["name_key"], right["name_key"]]).drop_nulls().unique()
    here = kept.filter(pl.col("key").is_in(keys.implode()))
    found = snapshot_of(left, right, [here.select("key", "text"), *names], horizon)
    return replace(found, known=Known(names=in_order(here), closed=closed), kept_names=kept["key"])


def ids_at(rows: Rows, places: pl.Series, end: str) -> pl.Series:
    """Return the ids of the transactions at these places of a side, null where there is none.

    ``end`` is ``expected`` or ``incoming``, or one of them with ``contra_`` before.
    """
    return values_at(getattr(rows, f"{end.removeprefix('contra_')}_ids"), places)


def values_at(values: pl.Series, places: pl.Series) -> pl.Series:
    """Return the values at these places, null where there is none."""
    # Many columns have nothing but nulls.
    return values.clear(places.len()) if places.null_count() == places.len() else values[places]


def looked_at(snapshot: Snapshot) -> bytes:
    """Return every transaction that was read: side and id."""
    sides = [
        pl.DataFrame({"id": found}).select(pl.lit(side, dtype=pl.Int16), "id")
        for found, side in ((snapshot.expected_ids, 1), (snapshot.incoming_ids, 2))
    ]
    return encoded(pl.concat(sides))


def frame_of(data: bytes, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows of a CSV without header that PostgreSQL has written, in these columns."""
    if not data:
        return pl.DataFrame(schema=dict(schema))
    return pl.read_csv(io.BytesIO(data), has_header=False, schema=dict(schema), null_values=[""])


def texts_of(ids: pl.Series) -> pl.Series:
    """Return ids as the database writes them."""
    digits = pl.col("id").bin.encode("hex")
    parts = [digits.str.slice(start, length) for start, length in _UUID_PARTS]
    return ids.to_frame("id").select(pl.concat_str(parts, separator="-"))["id"]


def ids_of(texts: pl.Series) -> pl.Series:
    """Return ids that the database has written."""
    return texts.str.replace_all("-", "", literal=True).str.decode("hex")


def _frame(rows: CopiedRows, columns: list[str], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows in the engine's types, with their number as ``ordinal``."""
    return _typed(rows, columns, schema).with_row_index("ordinal").with_columns(pl.col("ordinal").cast(pl.Int32))


def _typed(rows: CopiedRows, columns: list[str], schema: Mapping[str, Any]) -> pl.DataFrame:
    types = {
        _RENAMED.get(name, name): _NOT_THE_ENGINES.get(name) or schema[_RENAMED.get(name, name)] for name in columns
    }
    return decoded(rows, types)
