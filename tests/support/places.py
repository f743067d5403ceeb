"""Tenant environments for tests of storage: scopes that nobody registered, and looks from outside of every door."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from payrec.domain.scope import TenantScope, role_name, schema_name
from payrec.storage.ddl import statements_of

DEADLINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Two provisioned environments of two tenants."""

    a: TenantScope
    b: TenantScope


def new_scope(slug: str, environment: str = "production") -> TenantScope:
    """Return an environment of a tenant that nobody has seen before."""
    tenant_id = uuid.uuid4()
    return TenantScope(
        tenant_id=tenant_id,
        environment_id=uuid.uuid4(),
        environment=environment,
        slug=slug,
        schema_name=schema_name(slug, environment),
        role_name=role_name(tenant_id, environment),
    )


async def schema_of(connection: psycopg.AsyncConnection[Any]) -> str:
    """Return the name of the schema that a connection with rows as dictionaries is in."""
    row = await (await connection.execute("SELECT current_schema() AS name")).fetchone()
    assert row is not None
    return str(row["name"])


@asynccontextmanager
async def held(url: str, scope: TenantScope, table: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Keep everybody from a table, as who changes it does, until the end or a rollback; ``url`` is a superuser's."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(sql.SQL("LOCK TABLE {}").format(sql.Identifier(scope.schema_name, table)))
        yield connection
        await connection.rollback()


async def look(url: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query over a connection of its own; ``url`` says as whom.

    Of several statements, each by itself, the rows of the last.
    """
    *before, last = statements_of(query)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for statement in before:
            await connection.execute(statement.encode())
        cursor = await connection.execute(last.encode(), parameters or None)
        return await cursor.fetchall() if cursor.description else []


async def wait_for(url: str, query: str, *parameters: object) -> None:
    """Wait until a query has a row."""
    loop = asyncio.get_running_loop()
    until = loop.time() + DEADLINE_SECONDS
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while await (await connection.execute(query.encode(), parameters or None)).fetchone() is None:
            assert loop.time() < until, f"never: {query}"
            await asyncio.sleep(0.005)
