"""A big run has partitions of its own, and whatever becomes of them, every row has its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from payrec.services import match_commit
from payrec.storage import partitions
from payrec.storage.partitions import ensure_partitions, make_own_partitions
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

BIG = 2


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
    """Return how many matches are in which partition."""
    rows = await world.sql("SELECT tableoid::regclass::text AS place, count(*) AS n FROM match GROUP BY 1")
    return {row["place"]: row["n"] for row in rows}


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


async def test_a_big_run_does_not_wait_for_whoever_reads_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "LOCK_MILLISECONDS_MAX", 20)
    await pairs(world, 600, BIG)
    await world.run(dryRun=True)
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await ensure_partitions(connection)
    async with world.service.factory.context.database.tenant(world.scope, readonly=True) as reader:
        await reader.execute(b"SELECT 1 FROM match_default")
        assert (await world.run())["counts"]["proposed"] == BIG
    assert await own(world, "match") == []
    assert await places(world) == {"match_default": BIG}
