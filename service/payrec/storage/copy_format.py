"""What PostgreSQL's binary COPY is made of, and its rows value by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""The signature, and neither flags nor an extension."""

TRAILER: Final = b"\xff\xff"
"""In place of a number of columns."""

ROW_BYTES: Final = 2
"""The number of columns."""

LENGTH_BYTES: Final = 4
ID_BYTES: Final = 16
NULL: Final = -1
_NULL: Final = NULL.to_bytes(LENGTH_BYTES, "big", signed=True)


def read_values(rows: bytes | bytearray) -> Iterator[list[bytes | None]]:
    """Return the values of each row, as the server sends them; nothing at all has no rows."""
    at = len(HEADER)
    while at < len(rows) and (width := rows[at : at + ROW_BYTES]) != TRAILER:
        at += ROW_BYTES
        values: list[bytes | None] = []
        for _ in range(int.from_bytes(width, "big")):
            length = int.from_bytes(rows[at : at + LENGTH_BYTES], "big", signed=True)
            at += LENGTH_BYTES
            values.append(None if length == NULL else bytes(rows[at : at + length]))
            at += max(length, 0)
        yield values


def row_of(values: Sequence[bytes | None]) -> bytes:
    """Return a row of these values."""
    return b"".join([len(values).to_bytes(ROW_BYTES, "big"), *map(sized, values)])


def sized(value: bytes | None) -> bytes:
    """Return a value behind its length."""
    return _NULL if value is None else len(value).to_bytes(LENGTH_BYTES, "big") + value


def written(rows: Iterable[bytes | memoryview]) -> bytes:
    """Return rows, each as ``row_of`` makes it, as ``COPY … FROM STDIN (FORMAT BINARY)`` takes them."""
    return b"".join([HEADER, *rows, TRAILER])
