"""Rows by the thousand that others may be storing at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from payrec.storage.copy_text import column_texts, lines_of
from payrec.storage.database import Connection
from payrec.storage.rows import copy_in, fetch_all

LOADING_ATTEMPTS_MAX: Final = 3
"""How often a load is tried when others store the same."""

ANALYZED_ROWS_MIN: Final = 10_000
"""New rows of one transaction from which on the planner should know of them."""

_GROWN: Final = """
    SELECT u.name FROM unnest(%(tables)s::text[]) AS u (name) JOIN pg_class c ON c.oid = u.name::regclass
    WHERE c.reltuples < %(rows)s
"""


class ContendedError(Exception):
    """Somebody else is at the same rows or tables: this transaction is given up, and can be done again."""


async def copy_rows(connection: Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Copy rows, which all have the same columns, into a table."""
    if not rows:
        return
    names = tuple(rows[0])
    lines = lines_of(column_texts([[row[name] for row in rows] for name in names]), len(rows))
    columns = ", ".join(f'"{name}"' for name in names)
    await copy_in(connection, f"COPY {table} ({columns}) FROM STDIN", "".join(lines).encode())


async def analyze_grown(connection: Connection, *tables: str, rows: int) -> None:
    """Bring up to date the statistics of tables that the planner takes for smaller than what was just added.

    Autovacuum counts no row of a transaction that is open. Once it has looked while a large file is loaded, the planner
    takes the table for one of a few rows, and walks the whole of it for each of them.
    """
    if rows < ANALYZED_ROWS_MIN:
        return
    grown = await fetch_all(connection, _GROWN, {"tables": list(tables), "rows": rows})
    if grown:
        names = ", ".join(f'"{row["name"]}"' for row in grown)
        await connection.execute(f"ANALYZE {names}".encode(), prepare=False)
