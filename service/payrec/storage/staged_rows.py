"""Sets of rows that statements join, under names of their own: as their parameters, or, of many, in temporary tables.

To make a table and to drop it again takes longer than to join a few rows, and no plan outlives the tables that it
reads. A statement is the same for both, and asks by ``sources`` what stands for a set. On Citus all are tables, which
what is written there joins where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from payrec.storage.copy_format import read_values
from payrec.storage.database import Connection
from payrec.storage.rows import array_text, copy_in
from payrec.storage.temporary import make_temporary

FEW_BYTES: Final = 8 * 1024
"""Rows of so many bytes, as ``COPY`` has them, are parameters: of what a run stages, about a hundred."""

_READERS: Final[Mapping[str, Callable[[bytes], object]]] = {
    "uuid": lambda value: UUID(bytes=value),
    "boolean": lambda value: value != b"\0",
    **dict.fromkeys(("smallint", "integer", "bigint"), lambda value: int.from_bytes(value, "big", signed=True)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the rows of a set have."""

    columns: Mapping[str, str]
    """Their types by their names, in the order of ``COPY``."""
    analyzed: str = ""
    """Columns of which the planner is told, in parentheses; all without them."""


class StagedRows:
    """Sets of rows of the transaction of ``connection``. One that nobody has put is empty."""

    def __init__(self, connection: Connection, shapes: Mapping[str, Shape]) -> None:
        self._connection = connection
        self._shapes = shapes
        self._tables: set[str] = set()
        self._parameters = {name: _parameters(name, shape, b"") for name, shape in shapes.items()}
        self.sources = {name: _unnested(name, shape) for name, shape in shapes.items()}
        """What stands for each set in a statement: it needs an alias."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What statements need that name the sets."""
        return {key: value for of_set in self._parameters.values() for key, value in of_set.items()}

    async def put(self, name: str, rows: bytes) -> None:
        """Let a set be these rows, as ``COPY … FROM STDIN (FORMAT BINARY)`` takes them, instead of those before."""
        shape = self._shapes[name]
        if name in self._tables:
            await self._connection.execute(f"TRUNCATE {name}".encode())
        elif len(rows) <= FEW_BYTES and not self._connection.is_distributed:
            self._parameters[name] = _parameters(name, shape, rows)
            return
        else:
            columns = ", ".join(f"{column} {kind}" for column, kind in shape.columns.items())
            create = f"CREATE TEMPORARY TABLE {name} ({columns}) ON COMMIT DROP"
            await make_temporary(self._connection, create)
            self._tables.add(name)
            self._parameters[name], self.sources[name] = {}, name
        if rows:
            query = f"COPY {name} ({', '.join(shape.columns)}) FROM STDIN (FORMAT BINARY)"
            await copy_in(self._connection, query, rows)
            # Without statistics the joins that follow would be planned for a handful of rows.
            await self._connection.execute(f"ANALYZE {name} {shape.analyzed}".encode(), prepare=False)


def _unnested(name: str, shape: Shape) -> str:
    arrays = ", ".join(f"%({name}_{column})s::{kind}[]" for column, kind in shape.columns.items())
    return f"(SELECT * FROM unnest({arrays}) AS u ({', '.join(shape.columns)}))"  # noqa: S608 - our own text


def _parameters(name: str, shape: Shape, rows: bytes) -> dict[str, str]:
    """Return the rows as an array for each column."""
    values: list[list[object]] = [[] for _ in shape.columns]
    readers = [_READERS[kind] for kind in shape.columns.values()]
    for row in read_values(rows):
        for column, read, value in zip(values, readers, row, strict=True):
            column.append("NULL" if value is None else read(value))
    return {f"{name}_{column}": array_text(its) for column, its in zip(shape.columns, values, strict=True)}
