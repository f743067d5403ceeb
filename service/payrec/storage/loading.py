"""Rows by the thousand that others may be storing at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from payrec.storage.copy_text import column_texts, lines_of
from payrec.storage.database import Connection
from payrec.storage.rows import copy_in

LOADING_ATTEMPTS_MAX: Final = 3
"""How often a load is tried when others store the same."""


class ContendedError(Exception):
    """Somebody else stores the same rows: this transaction is given up, and can be done again with more care."""


async def copy_rows(connection: Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Copy rows, which all have the same columns, into a table."""
    if not rows:
        return
    names = tuple(rows[0])
    lines = lines_of(column_texts([[row[name] for row in rows] for name in names]), len(rows))
    columns = ", ".join(f'"{name}"' for name in names)
    await copy_in(connection, f"COPY {table} ({columns}) FROM STDIN", "".join(lines).encode())
