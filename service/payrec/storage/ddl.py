"""The DDL of the head, generated from the tables: one script that makes all of a tenant environment's tables.

Alembic walks the same way in small steps; the drift test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from sqlalchemy import MetaData
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

import payrec.tables  # noqa: F401 - fills the metadata
from payrec.tables.base import CONTROL_METADATA, TENANT_METADATA

_PIECE: Final = re.compile(r"\$(\w*)\$.*?\$\1\$|'[^']*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|.", re.DOTALL)
"""What a semicolon within means nothing: bodies between dollars, texts, names, comments; otherwise one character."""


def _statements(metadata: MetaData) -> list[str]:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    statements: list[str] = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)).strip())
        statements.extend(
            str(CreateIndex(index).compile(dialect=dialect)).strip()
            for index in sorted(table.indexes, key=lambda i: str(i.name))
        )
    return statements


def _script(statements: Sequence[str]) -> str:
    return ";\n".join(statements) + ";\n"


@cache
def statements_of(script: str) -> tuple[str, ...]:
    """Return the statements of a script, each without the semicolon that ends it."""
    ends = [-1, *(found.start() for found in _PIECE.finditer(script) if found[0] == ";"), len(script)]
    parts = (script[before + 1 : end] for before, end in pairwise(ends))
    return tuple(part.strip() for part in parts if part.strip())


@cache
def tenant_statements() -> tuple[str, ...]:
    """Return the statements that make the tenant tables in the first schema of the search path."""
    return tuple(_statements(TENANT_METADATA))


@cache
def tenant_script() -> str:
    """Return the same as one script."""
    return _script(tenant_statements())


@cache
def tenant_tables() -> tuple[str, ...]:
    """Return the names of the tenant tables."""
    return tuple(sorted(table.name for table in TENANT_METADATA.sorted_tables))


@cache
def control_script() -> str:
    """Return the script that makes the control tables."""
    return _script(_statements(CONTROL_METADATA))
