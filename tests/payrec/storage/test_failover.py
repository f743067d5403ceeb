"""A database that fails over, or is away for a while: who needs it finds it again soon after it can be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.errors import UnavailableError
from payrec.jobs.app import create_app
from payrec.storage.database import Database
from support.forwarder import forwarding
from support.postgres import Outages, cloned, crashing

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.not_on_citus("it makes a standby of a server that it has started itself, and of none of the cluster's"),
]

CONNECTIONS = 2

AWAY_SECONDS = 8.0
"""Whoever tries again after 1, 2, 4, 8 … seconds, as a pool does by itself, is in its pause of eight seconds then."""

FOUND_SECONDS_MAX = 5.0


@pytest.fixture
async def place() -> AsyncIterator[tuple[EmbeddedDatabase, Outages]]:
    """Start a server that stands by."""
    with crashing() as (postgres, outages), cloned(postgres) as database:
        await outages.stand_by()
        try:
            yield database, outages
        finally:
            await outages.take_over()


@asynccontextmanager
async def opened(addresses: EmbeddedDatabase) -> AsyncIterator[Database]:
    database = Database(url=addresses.url, admin_url=addresses.admin_url or None, pool_size_max=CONNECTIONS)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def reached(database: Database) -> set[int]:
    """Return the processes of the server that all connections lead to, each used once."""
    async with database.control(readonly=True) as first, database.control(readonly=True) as second:
        return {first.info.backend_pid, second.info.backend_pid}


async def written(database: Database) -> None:
    async with database.control() as connection:
        await connection.execute("DELETE FROM known_pepper")


async def test_a_connection_that_led_to_a_standby_is_not_used_again_to_write(
    place: tuple[EmbeddedDatabase, Outages],
) -> None:
    addresses, outages = place
    async with opened(addresses) as database:
        before = await reached(database)
        for _ in range(CONNECTIONS):
            with pytest.raises(UnavailableError, match="read-only"):
                await written(database)
        assert not before & await reached(database)
        await outages.take_over()
        await written(database)


async def administered(database: Database, statement: bytes) -> int:
    """Do something as the administrator, and return the process of the server that did it."""
    async with database.provisioning() as connection:
        await connection.execute(statement)
        return connection.info.backend_pid


async def test_no_tenant_is_made_by_a_connection_that_led_to_a_standby(
    place: tuple[EmbeddedDatabase, Outages],
) -> None:
    addresses, outages = place
    async with opened(addresses) as database:
        before = await administered(database, b"SELECT")
        assert await administered(database, b"SELECT") == before, "what it can do there it goes on doing"
        with pytest.raises(UnavailableError, match="read-only"):
            await administered(database, b"CREATE ROLE made_after_a_failover")
        assert await administered(database, b"SELECT") != before
        await outages.take_over()
        await administered(database, b"CREATE ROLE made_after_a_failover")
        await administered(database, b"DROP ROLE made_after_a_failover")


async def test_the_queue_is_not_looked_for_at_a_standby(place: tuple[EmbeddedDatabase, Outages]) -> None:
    addresses, outages = place
    app = create_app(url=addresses.url)
    with pytest.raises(UnavailableError, match=r"the job queue cannot be reached .*: the server is a standby"):
        await app.open_async()
    await outages.take_over()
    async with app.open_async():
        assert await app.job_manager.check_connection_async()


async def test_a_database_that_was_away_is_found_as_soon_as_it_is_asked_for(
    database: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.storage.database.POOL_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("payrec.storage.database.RECONNECT_SECONDS_MAX", 0.2)
    there = conninfo_to_dict(database.url)
    now = asyncio.get_running_loop().time
    async with forwarding(5432, host=str(there["host"])) as forwarder:
        url = make_conninfo(database.url, host="127.0.0.1", port=forwarder.port)
        async with opened(EmbeddedDatabase(url=url, admin_url="", superuser_url="")) as reopened:
            await forwarder.close()
            until = now() + AWAY_SECONDS
            while now() < until:
                with pytest.raises(UnavailableError):
                    await reopened.ping()
            await forwarder.open()
            until = now() + FOUND_SECONDS_MAX
            while not await answers(reopened):
                assert now() < until
            async with asyncio.timeout(10.0):
                # What is still being connected is not broken off, as which it would be found unclosed.
                while reopened.connections()["idle"] < CONNECTIONS:
                    await answers(reopened)


async def answers(database: Database) -> bool:
    try:
        await database.ping()
    except UnavailableError:
        return False
    return True
