"""Rows in PostgreSQL's binary form: what goes in comes out, and the database reads it as it was meant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

import polars as pl
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.embedded.postgres import EmbeddedPostgres
from payrec.storage import binary_copy, binary_reading
from payrec.storage.binary_copy import encoded, ids_from
from payrec.storage.binary_reading import decoded
from payrec.storage.database import Connection
from payrec.storage.rows import copy_in, copy_out_rows, fetch_all
from support.copied import HEADER, TRAILER
from support.postgres import cloned

pytestmark = pytest.mark.anyio

T = TypeVar("T", pl.DataFrame, bytes)

READ: Final = {
    "id": pl.Binary(),
    "large": pl.Int64(),
    "medium": pl.Int32(),
    "small": pl.Int8(),
    "flag": pl.Boolean(),
    "currency": pl.String(),
    "text": pl.String(),
    "keys": pl.List(pl.Int64()),
}
"""What is read."""

WRITTEN: Final = {
    **{name: kind for name, kind in READ.items() if name != "keys"},
    "day": pl.Date(),
    "at": pl.Datetime("us", "UTC"),
    "said": pl.String(),
    "levels": pl.Array(pl.Int16, 3),
    "ids": pl.List(pl.Binary),
}
"""What is written; a row always has levels."""

CREATE: Final = """
    CREATE TEMPORARY TABLE sample (
        id uuid, large bigint, medium integer, small smallint, flag boolean, currency text, text text, keys bigint[],
        day date, at timestamptz, said jsonb, levels smallint[], ids uuid[], number integer
    )
"""


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TEXTS: Final = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
ROWS: Final = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.binary(min_size=16, max_size=16),
            "large": st.none() | integers(64),
            "medium": st.none() | integers(32),
            "small": st.none() | integers(8),
            "flag": st.none() | st.booleans(),
            "currency": st.none() | st.sampled_from(["EUR", "USD", "UR", "", "ÄÖ"]),
            "text": st.none() | TEXTS,
            "keys": st.none() | st.lists(integers(64), max_size=4),
            "day": st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
            "at": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis wants bounds without a zone
            "said": st.none() | st.sampled_from(['{"a": 1}', "[]", '"é"']),
            "levels": st.lists(integers(16), min_size=3, max_size=3),
            "ids": st.none() | st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=3),
        }
    ),
    max_size=8,
)


def either_way(made: Callable[[], T]) -> T:
    """Return what is made value by value, and see that by columns it is the same."""
    few = made()
    with pytest.MonkeyPatch.context() as patch:
        for module in (binary_copy, binary_reading):
            patch.setattr(module, "ROWS_FEW", 0)
        many = made()
    if isinstance(few, pl.DataFrame):
        assert few.schema == many.schema
        assert few.equals(many)
    else:
        assert few == many
    return few


async def round_trip(connection: Connection, rows: list[dict[str, Any]]) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Write rows, and return them as they are read, and as the database's own text has them."""
    frame = pl.DataFrame(rows, schema=WRITTEN).with_row_index("number")
    written = either_way(lambda: encoded(frame, json=["said"]))
    await connection.execute(b"TRUNCATE sample")
    columns = ", ".join(f'"{name}"' for name in frame.columns)
    await copy_in(connection, f"COPY sample ({columns}) FROM STDIN (FORMAT BINARY)", written)
    for number, row in enumerate(rows):
        await connection.execute("UPDATE sample SET keys = %s WHERE number = %s", (row["keys"], number))
    query = f"COPY (SELECT {', '.join(READ)} FROM sample ORDER BY number) TO STDOUT (FORMAT BINARY)"  # noqa: S608 - our own names
    copied = await copy_out_rows(connection, query)
    found = either_way(lambda: decoded(copied, READ))
    return found, await fetch_all(connection, "SELECT *, said::text AS said FROM sample ORDER BY number")


@pytest.fixture(scope="module")
async def connection(postgres: EmbeddedPostgres) -> Any:
    with cloned(postgres) as database:
        made = await psycopg.AsyncConnection.connect(
            database.superuser_url, autocommit=True, row_factory=psycopg.rows.dict_row
        )
        await made.execute("SET timezone = 'UTC'")
        await made.execute(CREATE)
        yield made
        await made.close()


@given(ROWS)
@settings(max_examples=60, deadline=None)
async def test_what_is_written_is_read_again_and_the_database_understands_it(
    connection: Connection, rows: list[dict[str, Any]]
) -> None:
    found, stored = await round_trip(connection, rows)
    assert found.rows(named=True) == [{name: row[name] for name in READ} for row in rows]
    assert stored == [
        {
            **row,
            "id": None if row["id"] is None else UUID(bytes=row["id"]),
            "ids": None if row["ids"] is None else [UUID(bytes=item) for item in row["ids"]],
            "number": number,
        }
        for number, row in enumerate(rows)
    ]


async def test_many_rows_are_read_block_by_block(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_reading, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr(binary_reading, "ROWS_FEW", 0)
    query = """
        COPY (
            SELECT n, CASE WHEN n % 4 > 0 THEN n END, repeat('x', n % 9), array_fill(n::bigint, ARRAY[n % 5])
            FROM generate_series(1, 10) n
        ) TO STDOUT (FORMAT BINARY)
    """
    schema = {"n": pl.Int32(), "some": pl.Int32(), "text": pl.String(), "keys": pl.List(pl.Int64())}
    found = decoded(await copy_out_rows(connection, query), schema)
    assert found.rows() == [(n, n if n % 4 else None, "x" * (n % 9), [n] * (n % 5)) for n in range(1, 11)]


@pytest.mark.parametrize("last", ["", "a", "abcdefg", "é", None])
async def test_behind_the_last_short_text_there_is_no_room_for_a_number(
    connection: Connection, last: str | None
) -> None:
    texts = ["abcdefg", None, "", "a\x7f", last]
    query = "COPY (SELECT t FROM unnest(%s::text[]) t) TO STDOUT (FORMAT BINARY)"
    found = decoded(await copy_out_rows(connection, query, (texts,)), {"text": pl.String()})
    assert found["text"].to_list() == texts


async def test_behind_the_last_null_there_is_no_room_for_a_value(connection: Connection) -> None:
    query = """
        COPY (SELECT n, CASE WHEN n > 2 THEN gen_random_uuid() END, CASE WHEN n > 2 THEN n::bigint END
              FROM generate_series(1, 2) n) TO STDOUT (FORMAT BINARY)
    """
    found = decoded(await copy_out_rows(connection, query), {"n": pl.Int32(), "id": pl.Binary(), "large": pl.Int64()})
    assert found.rows() == [(1, None, None), (2, None, None)]


def test_nothing_is_no_copy_at_all() -> None:
    assert encoded(pl.DataFrame(schema=WRITTEN)) == b""
    assert encoded(pl.DataFrame({"n": pl.Series([None], dtype=pl.Int64)})) == (
        HEADER + b"\x00\x01\xff\xff\xff\xff" + TRAILER
    )


@given(st.integers(0, 2**128 - 9))
def test_new_ids_follow_each_other(first: int) -> None:
    assert [int.from_bytes(found, "big") for found in ids_from(first, 8)] == list(range(first, first + 8))
