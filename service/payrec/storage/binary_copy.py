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

_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values of one column: how long each is, and what writes them to their places."""

    lengths: npt.NDArray[np.int32]
    write: Callable[[_Bytes, _Places], None]


def encoded(frame: pl.DataFrame, *, json: Collection[str] = ()) -> bytes:
    """Return the rows for ``COPY … FROM STDIN (FORMAT BINARY)``, empty when there are none.

    16 bytes are a uuid, an array of 16-bit integers is ``smallint[]``, a list of uuids ``uuid[]``, an 8-bit integer a
    smallint; texts of the ``json`` columns are jsonb.
    """
    if frame.is_empty():
        return b""
    blocks = [_encoded(rows, json).data for rows in frame.iter_slices(_ROWS_AT_ONCE)]
    return b"".join([_HEADER, *blocks, _TRAILER])


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


def _encoded(frame: pl.DataFrame, json: Collection[str]) -> _Bytes:
    """Return rows without header and trailer."""
    cells = [_cells(column, json=column.name in json) for column in frame.get_columns()]
    sizes = np.full(frame.height, _ROW_BYTES + _LENGTH_BYTES * len(cells), np.int64)
    for cell in cells:
        sizes += np.maximum(cell.lengths, 0)
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]), np.uint8)
    place = ends - sizes
    _anywhere(out, ">i2")[place] = len(cells)
    place += _ROW_BYTES
    for cell in cells:
        _anywhere(out, ">i4")[place] = cell.lengths
        place += _LENGTH_BYTES
        cell.write(out, place)
        place += np.maximum(cell.lengths, 0)
    return out


def _decoded(data: _Bytes, place: _Places, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows that are at these places; afterwards, ``place`` is where they end."""
    columns = {}
    for name, kind in schema.items():
        lengths = _anywhere(data, ">i4")[place].astype(np.int32)
        place += _LENGTH_BYTES
        there = lengths != _NULL
        values = _values(data, place[there], lengths[there], kind)
        columns[name] = values if there.all() else _spread(values, there)
        place += np.maximum(lengths, 0)
    return pl.DataFrame(columns)


def _anywhere(data: _Bytes, kind: str) -> npt.NDArray[Any]:
    """Return the bytes as values of a type that begin at every one of them."""
    size = np.dtype(kind).itemsize
    return np.ndarray((max(data.size - size + 1, 0),), kind, data, strides=(1,))


def _cells(column: pl.Series, *, json: bool) -> _Cells:
    kind = column.dtype
    there = column.is_not_null().to_numpy()
    if kind in _INTEGERS:
        return _fixed(column.fill_null(0).to_numpy(), there, _INTEGERS[kind])
    if kind == pl.Date():
        return _fixed(column.to_physical().fill_null(0).to_numpy() - _FIRST_DAY, there, ">i4")
    if isinstance(kind, pl.Datetime):
        return _fixed(column.dt.epoch("us").fill_null(0).to_numpy() - _FIRST_MICROSECOND, there, ">i8")
    if kind == pl.Boolean():
        return _fixed(column.fill_null(value=False).to_numpy(), there, "u1")
    if kind == pl.Binary():
        raw = np.frombuffer(b"".join(column.drop_nulls().to_list()), f"V{_ID_BYTES}")
        return _Cells(_lengths(there, _ID_BYTES), lambda out, place: _put(out, place[there], raw))
    if isinstance(kind, pl.Array):
        return _small_arrays(column)
    if isinstance(kind, pl.List):
        return _each([_id_array(ids) for ids in column.drop_nulls().to_list()], there)
    if json:
        return _each([_JSON_VERSION + text.encode() for text in column.drop_nulls().to_list()], there)
    return _texts(column)


def _lengths(there: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.int32]:
    return np.where(there, np.int32(length), np.int32(_NULL))


def _put(out: _Bytes, place: _Places, values: npt.NDArray[Any]) -> None:
    _anywhere(out, values.dtype.str)[place] = values


def _fixed(values: npt.NDArray[Any], there: npt.NDArray[np.bool_], kind: str) -> _Cells:
    raw = values[there].astype(kind)
    return _Cells(_lengths(there, raw.dtype.itemsize), lambda out, place: _put(out, place[there], raw))


def _texts(column: pl.Series) -> _Cells:
    """Return texts of which there are few different ones."""
    different = column.drop_nulls().unique()
    number = column.replace_strict(different, pl.int_range(different.len(), eager=True), return_dtype=pl.Int64)
    numbers = number.cast(pl.Int64).fill_null(_NULL).to_numpy()
    texts = [text.encode() for text in different.to_list()]
    sizes = np.array([*map(len, texts), _NULL], np.int32)

    def write(out: _Bytes, place: _Places) -> None:
        for which, text in enumerate(texts):
            if text:
                _anywhere(out, f"V{len(text)}")[place[numbers == which]] = np.void(text)

    return _Cells(sizes[numbers], write)


def _each(values: list[bytes], there: npt.NDArray[np.bool_]) -> _Cells:
    """Return values of which each is its own, and that rows may lack."""
    lengths = _lengths(there, 0)
    lengths[there] = [len(value) for value in values]

    def write(out: _Bytes, place: _Places) -> None:
        view = out.data
        for at, value in zip(place[there].tolist(), values, strict=True):
            view[at : at + len(value)] = value

    return _Cells(lengths, write)


def _small_arrays(column: pl.Series) -> _Cells:
    """Return arrays of the same size, none of them null."""
    values = column.to_numpy()
    rows, size = values.shape
    items = np.empty((rows, size), [("length", ">i4"), ("value", ">i2")])
    items["length"], items["value"] = 2, values
    raw = np.empty(rows, [*_ARRAY_HEADER, ("items", items.dtype, (size,))])
    raw[["dimensions", "nulls", "type", "size", "first"]] = np.array((1, 0, _SMALL_INTEGER, size, 1), _ARRAY_HEADER)
    raw["items"] = items
    cells = raw.view(f"V{raw.dtype.itemsize}")
    return _Cells(np.full(rows, raw.dtype.itemsize, np.int32), lambda out, place: _put(out, place, cells))


def _id_array(ids: list[bytes]) -> bytes:
    items = np.empty(len(ids), [("length", ">i4"), ("value", f"V{_ID_BYTES}")])
    items["length"], items["value"] = _ID_BYTES, np.frombuffer(b"".join(ids), f"V{_ID_BYTES}")
    return np.array((1, 0, _UUID, len(ids), 1), _ARRAY_HEADER).tobytes() + items.tobytes()


def _spread(values: pl.Series, there: npt.NDArray[np.bool_]) -> pl.Series:
    """Return the values at the rows that have one, null at the others."""
    places = np.cumsum(there) - 1
    return values.gather(pl.Series(places).set(pl.Series(~there), None))


def _values(data: _Bytes, place: _Places, lengths: npt.NDArray[np.int32], kind: Any) -> pl.Series:
    if kind in _INTEGERS:
        # The database has smallints where the engine has bytes.
        wire = _INTEGERS[kind]
        return pl.Series(_anywhere(data, wire)[place].astype(wire.replace(">", "="))).cast(kind)
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
