"""Where texts are, in all tables of a tenant environment, and how those that may be erased are found.

Every text of every table is looked through unless it is named here: who adds a table need not think of it. What is
found in the database is a little too much, because it compares without accents and word by word; the rule is
``payrec.domain.erasures``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg.types.json import Jsonb
from sqlalchemy import ARRAY, Text
from sqlalchemy.dialects.postgresql import JSONB

import payrec.tables  # noqa: F401 - fills the metadata
from payrec.constants.privacy import ERASURE_ROWS_READ
from payrec.domain.erasures import Wanted
from payrec.storage.database import Connection
from payrec.tables.base import TENANT_METADATA

APART: Final = frozenset(
    {
        "alias",
        "alias_lesson",
        "audit_record",
        "counterparty_name",
        "expected_transaction",
        "idempotency",
        "incoming_transaction",
        "stated_row",
    }
)
"""Tables that are looked through by statements of their own."""

KEPT_COLUMNS: Final = frozenset(
    {
        # What somebody chose of a list of ours, and hashes.
        "status", "kind", "type", "state", "severity", "code", "format", "format_version", "encoding", "resource",
        "confidence", "uniqueness", "statement_every", "continuity", "balance_check", "action", "subject",
        "direction", "currency", "net_currency", "original_currency", "settled_currency", "exchange_rate", "base",
        "quote", "here_currency", "here_direction", "here_status", "there_currency", "there_direction", "outcome",
        "reason_code", "sha256",
        # Who did it: an id. Who decided elsewhere, as a file has told it, may be a name.
        "actor", "created_by", "imported_by", "locked_by", "reopened_by", "acknowledged_by", "request_id",
        # Numbers and ids, in JSON.
        "balances", "charges", "corrections", "curve", "counts", "figures", "codes", "terms", "erased", "kept",
        "alternatives", "adjustments", "proof",
        # What the books were given, by references.
        "lines",
        # The tenant's own accounts and books, and how files are fetched and others are told.
        "account", "identifier", "version", "posting_code", "category", "schedule", "secret_ref", "config", "profile",
        "url", "events",
    }
)  # fmt: skip
"""Columns, in whatever table, in which no text of a person is, or without which something would stop."""

# Accents apart from their letters, and nothing kept but ASCII: what is looked for is that alone. Taking accents away by
# ``translate`` took seven times as long.
_FOLDED: Final = """
    lower(regexp_replace(
        replace(replace(replace(normalize(h.text, NFKD), 'ß', 'ss'), 'ẞ', 'ss'), 'ı', 'i'), '[^\\x01-\\x7f]+', '', 'g'
    ))
"""
_PLAIN: Final = f"CASE WHEN octet_length(h.text) = length(h.text) THEN lower(h.text) ELSE {_FOLDED} END"
# Blanks of other scripts have become ours by then, and are no letters of ours in any case.
_COMPACT: Final = f"translate({_PLAIN}, E' .-/\\t\\n\\r\\x0b\\f\\x1c\\x1d\\x1e\\x1f', '')"
_FIND: Final = """
    SELECT {columns} FROM {source}
    CROSS JOIN LATERAL (SELECT concat_ws(E'\\n', {texts}) AS text OFFSET 0) h
    CROSS JOIN LATERAL (SELECT {compared} AS text OFFSET 0) f
    WHERE {condition} FOR UPDATE OF t
"""
_CURSOR: Final = "erasure"


@dataclass(frozen=True, slots=True)
class Place:
    """A table, its key, and the columns in which texts are."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    json: frozenset[str] = frozenset()
    """Those of the columns that are JSON."""
    arrays: frozenset[str] = frozenset()
    unique: frozenset[str] = frozenset()
    """Those of which no two rows may have the same."""
    is_keyed: bool = False
    """Its ``counterparty_name`` has a key as well, ``name_key``, which goes with it."""

    def text_of(self, name: str, *, unescaped: bool) -> str:
        """Return the SQL of a column's text; ``unescaped``: of JSON without what stands for a blank in it."""
        if name in self.json:
            text = f't."{name}"::text'
            return f"regexp_replace({text}, '\\\\.', ' ', 'g')" if unescaped else text
        return f"array_to_string(t.\"{name}\", E'\\n')" if name in self.arrays else f't."{name}"'


def place_of(name: str, kept: frozenset[str] = KEPT_COLUMNS) -> Place:
    """Return where texts are in a table; what its rows are found by stays."""
    table = TENANT_METADATA.tables[name]
    key = tuple(column.name for column in table.primary_key)
    kinds = {c.name: c.type for c in table.columns if c.name not in kept and c.name not in key}
    json = frozenset(name for name, kind in kinds.items() if isinstance(kind, JSONB))
    arrays = frozenset(
        name for name, kind in kinds.items() if isinstance(kind, ARRAY) and isinstance(kind.item_type, Text)
    )
    texts = frozenset(name for name, kind in kinds.items() if isinstance(kind, Text))
    columns = tuple(name for name in kinds if name in json | arrays | texts)
    alone = [index.columns.keys() for index in table.indexes if index.unique and len(index.columns) == 1]
    unique = frozenset(name for [name] in alone if name in texts)
    is_keyed = "name_key" in kinds and "counterparty_name" in kinds
    return Place(name, key, columns, json, arrays, unique, is_keyed)


def places() -> list[Place]:
    """Return the tables that are looked through in one way."""
    found = [place_of(name) for name in sorted(TENANT_METADATA.tables) if name not in APART]
    return [place for place in found if place.columns]


async def find(
    connection: Connection, place: Place, what: Wanted, *, source: str | None = None, more: Sequence[str] = ()
) -> AsyncIterator[list[dict[str, Any]]]:
    """Give the rows of a place in which something may stand, many at a time, locked.

    ``source`` calls the table ``t``, and ``more`` are other expressions to select. Rows may be changed meanwhile.
    """
    compared = _COMPACT if what.is_account else _PLAIN
    probes = {f"probe_{number}": probe for number, probe in enumerate(what.probes)}
    # Scripts without small letters, or accents that we know nothing of, are looked for among what is not ASCII.
    conditions = [f"strpos(f.text, %({name})s) > 0" for name in probes] or ["octet_length(h.text) <> length(h.text)"]
    query = _FIND.format(
        columns=", ".join([*(f't."{name}"' for name in (*place.key, *place.columns)), *more]),
        source=source or f'"{place.table}" t',
        # A name is looked for word by word.
        texts=", ".join(place.text_of(name, unescaped=what.is_account) for name in place.columns),
        compared=compared,
        condition=" AND ".join(conditions),
    )
    async with connection.cursor(name=_CURSOR) as cursor:
        await cursor.execute(query.encode(), probes)
        while rows := await cursor.fetchmany(ERASURE_ROWS_READ):
            yield rows


async def change(
    connection: Connection, place: Place, changes: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], also: str = ""
) -> None:
    """Set columns of rows, each given with its key; ``also`` is set of all of them."""
    by_columns: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row, after in changes:
        values = {
            name: Jsonb(value) if value is not None and name in place.json else value for name, value in after.items()
        }
        by_columns.setdefault(tuple(after), []).append({**values, **{f"key_{name}": row[name] for name in place.key}})
    for names, parameters in by_columns.items():
        assignments = ", ".join([*(f'"{name}" = %({name})s' for name in names), *([also] if also else [])])
        found = " AND ".join(f'"{name}" = %(key_{name})s' for name in place.key)
        query = f'UPDATE "{place.table}" SET {assignments} WHERE {found}'  # noqa: S608 - our own names
        async with connection.cursor() as cursor:
            await cursor.executemany(query.encode(), parameters)
