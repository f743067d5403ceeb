"""Who waits within a door: for others, for whoever opened it, or on a connection that is gone."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase
from payrec.errors import UnavailableError
from payrec.storage import beginnings
from payrec.storage import database as doors
from payrec.storage.database import Connection, Database
from payrec.storage.rows import fetch_one
from support.places import Places, held, look, wait_for

pytestmark = pytest.mark.anyio


async def test_who_stands_still_in_a_transaction_lets_go_of_what_it_holds(
    opened: Database, places: Places, addresses: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "beginning", doors.beginning.__wrapped__)
    monkeypatch.setattr(beginnings, "IDLE_TRANSACTION_SECONDS_MAX", 0.2)

    async def stand_still() -> None:
        async with opened.tenant(places.a) as still:
            await still.execute(b"SELECT pg_advisory_xact_lock(4711)")
            await wait_for(addresses.superuser_url, "SELECT 1 WHERE pg_try_advisory_xact_lock(4711)")
            await still.execute(b"SELECT 1")

    with pytest.raises(UnavailableError):
        await stand_still()


async def test_who_only_reads_may_take_as_long_as_it_takes(opened: Database, places: Places) -> None:
    for readonly, bound in ((True, "0"), (False, "2min")):
        async with opened.tenant(places.a, readonly=readonly) as connection:
            row = await fetch_one(connection, "SELECT current_setting('idle_in_transaction_session_timeout') AS bound")
            assert row == {"bound": bound}


async def _lose_the_connection(database: Database, places: Places, addresses: EmbeddedDatabase) -> None:
    async with database.tenant(places.a) as connection:
        await look(addresses.superuser_url, "SELECT pg_terminate_backend(%s::integer)", connection.info.backend_pid)
        await connection.execute("SELECT pg_sleep(5)")


async def _ended_by_server(addresses: EmbeddedDatabase) -> int:
    """Have the server end all connections of the service, as when it restarts, and return how many there were."""
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND usename = %s"
    )
    [(ended,)] = await look(addresses.superuser_url, query, LOGIN_ROLE)
    return int(ended)


async def test_a_connection_that_the_server_ends_is_a_503(
    opened: Database, places: Places, addresses: EmbeddedDatabase
) -> None:
    with pytest.raises(UnavailableError):
        await _lose_the_connection(opened, places, addresses)
    async with opened.tenant(places.a) as connection:
        assert await fetch_one(connection, "SELECT 1 AS one") == {"one": 1}


async def test_who_gives_way_to_others_is_told_so(opened: Database, places: Places) -> None:
    lock = b"SELECT pg_advisory_xact_lock(%s)"

    async def both(first: int, second: int, meet: asyncio.Barrier) -> None:
        async with opened.tenant(places.a) as connection:
            await connection.execute(lock, (first,))
            await meet.wait()
            await connection.execute(lock, (second,))

    meet = asyncio.Barrier(2)
    ended = await asyncio.gather(both(7, 8, meet), both(8, 7, meet), return_exceptions=True)
    [refused] = [error for error in ended if error is not None]
    assert isinstance(refused, UnavailableError)
    assert refused.detail == "others were changing the same"


async def test_only_who_is_in_a_hurry_gives_up_on_what_others_hold(
    opened: Database, places: Places, addresses: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "LOCK_SECONDS_MAX", 0.2)

    async def hurried(context: AbstractAsyncContextManager[Connection], table: bytes) -> None:
        opened.hurry()
        async with context as connection:
            await connection.execute(b"SELECT 1 FROM " + table)

    async def patient() -> None:
        async with opened.tenant(places.a) as connection:
            await connection.execute(b"SELECT 1 FROM job")

    async with held(addresses.superuser_url, places.a, "job") as holder:
        waits = asyncio.create_task(patient())
        of_a = f"{places.a.schema_name}.job".encode()
        for context, table in (
            (opened.tenant(places.a), b"job"),
            (opened.tenant(places.a, readonly=True, snapshot=True), b"job"),
            (opened.provisioning(role=places.a.role_name), of_a),
        ):
            with pytest.raises(UnavailableError) as refused:
                await asyncio.create_task(hurried(context, table))
            assert refused.value.detail == "others were changing the same"
        await asyncio.create_task(hurried(opened.tenant(places.b), b"job"))
        assert not waits.done()
        await holder.rollback()
        await waits


async def test_a_server_that_has_ended_its_connections_is_reached(
    opened: Database, places: Places, addresses: EmbeddedDatabase
) -> None:
    """It has come back, and who asks whether it is there gets no connection of before."""
    async with opened.tenant(places.a), opened.tenant(places.b):
        pass
    assert await _ended_by_server(addresses) >= 2
    await opened.ping()


async def test_connections_that_the_server_has_ended_meanwhile_are_not_lent(
    opened: Database, places: Places, addresses: EmbeddedDatabase
) -> None:
    async with opened.tenant(places.a), opened.tenant(places.b):
        pass
    ended = await _ended_by_server(addresses)
    assert ended >= 2
    for _ in range(ended):
        async with opened.tenant(places.a) as connection:
            assert await fetch_one(connection, "SELECT 1 AS one") == {"one": 1}
