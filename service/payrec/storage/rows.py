"""Columns of a table as SQL, so that every statement names its columns and none of them by hand."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from psycopg import AsyncCopy, errors, sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn
from psycopg.types.json import Jsonb
from psycopg.waiting import Ready, Wait
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import SQLModel

from payrec.storage.copy_format import HEADER, TRAILER, row_of
from payrec.storage.database import Connection
from payrec.storage.integrity import meant_by_worker

Ids = Sequence[UUID] | Sequence[str]
"""Ids as they come from a request or from the database: to be given back they need not be values."""

COPY_BYTES: Final = 256 * 1024
"""Bytes of one message to the server."""


@cache
def column_names(table: type[SQLModel]) -> tuple[str, ...]:
    """Return the names of the table's columns, in the table's order."""
    return tuple(column.name for column in table.__table__.columns)  # type: ignore[attr-defined]


def columns_of(table: type[SQLModel], alias: str | None = None) -> str:
    """Return ``alias."a", alias."b", …`` for all of the table's columns."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(f'{prefix}"{name}"' for name in column_names(table))


def insert_statement(table: type[SQLModel], names: Iterable[str]) -> sql.Composed:
    """Return ``INSERT INTO table (names) VALUES (%(name)s, …)``."""
    names = tuple(names)
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table.__table__.name),  # type: ignore[attr-defined]
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.SQL(", ").join(map(sql.Placeholder, names)),
    )


def paired_insert(
    template: str, stored: tuple[type[SQLModel], tuple[str, ...]], opened: tuple[type[SQLModel], tuple[str, ...]]
) -> bytes:
    """Return the statement that stores a transaction and opens it.

    ``template`` has ``{columns}``, ``{values}``, ``{open_columns}`` and ``{open_values}``; the parameters of the open
    row begin with ``o_``.
    """
    for table, names in (stored, opened):
        if not set(column_names(table)).issuperset(names):
            raise AssertionError("a column that the table does not have")
    names, open_names = stored[1], opened[1]
    return template.format(
        columns=", ".join(f'"{n}"' for n in names),
        values=", ".join(f"%({n})s" for n in names),
        open_columns=", ".join(f'"{n}"' for n in open_names),
        open_values=", ".join(f"%(o_{n})s" for n in open_names),
    ).encode()


def in_order(rows: Iterable[dict[str, Any]], ids: Iterable[UUID]) -> list[dict[str, Any]]:
    """Return the rows in the order of ids, each once; an id that no row has is left out."""
    by_id = {row["id"]: row for row in rows}
    return [by_id[wanted] for wanted in dict.fromkeys(ids) if wanted in by_id]


@cache
def json_columns(table: type[SQLModel]) -> frozenset[str]:
    """Return the names of the table's JSON columns."""
    return frozenset(c.name for c in table.__table__.columns if isinstance(c.type, JSONB))  # type: ignore[attr-defined]


def adapt(table: type[SQLModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with those of JSON columns wrapped for the driver."""
    json = json_columns(table)
    return {k: Jsonb(v) if k in json and v is not None else v for k, v in values.items()}


def array_text(values: Iterable[object]) -> str:
    """Return numbers or ids as the text of an array, which costs the driver nothing however many they are."""
    return "{" + ",".join(map(str, values)) + "}"


async def insert(connection: Connection, table: type[SQLModel], values: Mapping[str, Any]) -> None:
    """Insert one row of the given columns."""
    await connection.execute(insert_statement(table, values), adapt(table, values))


async def database_now(connection: Connection) -> datetime:
    """Return the present instant of the database's clock, because the workers' clocks may differ."""
    row = await fetch_one(connection, "SELECT clock_timestamp() AS now")
    assert row is not None, "a function has a value"
    at: datetime = row["now"]
    return at


async def fetch_one(connection: Connection, query: sql.Composed | str, parameters: Any = None) -> dict[str, Any] | None:
    """Return the first row of a query, or None."""
    cursor = await connection.execute(query, parameters)
    return await cursor.fetchone()


async def fetch_all(
    connection: Connection, query: sql.Composed | str, parameters: Any = None, *, prepare: bool | None = None
) -> list[dict[str, Any]]:
    """Return all rows of a query; the query has its own LIMIT. ``prepare`` as psycopg has it."""
    cursor = await connection.execute(query, parameters, prepare=prepare)
    return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """What a binary ``COPY … TO STDOUT`` gives: its bytes, and how many of them each row has."""

    data: bytearray
    sizes: Collection[int]
    """The header counts as part of the first row, the trailer as a row."""

    @property
    def height(self) -> int:
        """Return how many rows there are."""
        return len(self.sizes) - 1


async def copy_out(connection: Connection, query: str, parameters: Any = None) -> bytes:
    """Return everything that a ``COPY … TO STDOUT`` gives."""
    return bytes((await copy_out_rows(connection, query, parameters)).data)


async def copy_out_rows(connection: Connection, query: str, parameters: Any = None) -> CopiedRows:
    """Return everything that a ``COPY … TO STDOUT (FORMAT BINARY)`` gives, row by row."""
    rows, sizes = bytearray(), array("q")
    async with connection.cursor() as cursor, cursor.copy(query.encode(), parameters):
        await connection.wait(_drained(connection.pgconn, rows, sizes))
    return CopiedRows(rows, sizes)


async def select_rows(connection: Connection, query: str, parameters: Any = None) -> CopiedRows:
    """Return what a query gives as ``copy_out_rows`` does, value by value: for few rows, because its plan is kept."""
    result = (await connection.execute(query.encode(), parameters, prepare=True, binary=True)).pgresult
    assert result is not None, "a query has a result"
    fields = range(result.nfields)
    rows = [row_of([result.get_value(row, field) for field in fields]) for row in range(result.ntuples)]
    rows = [HEADER + rows[0], *rows[1:], TRAILER] if rows else [HEADER + TRAILER]
    return CopiedRows(bytearray(b"".join(rows)), array("q", map(len, rows)))


def _drained(server: PGconn, rows: bytearray, sizes: array[int]) -> Generator[Wait, Ready | int, None]:
    """Take what has arrived until there is no more.

    A message is a row, and there may be a million: the driver's own way, which waits for each, takes four times as
    long.
    """
    while True:
        size, row = server.get_copy_data(1)
        if size > 0:
            rows += row
            sizes.append(size)
        elif size < 0:
            break
        else:
            while not (yield Wait.R):
                continue
            server.consume_input()
    failed = None
    while True:
        while server.is_busy():
            while not (yield Wait.R):
                continue
            server.consume_input()
        result = server.get_result()
        if result is None:
            break
        if result.status != ExecStatus.COMMAND_OK:
            failed = result
    if failed is not None:
        raise error_from_result(failed)


@asynccontextmanager
async def copying_in(connection: Connection, query: str) -> AsyncIterator[AsyncCopy]:
    """Begin a ``COPY … FROM STDIN``, which ends with the context; what a worker of Citus refuses has its kind."""
    try:
        async with connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
            yield copy
    except errors.InternalError_ as error:
        raise meant_by_worker(error) from None


async def copy_in(connection: Connection, query: str, data: bytes) -> None:
    """Give rows to a ``COPY … FROM STDIN``; without any, nothing is done."""
    if not data:
        return
    view = memoryview(data)
    async with copying_in(connection, query) as copy:
        for place in range(0, len(data), COPY_BYTES):
            await copy.write(view[place : place + COPY_BYTES])
