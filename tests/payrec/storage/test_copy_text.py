"""COPY text: a piece made by columns is what its rows are, one by one, and the database reads back what was written."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from payrec.storage.copy_text import column_texts, copy_line, lines_of
from support.postgres import EmbeddedDatabase, EmbeddedPostgres, cloned

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12) | st.sampled_from(
    ["\\", "\\N", "\\.", "a\tb", "a\nb", "\r", "{1}", ""]
)
JSON = st.dictionaries(TEXT, TEXT, max_size=2)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXT,
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "bytea": st.binary(max_size=20),
    "date": st.dates(date(1970, 1, 1), date(2100, 1, 1)),
    "uuid": st.uuids(),
    "bigint[]": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    "jsonb": JSON | st.tuples(JSON, JSON),
}


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Rows whose columns are constant, full, or partly null."""
    count = draw(st.integers(1, 6))
    columns = []
    for values in COLUMNS.values():
        form = draw(st.sampled_from(["null", "constant", "full", "mixed"]))
        if form == "constant":
            columns.append([draw(values)] * count)
        else:
            each = st.none() if form == "null" else values if form == "full" else st.none() | values
            columns.append(draw(st.lists(each, min_size=count, max_size=count)))
    return list(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres) -> Any:
    with cloned(postgres) as made:
        yield made


def text_of(rows: list[tuple[Any, ...]]) -> str:
    """Return rows as they are written by columns."""
    return "".join(lines_of(column_texts(zip(*rows, strict=True)), len(rows)))


@given(rows())
def test_columns_give_the_same_text_as_rows(given_rows: list[tuple[Any, ...]]) -> None:
    assert text_of(given_rows) == "".join(map(copy_line, given_rows))


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, tuple | dict) else value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows())
def test_the_database_reads_back_what_was_written(
    database: EmbeddedDatabase, given_rows: list[tuple[Any, ...]]
) -> None:
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(COLUMNS))
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute(f"CREATE TEMPORARY TABLE back (n serial, {columns})".encode())
        names = ", ".join(f"c{n}" for n in range(len(COLUMNS)))
        with connection.cursor() as cursor, cursor.copy(f"COPY back ({names}) FROM STDIN".encode()) as copy:
            copy.write(text_of(given_rows))
        found = connection.execute(f"SELECT {names} FROM back ORDER BY n".encode()).fetchall()  # noqa: S608 - our own names
        connection.rollback()
    assert [tuple(map(plain, row)) for row in given_rows] == [
        tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in found
    ]
