"""Where environments are on a cluster, and that they are moved without anybody being told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import cast

import psycopg
import pytest
from psycopg import errors

from payrec.embedded.postgres import LOGIN_ROLE, EmbeddedDatabase, EmbeddedPostgres
from payrec.errors import UnavailableError
from payrec.storage.database import Database
from payrec.storage.provisioning import Provisioner
from payrec.storage.temporary import make_temporary
from support.citus import CitusServer, nodes_of
from support.places import Places, new_scope
from support.postgres import cloned

pytestmark = pytest.mark.anyio

COUNT = "SELECT count(*) AS count FROM change"


@pytest.fixture(scope="module")
def addresses(postgres: CitusServer) -> Iterator[EmbeddedDatabase]:
    with cloned(cast("EmbeddedPostgres", postgres)) as made:
        yield made


@pytest.fixture(scope="module")
async def opened(addresses: EmbeddedDatabase) -> AsyncIterator[Database]:
    database = Database(url=addresses.url, admin_url=addresses.admin_url, pool_size_max=2)
    await database.open()
    yield database
    await database.close()


@pytest.fixture(scope="module")
async def places(opened: Database) -> Places:
    found = Places(a=new_scope("aye"), b=new_scope("bee"))
    for scope in (found.a, found.b):
        await Provisioner(opened, login=LOGIN_ROLE).ensure(scope)
    return found


async def count(database: Database, places: Places) -> int:
    async with database.tenant(places.a, readonly=True) as connection:
        found = await (await connection.execute(COUNT)).fetchone()
    assert found is not None
    return int(found["count"])


async def add(database: Database, places: Places) -> None:
    async with database.tenant(places.a) as connection:
        await connection.execute("INSERT INTO change (id) VALUES (gen_random_uuid())")


async def test_an_environment_is_on_one_worker_and_the_control_schema_on_none(
    addresses: EmbeddedDatabase, places: Places
) -> None:
    assert len(nodes_of(addresses, places.a.schema_name)) == 1
    assert nodes_of(addresses, "control") == nodes_of(addresses, "jobs") == []


async def test_what_is_staged_is_gone_after_the_transaction(opened: Database, places: Places) -> None:
    for _ in range(2):
        async with opened.tenant(places.a) as connection:
            await make_temporary(connection, "CREATE TEMPORARY TABLE staged (id uuid) ON COMMIT DROP")
            await connection.execute("INSERT INTO staged SELECT id FROM change")
    with pytest.raises(errors.UndefinedTable):
        async with opened.tenant(places.a) as connection:
            await connection.execute("SELECT 1 FROM staged")


async def test_a_schema_that_is_moved_is_there_for_its_own_tenant_alone(
    postgres: CitusServer, addresses: EmbeddedDatabase, opened: Database, places: Places
) -> None:
    await add(opened, places)
    before = await count(opened, places)
    [here] = nodes_of(addresses, places.a.schema_name)
    others = [(node.host, node.port) for node in postgres.nodes[1:] if (node.host, node.port) != here]
    if not others:
        pytest.skip("PAYREC_TEST_CITUS_URL: the cluster has one worker alone")
    with psycopg.connect(addresses.superuser_url, autocommit=True) as connection:
        connection.execute("SELECT citus_schema_move(%s, %s, %s)", (places.a.schema_name, *others[0]))
    assert nodes_of(addresses, places.a.schema_name) == [others[0]]
    assert await count(opened, places) == before
    await add(opened, places)
    assert await count(opened, places) == before + 1
    with pytest.raises(errors.InsufficientPrivilege):
        async with opened.tenant(places.b) as connection:
            await connection.execute(f"SELECT 1 FROM {places.a.schema_name}.change".encode())  # noqa: S608 - our own name


async def test_who_is_in_a_hurry_waits_no_longer_on_a_worker_than_elsewhere(
    opened: Database, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.storage.database.LOCK_SECONDS_MAX", 0.2)
    update = b"UPDATE history_span SET begun_at = begun_at"

    async def wait() -> None:
        Database.hurry()
        async with opened.tenant(places.a) as connection:
            await connection.execute(update)

    async with opened.tenant(places.a) as holding:
        await holding.execute(update)
        with pytest.raises(UnavailableError, match="others were changing the same"):
            await asyncio.wait_for(asyncio.create_task(wait()), 10)


async def test_who_stages_rows_while_a_schema_is_moved_is_told_to_come_again(
    postgres: CitusServer, addresses: EmbeddedDatabase, opened: Database, places: Places
) -> None:
    schema = places.b.schema_name
    [here] = nodes_of(addresses, schema)
    others = [(node.host, node.port) for node in postgres.nodes[1:] if (node.host, node.port) != here]
    if not others:
        pytest.skip("PAYREC_TEST_CITUS_URL: the cluster has one worker alone")
    create = "CREATE TEMPORARY TABLE staged (id uuid) ON COMMIT DROP"
    with psycopg.connect(addresses.superuser_url) as moving:
        moving.execute("SELECT citus_schema_move(%s, %s, %s)", (schema, *others[0]))
        with pytest.raises(UnavailableError, match="others were changing the same"):
            async with opened.tenant(places.b) as connection:
                await make_temporary(connection, create)
        moving.rollback()
    async with opened.tenant(places.b) as connection:
        await make_temporary(connection, create)
