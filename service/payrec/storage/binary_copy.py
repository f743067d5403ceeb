"""Columns as PostgreSQL's binary COPY has them, out of the database and into it.

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

from payrec.storage.rows import CopiedRows

_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""The signature, and neither flags nor an extension."""

_TRAILER: Final = b"\xff\xff"
"""In place of a number of columns."""

_ROW_BYTES: Final = 2
"""The number of columns."""

_LENGTH_BYTES: Final = 4
_ID_BYTES: Final = 16
_NULL: Final = -1
_JSON_VERSION: Final = b"\x01"
_ROWS_AT_ONCE: Final = 16_384
"""Rows that are read or written together: their bytes stay in the processor's cache from column to column."""

_SHORT_TEXT_BYTES: Final = 7
"""A text of at most so many bytes is looked up as a number."""

_FIRST_DAY: Final = 10_957
"""2000-01-01, from which PostgreSQL counts, in days since 1970-01-01."""

_FIRST_MICROSECOND: Final = _FIRST_DAY * 86_400_000_000

_SMALL_INTEGER: Final = 21
_UUID: Final = 2_950
"""Object ids of the types of which there are arrays."""

_ARRAY_HEADER: Final = [("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">i4"), ("size", ">i4"), ("first", ">i4")]
_ARRAY_HEADER_BYTES: Final = 20
_ITEM_BYTES: Final = 12
"""A 64-bit integer of an array, and its length."""

_INTEGERS: Final[Mapping[pl.DataType, str]] = {
    pl.Int8(): ">i2",
    pl.Int16(): ">i2",
    pl.Int32(): ">i4",
    pl.UInt32(): ">i4",
    pl.Int64(): ">i8",
}

_SHAPES_MAX: Final = 2**31
"""Combinations of lengths beyond which those that there are are numbered anew, so that numbers do not overflow."""

_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.int64]
_Shapes = npt.NDArray[Any]
"""Small numbers."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values of one column, of which there are few different lengths."""

    lengths: tuple[int, ...]
    """The different ones, _NULL for null."""
    which: _Shapes | None
    """Which of the lengths each row has; None where all have the first."""
    values: Callable[[int, _Places], npt.NDArray[Any]]
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
        values = sum(_LENGTH_BYTES + max(length, 0) for length in self.lengths[shape])
        return values + _ROW_BYTES * self.starts_row


def encoded(frame: pl.DataFrame, *, json: Collection[str] = ()) -> bytes:
    """Return the rows for ``COPY … FROM STDIN (FORMAT BINARY)``, empty when there are none.

    16 bytes are a uuid, an array of 16-bit integers is ``smallint[]``, a list of uuids ``uuid[]``, an 8-bit integer a
    smallint; texts of the ``json`` columns are jsonb.
    """
    if frame.is_empty():
        return b""
    parts = _parts([_column(column, json=column.name in json) for column in frame.get_columns()], frame.height)
    blocks = [
        _encoded(parts, np.arange(start, min(start + _ROWS_AT_ONCE, frame.height)), frame.width)
        for start in range(0, frame.height, _ROWS_AT_ONCE)
    ]
    return b"".join([_HEADER, *(block.data for block in blocks), _TRAILER])


def decoded(rows: CopiedRows, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows in columns of these types, in the order of the query."""
    # The header comes with the first row; the trailer is a message of its own, and the only one when there are no rows.
    count = len(rows.sizes) - 1
    if count < 1:
        return pl.DataFrame(schema=dict(schema))
    data = np.frombuffer(rows.data, np.uint8)
    place = np.zeros(count, np.int64)
    np.cumsum(np.asarray(rows.sizes, np.int64)[: count - 1], out=place[1:])
    place[0] = len(_HEADER)
    place += _ROW_BYTES
    blocks = [place[start : start + _ROWS_AT_ONCE] for start in range(0, count, _ROWS_AT_ONCE)]
    return pl.concat([_decoded(data, block, schema) for block in blocks], rechunk=True)


def ids_from(first: int, count: int) -> pl.Series:
    """Return so many ids that follow each other."""
    halves = np.empty((count, 2), ">u8")
    low = np.uint64(first & 0xFFFF_FFFF_FFFF_FFFF) + np.arange(count, dtype=np.uint64)
    halves[:, 1] = low
    # Past the end of the lower half, the sum begins at 0 again.
    halves[:, 0] = np.uint64(first >> 64) + (low < low[:1]).astype(np.uint64)
    return pl.Series(halves.view(f"V{_ID_BYTES}").ravel().tolist(), dtype=pl.Binary)


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


def _encoded(parts: list[_Run | _Each], rows: _Places, width: int) -> _Bytes:
    """Return rows that follow each other, of so many columns, without header and trailer."""
    bytes_of = [
        part.lengths[rows].clip(0) + _LENGTH_BYTES
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


def _write_run(out: _Bytes, place: _Places, run: _Run, rows: _Places, width: int) -> None:
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
        _anywhere(out, f"V{made.itemsize}")[place[here]] = made.view(f"V{made.itemsize}")


def _write_each(out: _Bytes, place: _Places, each: _Each, rows: _Places) -> None:
    lengths = each.lengths[rows]
    _anywhere(out, ">i4")[place] = lengths
    there = lengths != _NULL
    first = int((each.lengths[: int(rows[0])] != _NULL).sum())
    view = out.data
    for at, value in zip((place[there] + _LENGTH_BYTES).tolist(), each.values[first:], strict=False):
        view[at : at + len(value)] = value


def _decoded(data: _Bytes, place: _Places, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows that are at these places; afterwards, ``place`` is where they end."""
    columns = {}
    for name, kind in schema.items():
        lengths = _anywhere(data, ">i4")[place].astype(np.int32)
        place += _LENGTH_BYTES
        there = lengths != _NULL
        if there.all():
            columns[name] = _values(data, place, lengths, kind)
            place += lengths
            continue
        if kind in _INTEGERS:
            # What stands where there is no value does no harm, and to leave it out takes longer.
            columns[name] = _values(data, place, lengths, kind).set(pl.Series(~there), None)
        else:
            columns[name] = _spread(_values(data, place[there], lengths[there], kind), there)
        place += np.maximum(lengths, 0)
    return pl.DataFrame(columns)


def _anywhere(data: _Bytes, kind: str) -> npt.NDArray[Any]:
    """Return the bytes as values of a type that begin at every one of them."""
    size = np.dtype(kind).itemsize
    return np.ndarray((max(data.size - size + 1, 0),), kind, data, strides=(1,))


def _column(column: pl.Series, *, json: bool) -> _Cells | _Each:
    kind = column.dtype
    if column.null_count() == column.len():
        return _Cells((_NULL,), None, lambda _length, rows: rows)
    if isinstance(kind, pl.List):
        return _each(column, _id_arrays(column.drop_nulls()))
    if json:
        return _each(column, [_JSON_VERSION + text.encode() for text in column.drop_nulls().to_list()])
    if kind == pl.String():
        return _texts(column)
    if kind in _INTEGERS:
        return _fixed(column, _filled(column, 0).to_numpy().astype(_INTEGERS[kind]))
    if kind == pl.Date():
        return _fixed(column, (_filled(column.to_physical(), 0).to_numpy() - _FIRST_DAY).astype(">i4"))
    if isinstance(kind, pl.Datetime):
        since = _filled(column.to_physical(), 0).to_numpy() - _FIRST_MICROSECOND
        return _fixed(column, since.astype(">i8"))
    if kind == pl.Boolean():
        return _fixed(column, _filled(column, value=False).to_numpy().astype("u1"))
    if kind == pl.Binary():
        return _fixed(column, _ids(_filled(column, bytes(_ID_BYTES))))
    return _small_arrays(column)


def _filled(column: pl.Series, value: object) -> pl.Series:
    return column.fill_null(value) if column.null_count() else column


def _ids(column: pl.Series) -> npt.NDArray[Any]:
    """Return 16 bytes each, none of them null."""
    digits = column.bin.reinterpret(dtype=pl.Array(pl.UInt8, _ID_BYTES)).to_numpy()
    return np.ascontiguousarray(digits).view(f"V{_ID_BYTES}").ravel()


def _fixed(column: pl.Series, raw: npt.NDArray[Any]) -> _Cells:
    """Return values of one length; those of rows without any do not matter."""
    size = raw.dtype.itemsize
    which = column.is_null().to_numpy().astype(np.int8) if column.null_count() else None
    return _Cells((size, _NULL), which, lambda _length, rows: raw[rows])


def _texts(column: pl.Series) -> _Cells:
    """Return texts of which there are few different ones."""
    different = (column.drop_nulls() if column.null_count() else column).unique()
    texts = [text.encode() for text in different.to_list()]
    if len(texts) == 1 and not column.null_count():
        one = np.array(texts, f"V{len(texts[0])}") if texts[0] else np.empty(1)
        return _Cells((len(texts[0]),), None, lambda _length, rows: np.repeat(one, rows.size))
    lengths = sorted({*map(len, texts), *([_NULL] if column.null_count() else [])})
    number = column.replace_strict(different, pl.int_range(different.len(), eager=True), return_dtype=pl.Int64)
    numbers = number.cast(pl.Int64).fill_null(_NULL).to_numpy()
    kind = np.array([lengths.index(length) for length in [*map(len, texts), _NULL] if length in lengths], np.int32)
    tables = {length: np.array([text[:length] for text in texts], f"S{length}") for length in lengths if length > 0}
    which = kind[numbers] if len(lengths) > 1 else None
    return _Cells(tuple(lengths), which, lambda length, rows: tables[length][numbers[rows]])


def _each(column: pl.Series, values: list[bytes]) -> _Each:
    lengths = np.full(column.len(), _NULL, np.int32)
    lengths[column.is_not_null().to_numpy()] = [len(value) for value in values]
    return _Each(lengths, values)


def _small_arrays(column: pl.Series) -> _Cells:
    """Return arrays of the same size, none of them null."""
    values = column.to_numpy()
    rows, size = values.shape
    items = np.empty((rows, size), [("length", ">i4"), ("value", ">i2")])
    items["length"], items["value"] = 2, values
    raw = np.empty(rows, [*_ARRAY_HEADER, ("items", items.dtype, (size,))])
    raw[["dimensions", "nulls", "type", "size", "first"]] = np.array((1, 0, _SMALL_INTEGER, size, 1), _ARRAY_HEADER)
    raw["items"] = items
    return _fixed(column, raw.view(f"V{raw.dtype.itemsize}"))


def _id_arrays(lists: pl.Series) -> list[bytes]:
    """Return lists of ids, none of them empty."""
    ids = _ids(lists.explode())
    items = np.empty(ids.size, [("length", ">i4"), ("value", ids.dtype)])
    items["length"], items["value"] = _ID_BYTES, ids
    ends = np.cumsum(lists.list.len().to_numpy()).tolist()
    return [
        np.array((1, 0, _UUID, end - start, 1), _ARRAY_HEADER).tobytes() + items[start:end].tobytes()
        for start, end in zip([0, *ends], ends, strict=False)
    ]


def _spread(values: pl.Series, there: npt.NDArray[np.bool_]) -> pl.Series:
    """Return the values at the rows that have one, null at the others."""
    places = np.cumsum(there) - 1
    return values.gather(pl.Series(places).set(pl.Series(~there), None))


def _values(data: _Bytes, place: _Places, lengths: npt.NDArray[np.int32], kind: Any) -> pl.Series:
    if kind in _INTEGERS:
        # The database has smallints where the engine has bytes.
        wire = _INTEGERS[kind]
        found = _anywhere(data, wire)
        # After the last value of all there may be less than one.
        return pl.Series(found[np.minimum(place, found.size - 1)].astype(wire.replace(">", "="))).cast(kind)
    if kind == pl.Boolean():
        return pl.Series(data[place].astype(np.bool_))
    if kind == pl.Binary():
        return pl.Series(_anywhere(data, f"V{_ID_BYTES}")[place].tolist(), dtype=pl.Binary)
    if isinstance(kind, pl.List):
        return _integer_lists(data, place, lengths)
    return _read_texts(data, place, lengths)


def _read_texts(data: _Bytes, place: _Places, lengths: npt.NDArray[np.int32]) -> pl.Series:
    """Return texts: of short ones, each different one is read once."""
    if lengths.size and lengths.max() > _SHORT_TEXT_BYTES:
        whole = data.tobytes()
        ends = (place + lengths).tolist()
        return pl.Series([whole[at:end].decode() for at, end in zip(place.tolist(), ends, strict=True)])
    # The length is part of the number, so that no text is the end of another.
    numbers = lengths.astype(np.int64)
    for at in range(int(lengths.max()) if lengths.size else 0):
        here = np.where(lengths > at, data[np.minimum(place + at, data.size - 1)], 0)
        numbers = numbers << 8 | here
    found = pl.Series(numbers)
    different, first = np.unique(numbers, return_index=True)
    texts = [data[place[at] : place[at] + lengths[at]].tobytes().decode() for at in first.tolist()]
    return found.replace_strict(pl.Series(different), pl.Series(texts, dtype=pl.String), return_dtype=pl.String)


def _integer_lists(data: _Bytes, place: _Places, lengths: npt.NDArray[np.int32]) -> pl.Series:
    """Return arrays of 64-bit integers without nulls; an empty one has no more than a part of the header."""
    counts = np.maximum(lengths - _ARRAY_HEADER_BYTES, 0) // _ITEM_BYTES
    rows = np.repeat(np.arange(counts.size), counts)
    within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    items = place[rows] + _ARRAY_HEADER_BYTES + _LENGTH_BYTES + within * _ITEM_BYTES
    found = (
        pl.DataFrame({"row": rows, "item": _anywhere(data, ">i8")[items].astype("=i8")})
        .group_by("row", maintain_order=True)
        .agg("item")
    )
    at = np.cumsum(counts > 0) - 1
    lists = found["item"].gather(pl.Series(at).set(pl.Series(counts == 0), None))
    return lists.fill_null(pl.Series([[]], dtype=pl.List(pl.Int64)))
