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


async def test_a_directory_that_cannot_be_read_stops_no_other(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp, config={"pattern": "**"})
    for n, name in enumerate(("a.csv", "in/b.csv", "secret/c.csv", "gone/d.csv"), 1):
        sftp.put(name, statement(n))
    sftp.refused |= {"secret": asyncssh.SFTPPermissionDenied("no"), "gone": asyncssh.SFTPNoSuchFile("none")}
    result = await synced(world, source)
    assert result["imported"] == 2
    assert [(error["name"], error["code"]) for error in result["errors"]] == [("secret/", "permission_denied")]
    assert await brought(world) == [1, 2]
    assert (await shown(world, source))["lastError"]["name"] == "secret/"
    sftp.refused.clear()
    assert (await synced(world, source))["imported"] == 2
    assert (await shown(world, source))["status"] == "ok"


async def test_a_file_whose_name_cannot_be_used_is_told_of(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp, config={"pattern": "**.csv"})
    for n, name in enumerate(("a.csv", "b\n.csv", "c\td/e.csv", "f\n.txt"), 1):
        sftp.put(name, statement(n))
    result = await synced(world, source)
    told = {(error["name"], error["code"]) for error in result["errors"]}
    assert told == {("b\N{REPLACEMENT CHARACTER}.csv", "name_refused"), ("c\N{REPLACEMENT CHARACTER}d", "name_refused")}
    assert await brought(world) == [1]
    (sftp.root / "b\n.csv").rename(sftp.root / "b.csv")
    (sftp.root / "c\td").rename(sftp.root / "c")
    assert (await synced(world, source))["failed"] == 0
    assert await brought(world) == [1, 2, 3]


async def test_a_name_is_kept_whole_in_its_import(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp)
    sftp.put("paid?.csv", statement(1))
    sftp.put("?.csv", statement(2))
    assert (await synced(world, source))["imported"] == 2
    imports = (await world.tenant.get("/imports", params={"dataSourceId": source["id"]})).json()["data"]
    assert {row["name"] for row in imports} == {"paid?.csv", "?.csv"}


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


async def test_what_was_moved_away_is_not_looked_at(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.connectors.sftp.OBJECTS_LISTED_MAX", 12)
    source = await created(world, sftp, config={"pattern": "**", "afterRead": "move", "moveTo": "done/old/"})
    for n in range(1, 10):
        sftp.put(f"in/{n}.csv", statement(n))
        assert (await synced(world, source))["imported"] == 1
    assert await brought(world) == list(range(1, 10))


# While it is pulled -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["attempt", "remember", "read"])
async def test_a_source_that_is_disabled_while_it_is_pulled_stops_and_has_not_failed(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    source = await created(world, sftp, config={"afterRead": "delete"})
    for n in (1, 2, 3):
        sftp.put(f"{n}.csv", statement(n))
    job = (await world.tenant.post(f"{PATH}/{source['id']}/sync")).json()
    with monkeypatch.context() as patch:
        held = Pause(patch, DataSourceObjectStore, when)
        pulling = drain(world, "sync")
        await held.reached.wait()
        disabling = asyncio.create_task(
            world.tenant.request("PATCH", f"{PATH}/{source['id']}", json={"enabled": False})
        )
        await asyncio.wait([disabling], timeout=0.5)
        held.go_on.set()
        assert (await disabling).status_code == 200
        await pulling
    ended = await world.job(job["id"])
    assert (ended["status"], ended["result"]["failed"]) == ("succeeded", 0), ended
    assert ended["result"]["imported"] <= 1
    now = await shown(world, source)
    assert (now["status"], now["lastError"], await events(world, source)) == ("disabled", None, [])
    reads = list(sftp.reads)
    assert len(reads) <= 1
    # One that was queued before, and is begun now, does nothing either.
    assert sftp.names() == {"1.csv", "2.csv", "3.csv"}
    await world.tenant.request("PATCH", f"{PATH}/{source['id']}", json={"enabled": True})
    assert (await synced(world, source))["failed"] == 0
    assert (await brought(world), sftp.names()) == ([1, 2, 3], set())


@pytest.mark.parametrize("when", ["is_source_enabled", "attempt"])
async def test_a_source_that_is_deleted_while_it_is_pulled_ends_its_sync(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    source = await created(world, sftp)
    for n in (1, 2, 3):
        sftp.put(f"{n}.csv", statement(n))
    job = (await world.tenant.post(f"{PATH}/{source['id']}/sync")).json()
    with monkeypatch.context() as patch:
        held = Pause(patch, DataSourceObjectStore, when)
        pulling = drain(world, "sync")
        await held.reached.wait()
        deleting = asyncio.create_task(world.tenant.request("DELETE", f"{PATH}/{source['id']}"))
        await asyncio.wait([deleting], timeout=0.5)
        held.go_on.set()
        assert (await deleting).status_code == 204
        await pulling
    ended = await world.job(job["id"])
    assert (ended["status"], ended["attempts"], ended["error"]["code"]) == ("failed", 1, "not_found")
    assert len(sftp.reads) <= 1
