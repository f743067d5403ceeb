"""Servers of pulled data sources that keep their connection and do not answer: what they are asked has an end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.file_servers import SftpServer
from support.matching_world import World
from support.sources import brought, created, shown, statement, synced

pytestmark = pytest.mark.anyio


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give servers little time."""
    for what in ("LISTING", "OBJECT", "CLEARING"):
        monkeypatch.setattr(f"payrec.services.source_sync.SOURCE_{what}_SECONDS", 0.5)


async def test_a_server_that_does_not_answer_ends_the_sync(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    source = await created(world, sftp)
    sftp.put("a.csv", statement(1), age=timedelta(days=3))
    sftp.put("b.csv", statement(2))
    sftp.unanswered = {"list"}
    error = await synced(world, source)
    assert (error["code"], error["reason"]) == ("data_source_failed", "too_slow")
    assert (await shown(world, source))["status"] == "failing"

    with monkeypatch.context() as patched:
        patched.setattr("payrec.connectors.sftp.SOURCE_SILENCE_SECONDS", 0.1)
        assert (await synced(world, source))["reason"] == "connection_broken"

    # It shows what it has, and gives none of it: each file has a time of its own.
    sftp.unanswered = {"read"}
    result = await synced(world, source)
    assert [(e["name"], e["code"]) for e in result["errors"]] == [("a.csv", "too_slow"), ("b.csv", "too_slow")]
    assert sftp.reads == ["a.csv", "b.csv"]

    sftp.unanswered = set()
    assert (await synced(world, source))["imported"] == 2
    assert await brought(world) == [1, 2]
    assert (await shown(world, source))["status"] == "ok"


@pytest.mark.parametrize(("action", "what"), [("delete", "delete"), ("move", "rename")])
async def test_a_server_that_does_not_answer_when_files_are_cleared_away_keeps_them(
    world: World, sftp: SftpServer, monkeypatch: pytest.MonkeyPatch, action: str, what: str
) -> None:
    config = {"afterRead": action, **({"moveTo": "done/"} if action == "move" else {})}
    source = await created(world, sftp, config=config)
    sftp.put("a.csv", statement(1), age=timedelta(days=3))
    sftp.put("b.csv", statement(2))
    sftp.unanswered = {what}
    hasten(monkeypatch)
    result = await synced(world, source)
    assert [(e["name"], e["code"]) for e in result["errors"]] == [("a.csv", "too_slow")]
    assert sftp.names() == {"a.csv", "b.csv"}
    # What is over before all is cleared away goes on at the next sync, which comes soon.
    sftp.unanswered = set()
    with monkeypatch.context() as patched:
        patched.setattr("payrec.services.source_sync.SYNC_SECONDS_MAX", -1)
        result = await synced(world, source)
    assert (result["imported"], result["waiting"], sftp.names()) == (0, 2, {"a.csv", "b.csv"})
    assert await synced(world, source) == {**result, "waiting": 0}
    assert {name for name in sftp.names() if not name.startswith("done/")} == set()
    assert await brought(world) == [1, 2]
