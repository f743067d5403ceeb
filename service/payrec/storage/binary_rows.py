"""A few rows of PostgreSQL's binary COPY, value by value: what ``payrec.storage.binary_copy`` does by columns.

Each operation on a column has its price, however few rows there are; a value in plain Python takes a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import polars as pl

from payrec.storage.copy_format import LENGTH_BYTES, read_values, row_of, sized, written

ROWS_FEW: Final = 48
"""Rows up to which each value is read and written by itself."""

JSON_VERSION: Final = b"\x01"

FIRST_DAY: Final = 10_957
"""2000-01-01, from which PostgreSQL counts, in days since 1970-01-01."""

FIRST_MICROSECOND: Final = FIRST_DAY * 86_400_000_000

SMALL_INTEGER: Final = 21
UUID: Final = 2_950
"""Object ids of the types of which there are arrays."""

ARRAY_HEADER_BYTES: Final = 20
ITEM_BYTES: Final = 12
"""A 64-bit integer of an array, and its length."""

INTEGER_BYTES: Final[Mapping[Any, int]] = {pl.Int8(): 2, pl.Int16(): 2, pl.Int32(): 4, pl.UInt32(): 4, pl.Int64(): 8}
"""Bytes on the wire, where the database has smallints for the engine's bytes."""


def read_rows(data: bytes | bytearray, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows in columns of these types."""
    columns: list[list[Any]] = [[] for _ in schema]
    readers = [(column, _reader(kind)) for column, kind in zip(columns, schema.values(), strict=True)]
    for row in read_values(data):
        for (column, read), value in zip(readers, row, strict=True):
            column.append(None if value is None else read(value))
    return pl.DataFrame(
        [pl.Series(name, column, dtype=kind) for column, (name, kind) in zip(columns, schema.items(), strict=True)]
    )


def written_rows(frame: pl.DataFrame, json: Collection[str]) -> bytes:
    """Return the rows as bytes, texts of the ``json`` columns as jsonb."""
    columns = [_written(column, _writer(column.dtype, json=column.name in json)) for column in frame.get_columns()]
    return written(row_of(row) for row in zip(*columns, strict=True))


def _integer(value: bytes | bytearray) -> int:
    return int.from_bytes(value, "big", signed=True)


def _reader(kind: Any) -> Callable[[bytes | bytearray], Any]:
    if kind in INTEGER_BYTES:
        return _integer
    if kind == pl.Boolean():
        return lambda value: value != b"\0"
    if kind == pl.Binary():
        return bytes
    if isinstance(kind, pl.List):
        return _integers
    return lambda value: value.decode()


def _integers(value: bytes | bytearray) -> list[int]:
    """Return an array of 64-bit integers without nulls; an empty one has no more than a part of the header."""
    first = ARRAY_HEADER_BYTES + LENGTH_BYTES
    return [_integer(value[at : at + ITEM_BYTES - LENGTH_BYTES]) for at in range(first, len(value), ITEM_BYTES)]


def _written(column: pl.Series, write: Callable[[Any], bytes]) -> list[bytes | None]:
    is_time = column.dtype.is_temporal()
    values = (column.to_physical() if is_time else column).to_list()
    return [None if value is None else write(value) for value in values]


def _writer(kind: Any, *, json: bool) -> Callable[[Any], bytes]:
    if json:
        return lambda text: JSON_VERSION + text.encode()
    if kind in INTEGER_BYTES:
        size = INTEGER_BYTES[kind]
        return lambda value: value.to_bytes(size, "big", signed=True)
    if kind == pl.String():
        return str.encode
    if kind == pl.Date():
        return lambda day: (day - FIRST_DAY).to_bytes(4, "big", signed=True)
    if isinstance(kind, pl.Datetime):
        return lambda instant: (instant - FIRST_MICROSECOND).to_bytes(8, "big", signed=True)
    if kind == pl.Boolean():
        return lambda value: value.to_bytes(1, "big")
    if isinstance(kind, pl.List):
        return lambda ids: _array(UUID, ids)
    if isinstance(kind, pl.Array):
        return lambda values: _array(SMALL_INTEGER, [value.to_bytes(2, "big", signed=True) for value in values])
    return bytes


def _array(kind: int, values: list[bytes]) -> bytes:
    head = (1, 0, kind, len(values), 1)
    return b"".join([*(part.to_bytes(LENGTH_BYTES, "big") for part in head), *map(sized, values)])
