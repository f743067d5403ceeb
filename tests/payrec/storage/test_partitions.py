"""A big run has partitions of its own, and whatever becomes of them, every row has its place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from payrec.services import match_commit
from payrec.storage import partitions
from payrec.storage.partitions import ensure_partitions, make_own_partitions
from payrec.storage.rows import fetch_all
from support.matching_world import World, matching_world
from support.service import Service, Tenant
from support.tenant_data import scope_of_tenant
from support.wire import until

pytestmark = pytest.mark.anyio

BIG = 2
CLIENTS = 16


@pytest.fixture
async def world(
    service: Service, acme: Tenant, globex: Tenant, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr(match_commit, "OWN_MATCHES_MIN", BIG)
    async with matching_world(service, acme, globex) as made:
        await drop_own(made)
        yield made
        await drop_own(made)


async def own(world: World, table: str) -> list[str]:
    query = """
        SELECT c.relname::text AS name FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
        WHERE h.inhparent = to_regclass(%s) AND c.relname <> %s ORDER BY 1
    """
    return [row["name"] for row in await world.sql(query, table, f"{table}_default")]


async def drop_own(world: World) -> None:
    for table in ("match", "leg"):
        for name in await own(world, table):
            await world.sql(f'DROP TABLE "{name}"')


async def pairs(world: World, first: int, count: int) -> None:
    for number in range(first, first + count):
        await world.expect(f"{number}.00", reference=f"INV-2026-{number:05}")
        await world.receive(f"{number}.00", remittance=f"INV-2026-{number:05}")


async def places(world: World) -> dict[str, int]:
    """Return how many matches are in which partition; on Citus a worker names its shard, in its schema."""
    rows = await world.sql("SELECT tableoid::regclass::text AS place, count(*) AS n FROM match GROUP BY 1")
    return {re.sub(r"^\w+\.(\w+)_\d+$", r"\1", row["place"]): row["n"] for row in rows}


async def make(world: World, first: UUID, count: int = 10) -> bool:
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await ensure_partitions(connection)
        return await make_own_partitions(connection, first, UUID(int=first.int + count))


async def test_a_big_run_writes_into_its_own_partitions_and_a_small_one_does_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pairs(world, 100, BIG)
    await world.run()
    [matches], [legs] = await own(world, "match"), await own(world, "leg")
    assert await places(world) == {matches: BIG}
    query = "SELECT indexname FROM pg_indexes WHERE tablename = %s AND schemaname = current_schema()"
    indexes = await world.sql(query, legs)
    assert len(indexes) == 5
    assert await world.sql("SELECT count(*) AS n FROM leg") == [{"n": BIG}]
    [first, _] = await world.matches()
    item = first["legs"][0]["expectedTransactionId"]
    assert await world.matches(expectedTransactionId=item) == [first]
    assert (await world.accept(first)).status_code == 200
    await pairs(world, 200, 1)
    monkeypatch.setattr(match_commit, "OWN_MATCHES_MIN", 100)
    await world.run()
    assert sum((await places(world)).values()) == BIG + 1
    assert await own(world, "match") == [matches]


async def test_the_partitions_of_a_run_that_came_to_nothing_go_with_the_next(world: World) -> None:
    await pairs(world, 300, BIG)
    ids = world.service.factory.context.ids
    assert await make(world, ids.new())
    [left_over] = await own(world, "match")
    await world.run()
    [used] = await own(world, "match")
    assert used != left_over
    assert await own(world, "leg") == [used.replace("match", "leg")]


async def test_there_are_no_more_partitions_than_everybody_can_look_into(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "OWN_PARTITIONS_MAX", 1)
    for first in (400, 500):
        await pairs(world, first, BIG)
        await world.run()
    found = await places(world)
    assert len(await own(world, "match")) == 1
    assert "match_default" in found


@pytest.mark.parametrize("table", ["match", "leg"])
async def test_a_big_run_does_not_wait_for_whoever_reads_long(
    world: World, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr(partitions, "LOCK_MILLISECONDS_MAX", {"match": 20, "leg": 5_000}[table])
    await pairs(world, 600, BIG)
    await world.run(dryRun=True)
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await ensure_partitions(connection)
    async with world.service.factory.context.database.tenant(world.scope, readonly=True) as reader:
        await reader.execute(f"SELECT FROM {table}_default".encode())
        running = asyncio.create_task(world.run())

        async def is_waiting() -> bool | None:
            waiting = "SELECT mode FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
            return running.done() or bool(await fetch_all(reader, waiting)) or None

        await until(is_waiting)
        # Nor does anybody who reads the other one as well then wait in a circle with it.
        await reader.execute(b"SELECT FROM match_default, leg_default")
        run = await running
    assert run["counts"]["proposed"] == BIG
    assert (await world.job(run["jobId"]))["attempts"] == 1
    assert await own(world, "match") == []
    assert await places(world) == {"match_default": BIG}


async def test_who_decides_first_of_all_in_an_environment_waits_for_nobody_who_reads(service: Service) -> None:
    tenant = await service.tenant("initech", environments=["production"])
    money = {"amount": "9.00", "currency": "EUR", "direction": "credit"}

    async def store(number: int) -> dict[str, str]:
        item = await tenant.post("/expected-transactions", money)
        line = money | {"bookingDate": "2026-03-12", "bankReference": f"{number}"}
        return {
            "expectedTransactionId": item.json()["id"],
            "incomingTransactionId": (await tenant.post("/incoming-transactions", line)).json()["id"],
        }

    pairs = await asyncio.gather(*(store(number) for number in range(CLIENTS)))
    scope = await scope_of_tenant(service.factory, tenant)
    async with service.factory.context.database.tenant(scope, readonly=True) as reader:
        await reader.execute(b"SELECT FROM leg")
        bodies = [{"legs": [pair | {"amountMinor": 900}], "reason": "seen"} for pair in pairs]
        deciding = asyncio.gather(*(tenant.post("/matches", body) for body in bodies))

        async def is_seen() -> bool | None:
            waiting = await fetch_all(reader, "SELECT mode FROM pg_locks WHERE NOT granted AND locktype = 'relation'")
            return deciding.done() or bool(waiting) or None

        await until(is_seen)
        # Whoever now waited for the reader would keep it from going on.
        await reader.execute(b"SELECT FROM match")
        async with asyncio.timeout(10):
            assert [answer.status_code for answer in await deciding] == [201] * CLIENTS
