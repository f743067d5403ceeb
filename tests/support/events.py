"""What was told of: the events of an environment, whether they have got their places in the feed yet or not."""

from __future__ import annotations

from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from payrec.services.sealing import Sealer
from support.wire import until

TOLD: Final = (
    "(SELECT type, resource_id, data, position AS place FROM event"
    " UNION ALL SELECT type, unnest(resource_ids), data, (1::bigint << 60) + sequence FROM outbox) AS told"
)
"""To select from, in one statement, whatever the sealer does meanwhile; in the order of ``place``."""


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
