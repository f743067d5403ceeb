"""Columns as PostgreSQL's binary COPY has them, into the database; out of it, see ``payrec.storage.binary_reading``.

A row of it is the number of its columns, and before each value its length, -1 for null. Text costs both ends most of
their time, so whatever is read or written by the million goes this way. Only workers import this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from payrec.storage.binary_rows import (
    FIRST_DAY,
    FIRST_MICROSECOND,
    INTEGER_BYTES,
    JSON_VERSION,
    ROWS_FEW,
    SMALL_INTEGER,
    UUID,
    written_rows,
)
from payrec.storage.copy_format import ID_BYTES, LENGTH_BYTES, NULL, ROW_BYTES, written

_ROWS_AT_ONCE: Final = 16_384
"""Rows that are written together: their bytes stay in the processor's cache from column to column."""

_ARRAY_HEADER: Final = [("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">i4"), ("size", ">i4"), ("first", ">i4")]
INTEGERS: Final[Mapping[pl.DataType, str]] = {kind: f">i{size}" for kind, size in INTEGER_BYTES.items()}

_SHAPES_MAX: Final = 2**31
"""Combinations of lengths beyond which those that there are are numbered anew, so that numbers do not overflow."""

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
_Shapes = npt.NDArray[Any]
"""Small numbers."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values of one column, of which there are few different lengths."""

    lengths: tuple[int, ...]
    """The different ones, NULL for null."""
    which: _Shapes | None
    """Which of the lengths each row has; None where all have the first."""
    values: Callable[[int, Places], npt.NDArray[Any]]
    """Returns the values of rows, all of which have this length."""


@dataclass(frozen=True, slots=True)
class _Each:
    """The values of one column, of which each is its own: those of the rows that have one."""

    lengths: npt.NDArray[np.int32]
    values: list[bytes]


@dataclass(frozen=True, slots=True)
class _Run:
    """Columns beside each other: rows in which they have the same lengths are made at once."""

    columns: list[_Cells]
    shape: _Shapes
    """The number of the lengths that each row has."""
    lengths: list[tuple[int, ...]]
    """The lengths of the columns, by the number of the shape."""
    starts_row: bool

    def size(self, shape: int) -> int:
        """Return the bytes that a row of this shape has here."""
        values = sum(LENGTH_BYTES + max(length, 0) for length in self.lengths[shape])
        return values + ROW_BYTES * self.starts_row


def encoded(frame: pl.DataFrame, *, json: Collection[str] = ()) -> bytes:
    """Return the rows for ``COPY … FROM STDIN (FORMAT BINARY)``, empty when there are none.

    16 bytes are a uuid, an array of 16-bit integers is ``smallint[]``, a list of uuids ``uuid[]``, an 8-bit integer a
    smallint; texts of the ``json`` columns are jsonb.
    """
    if frame.is_empty():
        return b""
    if frame.height <= ROWS_FEW:
        return written_rows(frame, json)
    parts = _parts([_column(column, json=column.name in json) for column in frame.get_columns()], frame.height)
    blocks = [
        _encoded(parts, np.arange(start, min(start + _ROWS_AT_ONCE, frame.height)), frame.width)
        for start in range(0, frame.height, _ROWS_AT_ONCE)
    ]
    return written(block.data for block in blocks)


def ids_from(first: int, count: int) -> pl.Series:
    """Return so many ids that follow each other."""
    halves = np.empty((count, 2), ">u8")
    low = np.uint64(first & 0xFFFF_FFFF_FFFF_FFFF) + np.arange(count, dtype=np.uint64)
    halves[:, 1] = low
    # Past the end of the lower half, the sum begins at 0 again.
    halves[:, 0] = np.uint64(first >> 64) + (low < low[:1]).astype(np.uint64)
    return pl.Series(halves.view(f"V{ID_BYTES}").ravel().tolist(), dtype=pl.Binary)


def _parts(columns: list[_Cells | _Each], rows: int) -> list[_Run | _Each]:
    """Return what a row is put together of: runs of columns, and between them those of which each value is its own."""
    parts: list[_Run | _Each] = []
    run: list[_Cells] = []
    for column in columns:
        if isinstance(column, _Cells):
            run.append(column)
            continue
        parts += [_run(run, rows, starts_row=not parts), column]
        run = []
    return [*parts, _run(run, rows, starts_row=not parts)]


def _run(columns: list[_Cells], rows: int, *, starts_row: bool) -> _Run:
    shape, count = np.zeros(rows, np.int64), 1
    for column in columns:
        if column.which is None:
            continue
        shape *= len(column.lengths)
        shape += column.which
        count *= len(column.lengths)
        if count > _SHAPES_MAX:
            shape = np.unique(shape, return_inverse=True)[1]
            count = int(shape.max()) + 1
    _, first, shape = np.unique(shape, return_index=True, return_inverse=True)
    lengths = [
        tuple(column.lengths[0 if column.which is None else int(column.which[row])] for column in columns)
        for row in first.tolist()
    ]
    return _Run(columns, shape.astype(np.int32), lengths, starts_row)


def _encoded(parts: list[_Run | _Each], rows: Places, width: int) -> Bytes:
    """Return rows that follow each other, of so many columns, without header and trailer."""
    bytes_of = [
        part.lengths[rows].clip(0) + LENGTH_BYTES
        if isinstance(part, _Each)
        else np.array([part.size(shape) for shape in range(len(part.lengths))])[part.shape[rows]]
        for part in parts
    ]
    ends = np.cumsum(np.sum(bytes_of, axis=0, dtype=np.int64))
    out = np.empty(int(ends[-1]), np.uint8)
    place = np.concatenate([[0], ends[:-1]])
    for part, size in zip(parts, bytes_of, strict=True):
        if isinstance(part, _Each):
            _write_each(out, place, part, rows)
        else:
            _write_run(out, place, part, rows, width)
        place += size
    return out


def _write_run(out: Bytes, place: Places, run: _Run, rows: Places, width: int) -> None:
    shapes = run.shape[rows]
    for shape in np.unique(shapes).tolist():
        here = np.flatnonzero(shapes == shape)
        lengths = run.lengths[shape]
        fields = [("count", ">i2")] if run.starts_row else []
        for number, length in enumerate(lengths):
            fields += [(f"length_{number}", ">i4"), *([(f"value_{number}", f"V{length}")] if length > 0 else [])]
        if not fields:
            continue
        # What all rows have is written once and multiplied: their number of columns, and every length.
        one = np.zeros(1, fields)
        if run.starts_row:
            one["count"] = width
        for number, length in enumerate(lengths):
            one[f"length_{number}"] = length
        made = np.repeat(one, here.size)
        for number, (column, length) in enumerate(zip(run.columns, lengths, strict=True)):
            if length > 0:
                made[f"value_{number}"] = column.values(length, rows[here]).view(f"V{length}")
        anywhere(out, f"V{made.itemsize}")[place[here]] = made.view(f"V{made.itemsize}")


def _write_each(out: Bytes, place: Places, each: _Each, rows: Places) -> None:
    lengths = each.lengths[rows]
    anywhere(out, ">i4")[place] = lengths
    there = lengths != NULL
    first = int((each.lengths[: int(rows[0])] != NULL).sum())
    view = out.data
    for at, value in zip((place[there] + LENGTH_BYTES).tolist(), each.values[first:], strict=False):
        view[at : at + len(value)] = value


def anywhere(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """Return the bytes as values of a type that begin at every one of them."""
    size = np.dtype(kind).itemsize
    return np.ndarray((max(data.size - size + 1, 0),), kind, data, strides=(1,))


def _column(column: pl.Series, *, json: bool) -> _Cells | _Each:
    kind = column.dtype
    if column.null_count() == column.len():
        return _Cells((NULL,), None, lambda _length, rows: rows)
    if isinstance(kind, pl.List):
        return _each(column, _id_arrays(column.drop_nulls()))
    if json:
        return _each(column, [JSON_VERSION + text.encode() for text in column.drop_nulls().to_list()])
    if kind == pl.String():
        return _texts(column)
    if kind in INTEGERS:
        return _fixed(column, _filled(column, 0).to_numpy().astype(INTEGERS[kind]))
    if kind == pl.Date():
        return _fixed(column, (_filled(column.to_physical(), 0).to_numpy() - FIRST_DAY).astype(">i4"))
    if isinstance(kind, pl.Datetime):
        since = _filled(column.to_physical(), 0).to_numpy() - FIRST_MICROSECOND
        return _fixed(column, since.astype(">i8"))
    if kind == pl.Boolean():
        return _fixed(column, _filled(column, value=False).to_numpy().astype("u1"))
    if kind == pl.Binary():
        return _fixed(column, _ids(_filled(column, bytes(ID_BYTES))))
    return _small_arrays(column)


def _filled(column: pl.Series, value: object) -> pl.Series:
    return column.fill_null(value) if column.null_count() else column


def _ids(column: pl.Series) -> npt.NDArray[Any]:
    """Return 16 bytes each, none of them null."""
    digits = column.bin.reinterpret(dtype=pl.Array(pl.UInt8, ID_BYTES)).to_numpy()
    return np.ascontiguousarray(digits).view(f"V{ID_BYTES}").ravel()


def _fixed(column: pl.Series, raw: npt.NDArray[Any]) -> _Cells:
    """Return values of one length; those of rows without any do not matter."""
    size = raw.dtype.itemsize
    which = column.is_null().to_numpy().astype(np.int8) if column.null_count() else None
    return _Cells((size, NULL), which, lambda _length, rows: raw[rows])


def _texts(column: pl.Series) -> _Cells:
    """Return texts of which there are few different ones."""
    different = (column.drop_nulls() if column.null_count() else column).unique()
    texts = [text.encode() for text in different.to_list()]
    if len(texts) == 1 and not column.null_count():
        one = np.array(texts, f"V{len(texts[0])}") if texts[0] else np.empty(1)
        return _Cells((len(texts[0]),), None, lambda _length, rows: np.repeat(one, rows.size))
    lengths = sorted({*map(len, texts), *([NULL] if column.null_count() else [])})
    number = column.replace_strict(different, pl.int_range(different.len(), eager=True), return_dtype=pl.Int64)
    numbers = number.cast(pl.Int64).fill_null(NULL).to_numpy()
    kind = np.array([lengths.index(length) for length in [*map(len, texts), NULL] if length in lengths], np.int32)
    tables = {length: np.array([text[:length] for text in texts], f"S{length}") for length in lengths if length > 0}
    which = kind[numbers] if len(lengths) > 1 else None
    return _Cells(tuple(lengths), which, lambda length, rows: tables[length][numbers[rows]])


def _each(column: pl.Series, values: list[bytes]) -> _Each:
    lengths = np.full(column.len(), NULL, np.int32)
    lengths[column.is_not_null().to_numpy()] = [len(value) for value in values]
    return _Each(lengths, values)


def _small_arrays(column: pl.Series) -> _Cells:
    """Return arrays of the same size, none of them null."""
    values = column.to_numpy()
    rows, size = values.shape
    items = np.empty((rows, size), [("length", ">i4"), ("value", ">i2")])
    items["length"], items["value"] = 2, values
    raw = np.empty(rows, [*_ARRAY_HEADER, ("items", items.dtype, (size,))])
    raw[["dimensions", "nulls", "type", "size", "first"]] = np.array((1, 0, SMALL_INTEGER, size, 1), _ARRAY_HEADER)
    raw["items"] = items
    return _fixed(column, raw.view(f"V{raw.dtype.itemsize}"))


def _id_arrays(lists: pl.Series) -> list[bytes]:
    """Return lists of ids, none of them empty."""
    ids = _ids(lists.explode())
    items = np.empty(ids.size, [("length", ">i4"), ("value", ids.dtype)])
    items["length"], items["value"] = ID_BYTES, ids
    ends = np.cumsum(lists.list.len().to_numpy()).tolist()
    return [
        np.array((1, 0, UUID, end - start, 1), _ARRAY_HEADER).tobytes() + items[start:end].tobytes()
        for start, end in zip([0, *ends], ends, strict=False)
    ]
