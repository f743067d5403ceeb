"""Servers that refuse for a while what they have shown: the source goes on by itself when they no longer do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from aiohttp import web

from payrec.constants.sources import OBJECT_ATTEMPTS_MAX
from support.ages import aged
from support.file_servers import file_server
from support.matching_world import World
from support.object_server import ACCESS_KEY, SECRET_KEY, object_server, served
from support.sources import PATH, UNREADABLE, brought, events, shown, statement, synced

pytestmark = pytest.mark.anyio

LATER = aged("data_source_object", "61 minutes", "updated_at")


@pytest.fixture(autouse=True)
def stable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be read at once."""
    monkeypatch.setattr("payrec.services.source_sync.OBJECT_STABLE_AFTER", timedelta())


async def test_a_file_that_its_server_does_not_give_is_tried_again_every_hour(world: World) -> None:
    is_busy = True

    async def serve(request: web.Request) -> web.Response:
        if request.method == "GET" and is_busy:
            return web.Response(status=503, headers={"Retry-After": "600"})
        return web.Response(body=statement(1), headers={"ETag": '"1"'})

    async with served(serve) as url:
        made = await world.tenant.post(PATH, {"name": "busy", "kind": "http", "config": {"urls": [f"{url}/a.csv"]}})
        assert made.status_code == 201, made.text
        source = made.json()
        for _ in range(OBJECT_ATTEMPTS_MAX + 1):
            assert (await synced(world, source))["errors"][0]["code"] == "answer_refused"
        await world.sql(LATER)
        assert (await synced(world, source))["failed"] == 1
        is_busy = False
        assert (await synced(world, source))["failed"] == 1, "it was tried a moment ago"
        await world.sql(LATER)
        assert (await synced(world, source))["imported"] == 1
    assert await brought(world) == [1]
    assert (await shown(world, source))["status"] == "ok"
    assert await events(world, source) == ["data_source.failed", "data_source.recovered"]


async def test_what_a_store_lists_long_before_it_gives_it_is_read_at_last(world: World) -> None:
    async with object_server() as bucket:
        bucket.put("late.csv", statement(1))

        def missing(_name: str) -> None:
            raise web.HTTPNotFound

        bucket.before_read = missing
        config = {"bucket": bucket.name, "endpoint": bucket.url}
        secret = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}
        made = await world.tenant.post(PATH, {"name": "s3", "kind": "s3", "config": config, "secret": secret})
        source = made.json()
        for _ in range(OBJECT_ATTEMPTS_MAX):
            assert (await synced(world, source))["waiting"] == 1
        for _ in range(2):
            [error] = (await synced(world, source))["errors"]
            assert (error["name"], error["code"]) == ("late.csv", "given_up")
            await world.sql(LATER)
        bucket.before_read = None
        assert (await synced(world, source))["imported"] == 1
    assert await brought(world) == [1]


async def test_a_file_with_nothing_in_it_to_be_read_is_not_tried_again(world: World) -> None:
    async with file_server() as server:
        server.files["a.csv"] = UNREADABLE
        config = {"urls": [f"{server.url}/a.csv"]}
        source = (await world.tenant.post(PATH, {"name": "bad", "kind": "http", "config": config})).json()
        for _ in range(OBJECT_ATTEMPTS_MAX + 1):
            await world.sql(LATER)
            assert (await synced(world, source))["failed"] == 1
        assert len(server.statuses) == OBJECT_ATTEMPTS_MAX


@pytest.mark.parametrize("head", ["no_length", "nothing", 403, 404, 405])
async def test_a_head_that_says_less_than_a_get_keeps_no_file_from_being_read(world: World, head: str | int) -> None:
    """As a script's may: what it leaves out is found out while the content is made (RFC 9110, section 9.3.2)."""
    data = statement(1)

    async def serve(request: web.Request) -> web.StreamResponse:
        headers = {"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}
        if request.method == "GET":
            return web.Response(body=data, headers={**headers, "ETag": f'"{len(data)}"'})
        if isinstance(head, int):
            return web.Response(status=head)
        answer = web.StreamResponse(headers=headers if head == "no_length" else {})
        answer.enable_chunked_encoding()
        return answer

    async with served(serve) as url:
        config = {"urls": [f"{url}/report"]}
        source = (await world.tenant.post(PATH, {"name": "script", "kind": "http", "config": config})).json()
        assert [(await synced(world, source))["imported"] for _ in range(2)] == [1, 0]
        data = statement(1, 2)
        assert [(await synced(world, source))["imported"] for _ in range(2)] == [1, 0]
    assert await brought(world) == [1, 2]
