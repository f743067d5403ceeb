"""Google Cloud Storage and Azure Blob Storage, as far as their answers differ from S3's."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web

from payrec.connectors.base import Connector, ObjectChangedError, Place, SourceError
from payrec.connectors.registry import connector_of
from payrec.domain.addresses import Destinations
from support.object_server import served

pytestmark = pytest.mark.anyio

HERE = Destinations.of("127.0.0.0/8")
MODIFIED = "Sun, 01 Mar 2026 10:00:00 GMT"
AZURE_ENTRY = (
    "<Blob><Name>{name}</Name><Properties><Creation-Time>{at}</Creation-Time><Last-Modified>{at}</Last-Modified>"
    "<Etag>{tag}</Etag><Content-Length>{size}</Content-Length><Content-Type>text/csv</Content-Type>"
    "<BlobType>BlockBlob</BlobType></Properties></Blob>"
)
GCS_ENTRY = (
    "<Contents><Key>{name}</Key><LastModified>2026-03-01T10:00:00.000Z</LastModified><ETag>{tag}</ETag>"
    "<Size>{size}</Size></Contents>"
)


@asynccontextmanager
async def store(objects: dict[str, bytes], *, is_azure: bool) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve a container or bucket ``box``; give its address and the Authorization of each request."""
    authorizations: list[str] = []

    def tag(name: str) -> str:
        return f'"{hash(objects[name]) & 0xFFFF:x}"'

    def list_of(prefix: str) -> web.Response:
        entry = AZURE_ENTRY if is_azure else GCS_ENTRY
        found = "".join(
            entry.format(name=n, at=MODIFIED, tag=tag(n), size=len(objects[n])) for n in objects if n.startswith(prefix)
        )
        text = f"<ListBucketResult>{found}<IsTruncated>false</IsTruncated></ListBucketResult>"
        if is_azure:
            text = f"<EnumerationResults><Blobs>{found}</Blobs><NextMarker/></EnumerationResults>"
        return web.Response(body=text.encode(), content_type="application/xml")

    async def serve(request: web.Request) -> web.Response:
        authorizations.append(request.headers.get("Authorization", "") + request.query.get("sig", ""))
        _, _, name = unquote(request.url.raw_path).lstrip("/").partition("box")
        name = name.lstrip("/")
        if request.method == "POST":
            # A batch of deletions, of one.
            [line] = [part for part in (await request.text()).splitlines() if part.startswith("DELETE ")]
            objects.pop(unquote(line.split(" ")[1]).partition("?")[0].rpartition("box/")[2], None)
            part = "Content-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n"
            body = f"--b\r\n{part}\r\n--b--\r\n".encode()
            return web.Response(status=202, body=body, headers={"Content-Type": "multipart/mixed; boundary=b"})
        if request.method == "GET" and not name:
            return list_of(request.query.get("prefix", ""))
        if request.method == "PUT":
            source = request.headers.get("x-ms-copy-source") or request.headers["x-goog-copy-source"]
            objects[name] = objects[unquote(source).partition("?")[0].rpartition("box/")[2]]
            headers = {"ETag": tag(name), "x-ms-copy-status": "success", "x-ms-copy-id": "1"}
            return web.Response(status=202 if is_azure else 200, headers=headers)
        if name not in objects:
            return web.Response(status=404)
        if request.method == "DELETE":
            del objects[name]
            return web.Response(status=202 if is_azure else 204)
        if request.headers.get("If-Match", tag(name)) != tag(name):
            return web.Response(status=412)
        return web.Response(body=objects[name], headers={"ETag": tag(name), "Last-Modified": MODIFIED})

    async with served(serve) as url:
        yield url, authorizations


def azure(url: str, **given: Any) -> Connector:
    config = {"accountName": "abc", "container": "box", "endpoint": url, "prefix": "in/", **given}
    secret = {} if given.get("anonymous") else {"accountKey": "aHVzaA=="}
    return connector_of("azure", Place(config=config, secret=secret, destinations=HERE))


def gcs(url: str) -> Connector:
    key = {
        "type": "service_account",
        "gcs_base_url": url,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    config = {"bucket": "box", "prefix": "in/"}
    secret = {"serviceAccountKey": json.dumps(key)}
    return connector_of("gcs", Place(config=config, secret=secret, destinations=HERE))


@pytest.mark.parametrize("is_azure", [True, False], ids=["azure", "gcs"])
async def test_objects_are_listed_read_moved_and_deleted(*, is_azure: bool) -> None:
    objects = {"in/a.csv": b"a", "in/b.csv": b"b", "in/c.txt": b"c", "other.csv": b"o"}
    async with store(objects, is_azure=is_azure) as (url, _), azure(url) if is_azure else gcs(url) as connector:
        found = {one.name: one async for one in connector.list("*.csv")}
        assert set(found) == {"a.csv", "b.csv"}
        into = io.BytesIO()
        await connector.fetch(found["a.csv"], into, bytes_max=10)
        assert into.getvalue() == b"a"
        objects["in/a.csv"] = b"x"
        for spoil in (connector.fetch(found["a.csv"], io.BytesIO(), bytes_max=10), connector.delete(found["a.csv"])):
            with pytest.raises(ObjectChangedError):
                await spoil
        for _ in range(2):
            await connector.move(found["b.csv"], "in/done/b.csv")
        assert objects == {"in/a.csv": b"x", "in/done/b.csv": b"b", "in/c.txt": b"c", "other.csv": b"o"}
        again = {one.name: one async for one in connector.list("*.csv")}
        for _ in range(2):
            await connector.delete(again["a.csv"])
        assert "in/a.csv" not in objects


async def test_azure_is_asked_with_what_it_was_given() -> None:
    async with store({}, is_azure=True) as (url, authorizations):
        for given, expected in (({}, "SharedKey abc:"), ({"anonymous": True}, "")):
            async with azure(url, **given) as connector:
                assert [one async for one in connector.list("*")] == []
            assert authorizations[-1].startswith(expected)
            assert bool(authorizations[-1]) == bool(expected)


async def test_a_key_that_is_none_is_told() -> None:
    place = Place(config={"bucket": "box"}, secret={"serviceAccountKey": "{}"}, destinations=HERE)
    with pytest.raises(SourceError) as refused:
        async with connector_of("gcs", place):
            raise AssertionError("never")
    assert refused.value.code == "configuration_refused"
