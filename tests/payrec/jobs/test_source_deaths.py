"""Worker processes that are killed while they pull: another one goes on, and each file is there once."""

from __future__ import annotations

import pytest

from payrec.storage.jobs import JobStore
from support.attempts import LAPSE
from support.file_servers import SftpServer
from support.matching_world import DEADLINE_SECONDS, World
from support.sources import PATH, brought, created, shown, statement
from support.wire import until
from support.worker_process import worker_process

pytestmark = pytest.mark.anyio

QUICK = {"lease": 1.5, "heartbeat_seconds": 0.3, "stalled_seconds": 1.0, "polling_seconds": 0.3}


async def waiting(world: World) -> bool | None:
    """Tell whether somebody waits for a lock on a table."""
    return bool(await world.sql("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'relation'")) or None


@pytest.mark.parametrize("table", ["data_source_object", "import", "incoming_transaction"])
async def test_a_sync_whose_worker_is_killed_is_done_once_by_another(
    world: World, sftp: SftpServer, table: str
) -> None:
    config, database = world.service.factory.context.config, world.service.factory.context.database
    source = await created(world, sftp, config={"afterRead": "delete"})
    sftp.put("a.csv", statement(1))
    sftp.put("b.csv", statement(2))
    async with worker_process(config, **QUICK) as first:
        async with database.tenant(world.scope) as connection:
            await connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE".encode())
            job = (await world.tenant.post(f"{PATH}/{source['id']}/sync")).json()
            await until(lambda: waiting(world), seconds=DEADLINE_SECONDS)
            first.kill()
            await first.wait()
        died = await world.job(job["id"])
        assert (died["status"], died["attempts"]) == ("running", 1)
        assert sftp.names() == {"a.csv", "b.csv"}
    async with worker_process(config, **QUICK):
        ended = await world.ended(job["id"])
    assert (ended["status"], ended["attempts"], ended["result"]["failed"]) == ("succeeded", 2, 0)
    # What the dead worker was reading is a job of its own, with a lease that is longer.
    await world.sql(LAPSE)
    async with database.tenant(world.scope) as connection:
        await JobStore(connection).wake(world.scope.environment_id, "import")

    async def all_brought() -> bool | None:
        return (await brought(world)) == [1, 2] or None

    async with worker_process(config, **QUICK):
        await until(all_brought, seconds=DEADLINE_SECONDS)
        again = (await world.tenant.post(f"{PATH}/{source['id']}/sync")).json()
        assert (await world.ended(again["id"]))["status"] == "succeeded"
    assert (await brought(world), sftp.names()) == ([1, 2], set())
    imports = (await world.tenant.get("/imports")).json()["data"]
    assert sorted((row["name"], row["status"]) for row in imports) == [("a.csv", "completed"), ("b.csv", "completed")]
    assert (await shown(world, source))["status"] == "ok"
