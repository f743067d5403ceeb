"""What servers tell of their files, and leave out: nothing is lost where one says less than others."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta

import asyncssh
import pytest

from payrec.storage.data_source_objects import DataSourceObjectStore
from support.attempts import Pause, drain
from support.file_servers import SftpServer
from support.matching_world import World
from support.sources import PATH, brought, created, events, shown, statement, synced

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("told", [None, 0])
@pytest.mark.parametrize("action", ["leave", "delete", "move"])
async def test_a_server_that_tells_no_times_loses_no_file_of_the_same_name_and_size(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch, action: str, told: int | None
) -> None:
    def timeless(attrs: asyncssh.SFTPAttrs) -> None:
        attrs.atime = attrs.mtime = told
        attrs.atime_ns = attrs.mtime_ns = None

    sftp.tells = timeless
    source = await created(
        world, sftp, config={"afterRead": action, **({"moveTo": "done/"} if action == "move" else {})}
    )
    sftp.put("day.csv", statement(1))
    assert (await synced(world, source))["waiting"] == 1, "that it is old is nobody's word"
    monkeypatch.setattr("payrec.services.source_sync.OBJECT_STABLE_AFTER", timedelta())
    for day in (1, 2, 3):
        sftp.put("day.csv", statement(day))
        assert (await synced(world, source))["imported"] == 1
        again = await synced(world, source)
        assert (again["imported"], again["waiting"], again["failed"]) == (0, 0, 0)
    assert await brought(world) == [1, 2, 3]
    assert ("day.csv" in sftp.names()) == (action == "leave")


async def test_what_is_read_again_at_each_look_keeps_no_new_file_waiting(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timeless(attrs: asyncssh.SFTPAttrs) -> None:
        attrs.atime = attrs.mtime = attrs.atime_ns = attrs.mtime_ns = None

    sftp.tells = timeless
    monkeypatch.setattr("payrec.services.source_sync.OBJECT_STABLE_AFTER", timedelta())
    monkeypatch.setattr("payrec.services.source_sync.SYNC_OBJECTS_MAX", 2)
    source = await created(world, sftp)
    for n in range(1, 6):
        sftp.put(f"{n}.csv", statement(n))
    assert [(await synced(world, source))["waiting"] for _ in range(3)] == [3, 1, 0]
    assert await brought(world) == [1, 2, 3, 4, 5]
    sftp.put("1.csv", statement(6))
    for _ in range(3):
        assert (await synced(world, source))["waiting"] == 0
    assert await brought(world) == [1, 2, 3, 4, 5, 6]


# What is wrong with one stops no other ------------------------------------------------------------------------------


async def test_a_file_that_cannot_be_deleted_stops_no_other(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp, config={"afterRead": "delete"})
    for n in (1, 2, 3):
        sftp.put(f"{n}.csv", statement(n))
    sftp.refused["1.csv"] = asyncssh.SFTPFailure("in use")
    for imported in (3, 0):
        result = await synced(world, source)
        assert result["imported"] == imported
        assert [(error["name"], error["code"]) for error in result["errors"]] == [("1.csv", "answer_refused")]
        assert sftp.names() == {"1.csv"}
    sftp.refused.clear()
    assert (await synced(world, source))["failed"] == 0
    assert sftp.names() == set()


# What was moved away ------------------------------------------------------------------------------------------------


async def test_the_same_file_delivered_again_and_again_is_moved_each_time(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp, config={"afterRead": "move", "moveTo": "done/"})
    then = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    for count in (1, 2, 3, 4):
        os.utime(sftp.put("a.csv", statement(1)), (then, then))
        assert (await synced(world, source))["failed"] == 0
        assert len(sftp.names()) == count
        assert all(name.startswith("done/a.csv") for name in sftp.names())
    assert len((await world.tenant.get("/imports")).json()["data"]) == 1
