"""Pulled data sources: each remote object once, whatever breaks, whoever dies, and however often it is looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from payrec.connectors.sftp import SftpConnector
from payrec.constants.sources import OBJECT_ATTEMPTS_MAX
from payrec.services.imports import ImportService
from payrec.services.source_sync import SourceSyncer, _Sync
from payrec.storage.data_source_objects import DataSourceObjectStore
from support.ages import aged
from support.attempts import DUE, LAPSE, drain
from support.file_servers import PASSWORD, SftpServer, file_server
from support.matching_world import World
from support.object_server import ACCESS_KEY, SECRET_KEY, object_server
from support.sources import PATH, UNREADABLE, brought, created, events, shown, statement, synced

pytestmark = pytest.mark.anyio

FRESH = timedelta()


# Each object once -------------------------------------------------------------------------------------------------


async def test_what_is_new_is_imported_once(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp, config={"pattern": "*.csv"})
    sftp.put("a.csv", statement(1))
    sftp.put("b.csv", statement(2, 3), age=timedelta(days=3))
    sftp.put("c.txt", statement(4))
    result = await synced(world, source)
    assert result == {
        "dataSourceId": source["id"],
        "listed": 2,
        "imported": 2,
        "waiting": 0,
        "failed": 0,
        "errors": [],
    }
    found = (await world.tenant.get("/imports", params={"dataSourceId": source["id"]})).json()["data"]
    assert [row["name"] for row in found] == ["a.csv", "b.csv"]  # the older file came first
    assert (await synced(world, source))["imported"] == 0
    assert sftp.reads == ["b.csv", "a.csv"]
    assert await brought(world) == [1, 2, 3]
    now = await shown(world, source)
    assert (now["status"], now["lastError"], now["version"]) == ("ok", None, 1)
    assert now["lastSyncAt"] is not None

    # The same content under another name is the same import; other content under the same name is another one.
    sftp.put("copy.csv", statement(1))
    sftp.put("b.csv", statement(2, 3, 5))
    assert (await synced(world, source))["imported"] == 2
    assert len((await world.tenant.get("/imports")).json()["data"]) == 3
    assert await brought(world) == [1, 2, 3, 5]
    assert (await world.bystander.get("/imports")).json()["data"] == []


async def test_a_file_that_is_still_written_waits_until_it_has_stopped_changing(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp)
    whole = statement(1, 2)
    sftp.put("a.csv", whole[: len(whole) // 2], age=FRESH)
    for _ in range(2):
        result = await synced(world, source)
        assert (result["imported"], result["waiting"], sftp.reads) == (0, 1, [])
    soon = datetime.fromisoformat((await shown(world, source))["nextSyncAt"]) - datetime.now(UTC)
    assert timedelta(seconds=30) < soon <= timedelta(seconds=60)
    sftp.put("a.csv", whole, age=FRESH)
    assert (await synced(world, source))["waiting"] == 1
    # It was first seen as it is now long ago.
    await world.sql(aged("data_source_object", "2 minutes"))
    assert (await synced(world, source))["imported"] == 1
    assert await brought(world) == [1, 2]
    # The server's word that it is old is enough too, at the first look.
    sftp.put("b.csv", statement(3), age=timedelta(days=1))
    assert (await synced(world, source))["imported"] == 1


async def test_a_server_whose_clock_is_late_does_not_make_a_file_an_old_one(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp)
    whole = statement(1, 2345)
    late = timedelta(hours=5)
    sftp.put("a.csv", whole[:-3], age=late)
    assert (await synced(world, source))["waiting"] == 1
    sftp.put("a.csv", whole, age=late - timedelta(seconds=1))
    await synced(world, source)
    await world.sql(aged("data_source_object", "2 minutes"))
    await synced(world, source)
    assert await brought(world) == [1, 2345]


async def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_is_at_last(
    world: World, sftp: SftpServer
) -> None:
    source = await created(world, sftp)
    sftp.put("a.csv", statement(1))

    def replace(name: str) -> None:
        sftp.put(name, statement(2), age=timedelta(days=1))

    sftp.after_read = replace
    result = await synced(world, source)
    assert (result["imported"], result["waiting"], result["failed"]) == (0, 1, 0)
    assert await brought(world) == []
    sftp.after_read = None
    assert (await synced(world, source))["imported"] == 1
    assert await brought(world) == [2]


async def test_a_connection_that_breaks_in_the_middle_of_a_file_is_made_again(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp)
    padding = b"\n" + b"x" * 2**20
    sftp.put("a.csv", statement(*range(1, 28)) + padding.replace(b"x", b" "))
    sftp.put("b.csv", statement(50))
    sftp.breaks = 2
    result = await synced(world, source)
    assert (result["imported"], result["failed"]) == (2, 0)
    assert sftp.reads.count("a.csv") == 3
    # One that breaks again and again fails by itself, and is tried again next time.
    sftp.put("c.csv", statement(60) + padding.replace(b"x", b" "))
    sftp.put("d.csv", statement(70), age=timedelta(days=1))
    sftp.breaks = 3
    result = await synced(world, source)
    assert result["errors"] == [{"name": "c.csv", "code": "connection_broken", "detail": result["errors"][0]["detail"]}]
    assert 70 in await brought(world)
    assert (await shown(world, source))["lastError"]["name"] == "c.csv"
    assert (await synced(world, source))["failed"] == 0


async def test_one_file_that_cannot_be_read_stops_no_other_and_is_tried_a_few_times(
    world: World, sftp: SftpServer
) -> None:
    source = await created(world, sftp)
    sftp.put("bad.csv", UNREADABLE, age=timedelta(days=3))
    sftp.put("good.csv", statement(1))
    for attempt in range(1, OBJECT_ATTEMPTS_MAX + 3):
        result = await synced(world, source)
        assert (result["listed"], result["failed"], result["errors"][0]["code"]) == (2, 1, "unreadable_file")
        assert sftp.reads.count("bad.csv") == min(attempt, OBJECT_ATTEMPTS_MAX)
    now = await shown(world, source)
    assert (now["status"], now["lastError"]["name"], now["lastError"]["code"]) == (
        "failing",
        "bad.csv",
        "unreadable_file",
    )
    assert await events(world, source) == ["data_source.failed"]
    assert await brought(world) == [1]
    # Whoever changes the source may have mended it.
    patched = await world.tenant.request("PATCH", f"{PATH}/{source['id']}", json={"account": "1"})
    assert patched.status_code == 200
    await synced(world, source)
    assert sftp.reads.count("bad.csv") == OBJECT_ATTEMPTS_MAX + 1
    (sftp.root / "bad.csv").unlink()
    assert (await synced(world, source))["failed"] == 0
    assert (await shown(world, source))["status"] == "ok"
    assert await events(world, source) == ["data_source.failed", "data_source.recovered"]


async def test_a_file_that_is_read_at_each_look_is_tried_anew_after_each_that_went_well(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tells nothing of its versions is one object for ever: looks that went well are no tries that failed."""
    monkeypatch.setattr("payrec.services.source_sync.OBJECT_STABLE_AFTER", FRESH)
    async with file_server() as server:
        server.tags = False
        config = {"urls": [f"{server.url}/today.csv"]}
        made = await world.tenant.post(PATH, {"name": "daily", "kind": "http", "config": config})
        assert made.status_code == 201, made.text
        source = made.json()
        for day in range(1, OBJECT_ATTEMPTS_MAX + 2):
            server.files["today.csv"] = statement(day)
            for imported in (1, 0):
                assert (await synced(world, source))["imported"] == imported
        server.files["today.csv"] = UNREADABLE
        for _ in range(OBJECT_ATTEMPTS_MAX - 1):
            assert (await synced(world, source))["errors"][0]["code"] == "unreadable_file"
        server.files["today.csv"] = statement(99)
        result = await synced(world, source)
        assert (result["imported"], result["failed"]) == (1, 0)
        assert (await brought(world))[-1] == 99
        assert (await shown(world, source))["status"] == "ok"
        # So many in a row are too many, as of any other file.
        server.files["today.csv"] = UNREADABLE
        for _ in range(OBJECT_ATTEMPTS_MAX + 2):
            await synced(world, source)
        server.files["today.csv"] = statement(100)
        assert (await synced(world, source))["failed"] == 1


async def test_an_address_at_which_nothing_is_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payrec.services.source_sync.OBJECT_STABLE_AFTER", FRESH)
    async with file_server() as server:
        urls = [f"{server.url}/{name}.csv" for name in ("missing", "there")]
        made = await world.tenant.post(PATH, {"name": "two accounts", "kind": "http", "config": {"urls": urls}})
        assert made.status_code == 201, made.text
        source = made.json()
        error = await synced(world, source)
        assert (error["code"], error["reason"]) == ("data_source_failed", "not_found"), "nothing at any of them"
        server.files["there.csv"] = statement(1)
        for imported in (1, *(0 for _ in range(OBJECT_ATTEMPTS_MAX))):
            result = await synced(world, source)
            assert (result["listed"], result["imported"], result["failed"]) == (1, imported, 1), result
            assert [(error["name"], error["code"]) for error in result["errors"]] == [(urls[0], "not_found")]
        now = await shown(world, source)
        assert (now["status"], now["lastError"]["name"], now["lastError"]["code"]) == ("failing", urls[0], "not_found")
        # It was not tried too often: there was nothing to be read.
        server.files["missing.csv"] = statement(2)
        assert (await synced(world, source))["imported"] == 1
        assert await brought(world) == [1, 2]
        assert (await shown(world, source))["status"] == "ok"


async def test_a_name_that_a_store_lists_and_does_not_give_is_told_why(world: World) -> None:
    """The library leaves out the slash at its beginning, so that nothing is there by the name that is left."""
    async with object_server() as bucket:
        bucket.put("/in.csv", statement(1))
        config = {"bucket": bucket.name, "endpoint": bucket.url}
        secret = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}
        made = await world.tenant.post(PATH, {"name": "s3", "kind": "s3", "config": config, "secret": secret})
        assert made.status_code == 201, made.text
        for _ in range(OBJECT_ATTEMPTS_MAX):
            assert (await synced(world, made.json()))["waiting"] == 1
        [error] = (await synced(world, made.json()))["errors"]
        assert (error["name"], error["code"]) == ("in.csv", "given_up")
        assert "begins or ends with a slash" in error["detail"]


async def test_a_source_that_cannot_be_reached_is_failing_until_it_can(world: World, sftp: SftpServer) -> None:
    source = await created(world, sftp, config={"directory": "later"})
    error = await synced(world, source)
    assert (error["code"], error["reason"]) == ("data_source_failed", "not_found")
    now = await shown(world, source)
    assert (now["status"], now["lastError"]["reason"]) == ("failing", "not_found")
    assert PASSWORD not in str(now)
    sftp.put("later/a.csv", statement(1))
    assert (await synced(world, source))["imported"] == 1
    assert await events(world, source) == ["data_source.failed", "data_source.recovered"]


# After it was read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "left"),
    [
        ({"afterRead": "delete"}, {"bad.csv"}),
        ({"afterRead": "move", "moveTo": "done/2026/"}, {"bad.csv", "done/2026/a.csv", "done/2026/in/b.csv"}),
        ({}, {"bad.csv", "a.csv", "in/b.csv"}),
    ],
)
async def test_what_was_read_is_cleared_away_when_its_import_is_completed(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch, config: dict[str, str], left: set[str]
) -> None:
    source = await created(world, sftp, config={"pattern": "**", **config})
    for name, data in {"a.csv": statement(1), "in/b.csv": statement(2), "bad.csv": UNREADABLE}.items():
        sftp.put(name, data)
    with monkeypatch.context() as patch:
        # Another job reads them, later.
        patch.setattr("payrec.services.imports.INLINE_BYTES_MAX", 0)
        result = await synced(world, source)
        assert (result["imported"], result["waiting"]) == (3, 3)
        assert sftp.names() == {"a.csv", "in/b.csv", "bad.csv"}
        assert (await synced(world, source))["waiting"] == 3
        await drain(world, "import")
    for _ in range(2):
        result = await synced(world, source)
        assert (result["imported"], result["waiting"], result["failed"]) == (0, 0, 1)
        assert sftp.names() == left
    assert await brought(world) == [1, 2]


# Killed at every step ---------------------------------------------------------------------------------------------


def _after(method: Callable[..., Any]) -> Callable[..., Any]:
    async def died(*given: Any, **more: Any) -> Any:
        await method(*given, **more)
        raise KeyError("as if the process had died: nothing is written any more")

    return died


async def _never(*_given: Any, **_more: Any) -> Any:
    raise KeyError("as if the process had died: nothing is written any more")


STEPS = {
    "before the list": (_Sync, "_looked", False),
    "after the list": (_Sync, "_looked", True),
    "before the attempt": (DataSourceObjectStore, "attempt", False),
    "before the file": (SftpConnector, "fetch", False),
    "after the file": (SftpConnector, "fetch", True),
    "before the import": (ImportService, "upload", False),
    "after the import": (ImportService, "upload", True),
    "before it is noted": (DataSourceObjectStore, "read", False),
    "after it was noted": (_Sync, "_imported", True),
    "before the delete": (SftpConnector, "delete", False),
    "after the delete": (SftpConnector, "delete", True),
    "before the end": (SourceSyncer, "_finish", False),
}


@pytest.mark.parametrize("step", STEPS)
async def test_a_sync_that_dies_anywhere_is_done_once_all_the_same(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    source = await created(world, sftp, config={"afterRead": "delete"})
    sftp.put("a.csv", statement(1))
    sftp.put("b.csv", statement(2))
    job = (await world.tenant.post(f"{PATH}/{source['id']}/sync")).json()
    owner, name, is_after = STEPS[step]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _after(getattr(owner, name)) if is_after else _never)
        await drain(world, "sync")
    died = await world.job(job["id"])
    assert died["status"] in {"running", "queued"}, died
    await world.sql(LAPSE)
    await world.sql(DUE)
    await drain(world, "sync")
    ended = await world.job(job["id"])
    assert (ended["status"], ended["attempts"], ended["result"]["failed"]) == ("succeeded", 2, 0)
    assert (await brought(world), sftp.names()) == ([1, 2], set())
    imports = (await world.tenant.get("/imports")).json()["data"]
    assert sorted((row["name"], row["status"]) for row in imports) == [("a.csv", "completed"), ("b.csv", "completed")]
    assert (await shown(world, source))["status"] == "ok"
