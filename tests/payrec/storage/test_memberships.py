"""Which roles a session may become: what is granted while it begins is so for it too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import errors

from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase
from payrec.storage.beginnings import MEMBERSHIPS_ANEW
from payrec.storage.database import Connection, Database
from payrec.storage.rows import fetch_one
from support.places import look, new_scope

pytestmark = pytest.mark.anyio


@pytest.fixture
async def foreign(addresses: EmbeddedDatabase) -> AsyncIterator[TenantScope]:
    """A role that nobody may become."""
    scope = new_scope("foreign")
    await look(addresses.superuser_url, f"CREATE ROLE {scope.role_name}")
    yield scope
    await look(addresses.superuser_url, f"DROP ROLE {scope.role_name}")


class Refusals:
    """Counts the messages that are refused, and does something after each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, then: str, url: str) -> None:
        self.queries: list[bytes] = []
        execute = Connection.execute

        async def noted(connection: Connection, query: Any, *given: Any, **options: Any) -> Any:
            try:
                return await execute(connection, query, *given, **options)
            except errors.InsufficientPrivilege:
                self.queries.append(query)
                await look(url, then)
                raise

        monkeypatch.setattr(Connection, "execute", noted)


async def test_who_is_refused_asks_once_more_without_what_the_session_remembers(
    opened: Database, foreign: TenantScope, addresses: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = f"GRANT {foreign.role_name} TO {LOGIN_ROLE} WITH SET TRUE, INHERIT FALSE"
    refusals = Refusals(monkeypatch, grant, addresses.superuser_url)
    async with opened.tenant(foreign, readonly=True, snapshot=True) as connection:
        row = await fetch_one(
            connection,
            "SELECT current_user::text AS role, current_setting('transaction_isolation') AS isolation,"
            " current_setting('transaction_read_only') AS readonly",
        )
    assert row == {"role": foreign.role_name, "isolation": "repeatable read", "readonly": "on"}
    assert len(refusals.queries) == 1


async def test_who_was_never_admitted_stays_outside(
    opened: Database, foreign: TenantScope, addresses: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = Refusals(monkeypatch, "SELECT 1", addresses.superuser_url)
    with pytest.raises(errors.InsufficientPrivilege):
        async with opened.tenant(foreign):
            pass
    first, again = refusals.queries
    assert (MEMBERSHIPS_ANEW in again, again.endswith(first)) == (True, True), "once more, and no oftener"
    async with opened._pool.connection() as connection:
        assert connection.info.transaction_status.name == "IDLE"
