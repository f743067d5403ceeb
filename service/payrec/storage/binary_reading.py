"""Columns out of what PostgreSQL's binary COPY gives, as ``payrec.storage.binary_copy`` describes it.

Where a value begins depends on which of those before it are there, so a block of rows is read column by column, and
every column moves the places of all of them on. Only workers import this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from payrec.storage.binary_copy import INTEGERS, Bytes, Places, anywhere
from payrec.storage.binary_rows import ARRAY_HEADER_BYTES, ITEM_BYTES, ROWS_FEW, read_rows
from payrec.storage.copy_format import HEADER, ID_BYTES, LENGTH_BYTES, NULL, ROW_BYTES
from payrec.storage.rows import CopiedRows

_ROWS_AT_ONCE: Final = 16_384
"""Rows that are read together: their bytes stay in the processor's cache from column to column."""

_SHORT_TEXT_BYTES: Final = 7
"""A text of at most so many bytes is looked up as a number."""

_NUMBER_BYTES: Final = 8
_LENGTH_SHIFT: Final = _SHORT_TEXT_BYTES * 8
"""Where the length of a short text is in its number: above its bytes, so that no text is the end of another."""

_There = npt.NDArray[np.bool_]
_Lengths = npt.NDArray[np.int32]


def decoded(rows: CopiedRows, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows in columns of these types, in the order of the query."""
    # The header comes with the first row; the trailer is a message of its own, and the only one when there are no rows.
    count = rows.height
    if count < 1:
        return pl.DataFrame(schema=dict(schema))
    if count <= ROWS_FEW:
        return read_rows(rows.data, schema)
    data = np.frombuffer(rows.data, np.uint8)
    place = np.zeros(count, np.int64)
    np.cumsum(np.asarray(rows.sizes, np.int64)[: count - 1], out=place[1:])
    place[0] = len(HEADER)
    place += ROW_BYTES
    columns = {name: _column(kind, count) for name, kind in schema.items()}
    for start in range(0, count, _ROWS_AT_ONCE):
        block = slice(start, min(start + _ROWS_AT_ONCE, count))
        here = place[block]
        for column in columns.values():
            column.read(data, here, block)
    # Each is let go of as soon as it is one of polars.
    return pl.DataFrame({name: columns.pop(name).series() for name in schema})


class _Column(ABC):
    """The values of one column, block by block."""

    def __init__(self, kind: Any, count: int) -> None:
        self._kind = kind
        self._there = np.empty(count, np.bool_)

    @abstractmethod
    def read(self, data: Bytes, place: Places, block: slice) -> None:
        """Read the values that are at these places, which belong to these rows; ``place`` is then where they end."""

    @abstractmethod
    def series(self) -> pl.Series:
        """Return all values."""

    def _marked(self, series: pl.Series) -> pl.Series:
        """Return the values, null where there is none."""
        return series if self._there.all() else series.set(pl.Series(~self._there), None)


class _Fixed(_Column):
    """Values that have one size."""

    def __init__(self, kind: Any, count: int, wire: str) -> None:
        super().__init__(kind, count)
        self._wire = wire
        self._values = np.empty(count, wire.replace(">", "="))
        self._step = LENGTH_BYTES + self._values.itemsize

    def read(self, data: Bytes, place: Places, block: slice) -> None:
        # The first byte of a length, which is small, or -1 for null.
        there = self._there[block] = data[place] == 0
        found = anywhere(data, self._wire)
        # What stands where there is no value does no harm, and to leave it out takes longer. Only after the last value
        # of all there may be less than one.
        self._values[block] = found[np.minimum(place + LENGTH_BYTES, found.size - 1)]
        place += self._step if there.all() else np.where(there, self._step, LENGTH_BYTES)

    def series(self) -> pl.Series:
        if self._kind == pl.Binary():
            digits = self._values.view(np.uint8).reshape(-1, ID_BYTES)
            return self._marked(pl.Series(digits).cast(pl.List(pl.UInt8)).cast(pl.Binary))
        if self._kind == pl.Boolean():
            return self._marked(pl.Series(self._values.view(np.bool_)))
        # The database has smallints where the engine has bytes.
        return self._marked(pl.Series(self._values).cast(self._kind))


class _Varying(_Column):
    """Values of which each has its own size."""

    def __init__(self, kind: Any, count: int) -> None:
        super().__init__(kind, count)
        self._blocks: list[pl.Series] = []

    def read(self, data: Bytes, place: Places, block: slice) -> None:
        lengths = anywhere(data, ">i4")[place].astype(np.int32)
        place += LENGTH_BYTES
        there = self._there[block] = lengths != NULL
        values = _integer_lists if isinstance(self._kind, pl.List) else _texts
        if there.all():
            self._blocks.append(values(data, place, lengths))
        else:
            self._blocks.append(_spread(values(data, place[there], lengths[there]), there))
        place += np.maximum(lengths, 0)

    def series(self) -> pl.Series:
        return pl.concat(self._blocks, rechunk=True)


def _column(kind: Any, count: int) -> _Column:
    if kind in INTEGERS:
        return _Fixed(kind, count, INTEGERS[kind])
    if kind == pl.Boolean():
        return _Fixed(kind, count, "u1")
    if kind == pl.Binary():
        return _Fixed(kind, count, f"V{ID_BYTES}")
    return _Varying(kind, count)


def _spread(values: pl.Series, there: _There) -> pl.Series:
    """Return the values at the rows that have one, null at the others."""
    places = np.cumsum(there) - 1
    return values.gather(pl.Series(places).set(pl.Series(~there), None))


def _texts(data: Bytes, place: Places, lengths: _Lengths) -> pl.Series:
    """Return texts: of short ones, each different one is read once."""
    if lengths.size == 0:
        return pl.Series(dtype=pl.String)
    if lengths.max() > _SHORT_TEXT_BYTES:
        whole = data.tobytes()
        ends = (place + lengths).tolist()
        return pl.Series([whole[at:end].decode() for at, end in zip(place.tolist(), ends, strict=True)])
    # From the last number that there is room for, the text is further in.
    found = anywhere(data, ">u8")
    first = np.minimum(place, found.size - 1)
    beyond = (_NUMBER_BYTES - lengths).astype(np.int64) * 8
    moved = found[first].astype(np.uint64) << ((place - first) * 8).astype(np.uint64)
    # In two steps, because to move a number by all of its bits leaves it as it is.
    numbers = (moved >> (beyond // 2).astype(np.uint64)) >> (beyond - beyond // 2).astype(np.uint64)
    numbers |= lengths.astype(np.uint64) << np.uint64(_LENGTH_SHIFT)
    series = pl.Series(numbers)
    different = series.unique()
    texts = [
        number.to_bytes(_NUMBER_BYTES)[_NUMBER_BYTES - (number >> _LENGTH_SHIFT) :].decode()
        for number in different.to_list()
    ]
    return series.replace_strict(different, pl.Series(texts, dtype=pl.String), return_dtype=pl.String)


def _integer_lists(data: Bytes, place: Places, lengths: _Lengths) -> pl.Series:
    """Return arrays of 64-bit integers without nulls; an empty one has no more than a part of the header."""
    counts = np.maximum(lengths - ARRAY_HEADER_BYTES, 0) // ITEM_BYTES
    rows = np.repeat(np.arange(counts.size), counts)
    within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    items = place[rows] + ARRAY_HEADER_BYTES + LENGTH_BYTES + within * ITEM_BYTES
    found = (
        # Of sorted rows groups are made without looking for them.
        pl.DataFrame({"row": pl.Series(rows).set_sorted(), "item": anywhere(data, ">i8")[items].astype("=i8")})
        .group_by("row", maintain_order=True)
        .agg("item")["item"]
    )
    empty = pl.Series([[]], dtype=pl.List(pl.Int64))
    there = counts > 0
    return pl.concat([found, empty], rechunk=True).gather(np.where(there, np.cumsum(there) - 1, found.len()))
