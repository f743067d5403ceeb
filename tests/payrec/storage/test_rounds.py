"""Who goes through all tenant environments has connections of its own, which do not last."""

from __future__ import annotations

import asyncio

import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.storage import database as doors
from payrec.storage.database import ROUND_CONNECTIONS_MAX, Database
from support.places import Places, wait_for

pytestmark = pytest.mark.anyio

ENDED = "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY(%s))"


async def backends(database: Database, places: Places) -> list[int]:
    """Come through both environments, one after the other; return by which backends."""
    found = []
    for door in (database.control(), database.tenant(places.a), database.tenant(places.b, readonly=True)):
        async with door as connection:
            found.append(connection.info.backend_pid)
    return found


async def test_what_a_round_has_learnt_goes_with_its_connection(
    addresses: EmbeddedDatabase, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "ROUND_IDLE_SECONDS", 0.1)
    database = Database(url=addresses.url, pool_size_max=2)

    async def go_round() -> list[int]:
        database.go_round()
        return await backends(database, places)

    await database.open()
    try:
        rounds = [await asyncio.create_task(go_round()) for _ in range(2)]
        others = set(await backends(database, places))
        for of_round in rounds:
            assert not others & set(of_round)
        await wait_for(addresses.superuser_url, ENDED, [pid for of_round in rounds for pid in of_round])
        assert set(await backends(database, places)) <= others, "those of others last"
        assert not others & set(await asyncio.create_task(go_round())), "there are new ones for the next round"
    finally:
        await database.close()


async def test_a_round_that_needs_a_second_connection_waits_for_no_other_round(
    opened: Database, places: Places
) -> None:
    meet = asyncio.Barrier(ROUND_CONNECTIONS_MAX)

    async def go_round() -> tuple[int, int, int]:
        opened.go_round()
        async with opened.tenant(places.a) as first:
            await meet.wait()
            async with opened.control(readonly=True) as second:
                pass
        async with opened.tenant(places.b) as third:
            return first.info.backend_pid, second.info.backend_pid, third.info.backend_pid

    ended = await asyncio.gather(*(asyncio.create_task(go_round()) for _ in range(ROUND_CONNECTIONS_MAX)))
    of_rounds, of_others, afterwards = (set(pids) for pids in zip(*ended, strict=True))
    assert not of_rounds & of_others
    assert afterwards <= of_rounds
