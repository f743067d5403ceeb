"""What was told of: the events of an environment, whether they have got their places in the feed yet or not."""

from __future__ import annotations

from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from payrec.services.sealing import Sealer
from payrec.storage.rows import fetch_all
from support.service import Service, Tenant
from support.wire import rows, until

TOLD: Final = (
    "(SELECT type, resource_id, data, position AS place FROM event"
    " UNION ALL SELECT type, unnest(resource_ids), data, (1::bigint << 60) + sequence FROM outbox) AS told"
)
"""To select from, in one statement, whatever the sealer does meanwhile; in the order of ``place``."""


async def on_their_way(service: Service, tenant: Tenant, environment: str = "production") -> list[dict[str, Any]]:
    """Return the events of the control schema that an environment has not been told of yet, in their order."""
    query = """
        SELECT o.* FROM outbox o JOIN tenant_environment e ON e.id = o.environment_id
        WHERE e.tenant_id = %s AND e.environment = %s ORDER BY o.sequence
    """
    async with service.factory.context.database.control(readonly=True) as connection:
        return await fetch_all(connection, query, (tenant.id, environment))


async def has_arrived(service: Service, tenant: Tenant, environment: str = "production") -> None:
    """Wait until an environment has been told of everything that the control schema has for it."""

    async def none_is_left() -> bool | None:
        return not await on_their_way(service, tenant, environment) or None

    await until(none_is_left)


async def told_of(
    service: Service, tenant: Tenant, event_type: str, environment: str = "production"
) -> list[dict[str, Any]]:
    """Return the events of a type, those that are on their way from the control schema last."""
    query = f"SELECT type, resource_id, data FROM {TOLD} WHERE type = '{event_type}' ORDER BY place"  # noqa: S608
    found = await rows(service, tenant, query, environment)
    waiting = await on_their_way(service, tenant, environment)
    return [*found, *(event for event in waiting if event["type"] == event_type)]


def keep_unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody seal: events stay in the outbox, as they were written."""

    async def nothing(*_given: Any) -> None:
        return None

    monkeypatch.setattr(Sealer, "seal", nothing)


async def all_sealed(url: str, schema: str) -> None:
    """Wait until every event of a schema has its place; ``url`` is a superuser's."""
    query = sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(sql.Identifier(schema, "outbox"))
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def is_empty() -> bool | None:
            return (await (await connection.execute(query)).fetchone()) == (True,) or None

        await until(is_empty)
