"""Whatever table there is, and will be: a name that stands in every text of it stands in none after an erasure."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from psycopg import sql
from psycopg.types.json import Jsonb
from sqlalchemy import ARRAY, Column, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

from payrec.domain.erasures import STATED_CODES, STATED_TEXTS, STATED_WORDS
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.storage.database import Connection
from payrec.storage.erasure_places import APART, KEPT_COLUMNS, places
from payrec.storage.partitions import ensure_partitions
from payrec.tables.base import TENANT_METADATA
from support.erasures import NAME, PATH, dumped
from support.postgres import cloned
from support.service import make_config, running
from support.tenant_data import scope_of_tenant

pytestmark = pytest.mark.anyio

SIDE = 2
STATED = dict.fromkeys((*STATED_TEXTS[SIDE], *STATED_WORDS[SIDE], *STATED_CODES[SIDE]), NAME)
STATED |= {"metadata": {"contact": NAME}, "batch": {"groupKey": NAME}}
PLAIN: dict[type, Any] = {
    UUID: UUID(int=1),
    datetime: datetime(2026, 3, 1, tzinfo=UTC),
    date: date(2010, 3, 1),
    bool: False,
    int: SIDE,
    bytes: bytes(32),
}
UNBOUND = """
    SELECT conrelid::regclass::text AS name, quote_ident(conname) AS made FROM pg_constraint
    WHERE connamespace = current_schema()::regnamespace AND contype IN ('c', 'f') AND conparentid = 0
        AND coninhcount = 0
"""


def value(table: Table, column: Column[Any]) -> Any:
    """Return what a column has: the name where a text is looked through, else as little as can be."""
    searched = column.name not in KEPT_COLUMNS and not column.primary_key
    if isinstance(column.type, Text):
        text = NAME if searched else "x"
        return json.dumps({"note": text}) if (table.name, column.name) == ("idempotency", "body") else text
    if isinstance(column.type, JSONB):
        if (table.name, column.name) == ("stated_row", "stated"):
            return Jsonb(STATED)
        return Jsonb({"note": NAME, "more": [[NAME]]} if searched else {})
    if isinstance(column.type, ARRAY):
        return ([NAME] if searched else []) if isinstance(column.type.item_type, Text) else []
    return None if column.nullable else PLAIN[column.type.python_type]


async def fill(connection: Connection) -> None:
    """Add a row to every table, whatever it means."""
    await ensure_partitions(connection)
    cursor = await connection.execute(UNBOUND)
    for made in await cursor.fetchall():
        await connection.execute(f"ALTER TABLE {made['name']} DROP CONSTRAINT {made['made']}".encode())
    for table in TENANT_METADATA.tables.values():
        columns = [column for column in table.columns if column.computed is None and column.identity is None]
        query = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING").format(
            sql.Identifier(table.name),
            sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
            sql.SQL(", ").join(sql.Placeholder() * len(columns)),
        )
        await connection.execute(query, [value(table, column) for column in columns])


async def test_a_name_that_is_in_every_text_is_in_none_afterwards(postgres: EmbeddedPostgres) -> None:
    with cloned(postgres) as made:
        async with running(make_config(made), worker=False) as service:
            tenant = await service.tenant("acme", environments=["production"])
            database = service.factory.context.database
            scope = await scope_of_tenant(service.factory, tenant)
            async with database.tenant(scope) as connection:
                await fill(connection)
                before = {name for name, found in (await dumped(connection)).items() if any(NAME in x for x in found)}
            assert APART | {place.table for place in places()} <= before
            answer = await tenant.post(PATH, {"counterpartyName": NAME, "reason": "asked for"})
            assert answer.status_code == 201, answer.text
            async with database.tenant(scope) as connection:
                after = {name for name, found in (await dumped(connection)).items() if any(NAME in x for x in found)}
            assert after == set()
