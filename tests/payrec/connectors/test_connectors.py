"""Connectors against servers: what is listed, read, deleted and moved, and what is refused or told when it fails."""

from __future__ import annotations

import asyncio
import base64
import io
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from payrec.connectors.base import Connector, ObjectChangedError, ObjectTooLargeError, Place, RemoteObject, SourceError
from payrec.connectors.proxy import EgressProxy
from payrec.connectors.registry import connector_of
from payrec.domain.addresses import Destinations
from support.file_servers import PASSWORD, USER, FileServer, SftpServer, file_server, sftp_server
from support.object_server import ACCESS_KEY, SECRET_KEY, Bucket, object_server, served

pytestmark = pytest.mark.anyio

HERE = Destinations.of("127.0.0.0/8")
NOWHERE = Destinations()
BYTES_MAX = 2**24
LARGE = os.urandom(3 * 2**20)


@pytest.fixture
async def bucket() -> AsyncIterator[Bucket]:
    async with object_server() as made:
        yield made


@pytest.fixture
async def sftp(tmp_path: Path) -> AsyncIterator[SftpServer]:
    async with sftp_server(tmp_path) as made:
        yield made


@pytest.fixture
async def files() -> AsyncIterator[FileServer]:
    async with file_server() as made:
        yield made


def s3(bucket: Bucket, destinations: Destinations = HERE, /, **config: Any) -> Connector:
    config = {"bucket": bucket.name, "endpoint": bucket.url, **config}
    secret = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}
    return connector_of("s3", Place(config=config, secret=secret, destinations=destinations))


def ssh(
    server: SftpServer, secret: dict[str, str] | None = None, destinations: Destinations = HERE, **config: Any
) -> Connector:
    config = {"host": "127.0.0.1", "port": server.port, "username": USER, "hostKey": server.host_key, **config}
    return connector_of(
        "sftp", Place(config=config, secret=secret or {"password": PASSWORD}, destinations=destinations)
    )


def http(urls: list[str], secret: dict[str, str] | None = None, destinations: Destinations = HERE) -> Connector:
    return connector_of("http", Place(config={"urls": urls}, secret=secret or {}, destinations=destinations))


async def listed(connector: Connector, pattern: str = "*") -> dict[str, RemoteObject]:
    return {found.name: found async for found in connector.list(pattern)}


async def fetched(connector: Connector, found: RemoteObject, bytes_max: int = BYTES_MAX) -> bytes:
    into = io.BytesIO()
    await connector.fetch(found, into, bytes_max=bytes_max)
    return into.getvalue()


async def refusal(connector: Connector, pattern: str = "*") -> str:
    with pytest.raises(SourceError) as refused:
        async with asyncio.timeout(60), connector:
            await listed(connector, pattern)
    return refused.value.code


# Object stores ----------------------------------------------------------------------------------------------------


async def test_an_object_store_is_listed_page_by_page_below_its_prefix(bucket: Bucket) -> None:
    bucket.page = 2
    names = [f"in/2026-0{n}.sta" for n in range(1, 8)]
    for name in [*names, "in/deep/er.sta", "other/x.sta", "in.sta", "in/Übersicht 1+1.csv"]:
        bucket.put(name, name.encode())
    async with s3(bucket, prefix="in/") as connector:
        assert set(await listed(connector, "*.sta")) == {n.removeprefix("in/") for n in names}
        assert set(await listed(connector, "deep/*")) == {"deep/er.sta"}
        everything = await listed(connector, "**")
        assert set(everything) == {n.removeprefix("in/") for n in bucket.objects if n.startswith("in/")}
        odd = everything["Übersicht 1+1.csv"]
        assert await fetched(connector, odd) == "in/Übersicht 1+1.csv".encode()
        assert (odd.size, odd.tag) == (len("in/Übersicht 1+1.csv".encode()), bucket.tag("in/Übersicht 1+1.csv"))


async def test_a_folder_s_mark_is_no_file_and_an_empty_file_is_one(bucket: Bucket) -> None:
    for name in ("in/", "in/done/", "in/empty.sta"):
        bucket.put(name, b"")
    bucket.put("in/a.sta", b"a")
    async with s3(bucket, prefix="in/") as connector:
        assert set(await listed(connector)) == {"a.sta", "empty.sta"}
    async with s3(bucket) as connector:
        assert set(await listed(connector, "**")) == {"in/a.sta", "in/empty.sta"}


@pytest.mark.parametrize("name", ["in//a.sta", "in/./a.sta", "in/../a.sta", "in/a\x01.sta"])
async def test_a_name_that_cannot_be_read_is_told_of(bucket: Bucket, name: str) -> None:
    for each in ("good/b.sta", name):
        bucket.put(each, b"a")
    assert await refusal(s3(bucket), "**") == "name_refused"
    async with s3(bucket, prefix="good/") as connector:
        assert set(await listed(connector)) == {"b.sta"}


async def test_an_object_that_is_replaced_is_not_read_deleted_or_moved(bucket: Bucket) -> None:
    bucket.put("a", b"first")
    async with s3(bucket) as connector:
        found = (await listed(connector))["a"]
        bucket.before_read = lambda name: bucket.put(name, b"other")
        with pytest.raises(ObjectChangedError):
            await fetched(connector, found)
        for spoil in (connector.delete(found), connector.move(found, "done/a")):
            with pytest.raises(ObjectChangedError):
                await spoil
        assert bucket.objects == {"a": b"other"}
        again = (await listed(connector))["a"]
        assert again.version != found.version
        del bucket.objects["a"]
        with pytest.raises(ObjectChangedError):
            await fetched(connector, again)


async def test_objects_are_deleted_and_moved_again_is_the_same_and_nothing_is_overwritten(bucket: Bucket) -> None:
    for name in ("a", "b", "done/b"):
        bucket.put(name, name.encode())
    async with s3(bucket) as connector:
        found = await listed(connector)
        for _ in range(2):
            await connector.delete(found["a"])
            await connector.move(found["b"], "done/b")
        assert bucket.objects["done/b"] == b"done/b"
        [moved] = [n for n in bucket.objects if n != "done/b"]
        assert moved.startswith("done/b.")
        assert bucket.objects[moved] == b"b"


async def test_an_object_beyond_the_limit_is_refused(bucket: Bucket) -> None:
    bucket.put("a", b"x" * 100)
    async with s3(bucket) as connector:
        found = (await listed(connector))["a"]
        with pytest.raises(ObjectTooLargeError):
            await fetched(connector, found, 99)
        assert bucket.reads == []
        assert len(await fetched(connector, found, 100)) == 100


async def test_a_store_s_refusals_are_told(bucket: Bucket) -> None:
    wrong = Place(
        config={"bucket": bucket.name, "endpoint": bucket.url},
        secret={"accessKeyId": ACCESS_KEY, "secretAccessKey": "wrong"},
        destinations=HERE,
    )
    assert await refusal(connector_of("s3", wrong)) == "permission_denied"
    assert await refusal(s3(bucket, bucket="elsewhere")) == "not_found"


async def test_a_store_s_endpoint_and_its_redirects_lead_nowhere_that_is_refused(bucket: Bucket) -> None:
    assert await refusal(s3(bucket, NOWHERE)) == "address_refused"
    assert bucket.requests == []
    reached = []

    async def metadata(request: Any) -> Any:
        reached.append(request.path)
        raise AssertionError("never")

    async with served(metadata) as inner:
        port = inner.rpartition(":")[2]
        # What may be connected to is another loopback address than the one that the redirect names.
        bucket.redirect = f"http://127.0.0.2:{port}/latest/meta-data"
        only = Destinations.of("127.0.0.1/32")
        assert await refusal(s3(bucket, only)) == "redirect_refused"
    assert reached == []
    assert len(bucket.requests) >= 1


async def test_the_machine_s_own_credentials_are_not_used(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-machine")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-machine")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.3:1")
    bucket.put("a", b"a")
    async with s3(bucket) as connector:
        assert set(await listed(connector)) == {"a"}
    assert "of-the-machine" not in str(bucket.headers)
    assert os.environ["AWS_SESSION_TOKEN"] == "of-the-machine"


@pytest.mark.parametrize(
    ("request_line", "password", "status"),
    [
        ("GET {url}/ HTTP/1.1", "wrong", b"407"),
        ("CONNECT {host} HTTP/1.1", "wrong", b"407"),
        ("CONNECT 10.0.0.1:443 HTTP/1.1", "right", b"403"),
        ("CONNECT [::ffff:10.0.0.1]:443 HTTP/1.1", "right", b"403"),
        ("CONNECT 2130706433:80 HTTP/1.1", "right", b"403"),
        ("GET http://169.254.169.254/latest HTTP/1.1", "right", b"403"),
        ("GET http://8.8.8.8/ HTTP/1.1", "right", b"403"),
        ("GET https://127.0.0.1/ HTTP/1.1", "right", b"400"),
        ("GET / HTTP/1.1", "right", b"400"),
        ("CONNECT {host} HTTP/1.1", "right", b"200"),
    ],
)
async def test_the_proxy_connects_for_its_store_to_what_is_allowed(
    bucket: Bucket, request_line: str, password: str, status: bytes
) -> None:
    async with EgressProxy(destinations=HERE, password="right") as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        line = request_line.format(url=bucket.url, host=bucket.url.removeprefix("http://"))
        given = base64.b64encode(f"payrec:{password}".encode()).decode()
        writer.write(f"{line}\r\nHost: x\r\nProxy-Authorization: Basic {given}\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), 20)).split()[1] == status
        writer.close()
        assert (proxy.refused is not None) == (status == b"403")
    assert bucket.requests == []


# SFTP -------------------------------------------------------------------------------------------------------------


async def test_a_directory_is_listed_read_deleted_and_moved(sftp: SftpServer) -> None:
    for name in ("in/a.sta", "in/b.sta", "in/c.txt", "in/deep/d.sta", "out.sta", "in/done/b.sta"):
        sftp.put(name, name.encode())
    (sftp.root / "in/link.sta").symlink_to("/etc/passwd")
    async with ssh(sftp, directory="/in") as connector:
        found = await listed(connector, "*.sta")
        assert set(found) == {"a.sta", "b.sta"}
        assert set(await listed(connector, "deep/*")) == {"deep/d.sta"}
        assert set(await listed(connector, "**.sta")) == {"a.sta", "b.sta", "deep/d.sta", "done/b.sta"}
        assert await fetched(connector, found["a.sta"]) == b"in/a.sta"
        for _ in range(2):
            await connector.delete(found["a.sta"])
            await connector.move(found["b.sta"], "done/b.sta")
    left = sftp.names() - {"in/link.sta"}
    [moved] = [n for n in left if n.startswith("in/done/b.sta.")]
    assert left - {moved} == {"in/c.txt", "in/deep/d.sta", "out.sta", "in/done/b.sta"}
    assert (sftp.root / moved).read_bytes() == b"in/b.sta"


async def test_a_name_that_is_no_utf_8_is_read_like_any_other(sftp: SftpServer) -> None:
    folder = os.fsencode(sftp.root) + b"/M\xe4rz"
    await asyncio.to_thread(os.mkdir, folder)
    for name in ("deleted.sta", "moved.sta"):
        await asyncio.to_thread(sftp.put, name, name.encode())
        await asyncio.to_thread(os.rename, sftp.root / name, folder + b"/\xfc" + name.encode())
    async with ssh(sftp) as connector:
        found = await listed(connector, "**")
        assert set(found) == {"März/üdeleted.sta", "März/ümoved.sta"}
        assert await fetched(connector, found["März/ümoved.sta"]) == b"moved.sta"
        await connector.delete(found["März/üdeleted.sta"])
        await connector.move(found["März/ümoved.sta"], "done/" + found["März/ümoved.sta"].name)
    assert sftp.names() == {"done/März/ümoved.sta"}


async def test_a_server_that_disconnects_in_the_middle_of_a_file_is_told(sftp: SftpServer) -> None:
    sftp.put("a", LARGE)
    sftp.breaks = 1
    async with ssh(sftp) as connector:
        found = (await listed(connector))["a"]
        with pytest.raises(SourceError) as broken:
            await fetched(connector, found)
        assert broken.value.code == "connection_broken"
    async with ssh(sftp) as connector:
        assert await fetched(connector, (await listed(connector))["a"]) == LARGE


async def test_a_file_that_is_replaced_while_it_is_read_is_not_taken(sftp: SftpServer) -> None:
    sftp.put("a", b"first")
    async with ssh(sftp) as connector:
        found = (await listed(connector))["a"]

        def replace(name: str) -> None:
            sftp.put(name, b"secnd", age=timedelta(days=1))

        sftp.after_read = replace
        with pytest.raises(ObjectChangedError):
            await fetched(connector, found)
        sftp.after_read = None
        for spoil in (connector.delete(found), connector.move(found, "x/a")):
            with pytest.raises(ObjectChangedError):
                await spoil
    assert sftp.names() == {"a"}


async def test_keys_and_passwords_log_in_and_the_server_must_have_its_key(sftp: SftpServer) -> None:
    sftp.put("a", b"a")
    private = sftp.user_key.export_private_key(passphrase="open").decode()
    async with ssh(sftp, {"privateKey": private, "passphrase": "open"}) as connector:
        assert set(await listed(connector)) == {"a"}
    other = asyncssh.generate_private_key("ssh-ed25519")
    assert await refusal(ssh(sftp, {"password": "wrong"})) == "not_authenticated"
    assert await refusal(ssh(sftp, {"privateKey": other.export_private_key().decode()})) == "not_authenticated"
    assert await refusal(ssh(sftp, {"privateKey": private, "passphrase": "wrong"})) == "configuration_refused"
    assert await refusal(ssh(sftp, hostKey=other.export_public_key().decode())) == "host_key_refused"
    assert await refusal(ssh(sftp, directory="/nowhere")) == "not_found"
    assert await refusal(ssh(sftp, None, NOWHERE)) == "address_refused"


# HTTP -------------------------------------------------------------------------------------------------------------


async def test_files_at_addresses_are_known_by_their_tags(files: FileServer) -> None:
    files.files = {"a.sta": b"a", "b.csv": b"b"}
    urls = [f"{files.url}/a.sta", f"{files.url}/b.csv?day=1"]
    async with http(urls) as connector:
        found = await listed(connector, "*.sta")
        assert set(found) == {urls[0]}
        assert await fetched(connector, found[urls[0]]) == b"a"
        files.files["a.sta"] = b"other"
        assert (await listed(connector, "*.sta"))[urls[0]].version != found[urls[0]].version
        with pytest.raises(ObjectChangedError):
            await fetched(connector, found[urls[0]])
        for spoil in (connector.delete(found[urls[0]]), connector.move(found[urls[0]], "x")):
            with pytest.raises(SourceError, match="only read"):
                await spoil
        files.heads = False
        assert set(await listed(connector, "**")) == set(urls)


async def test_a_broken_connection_goes_on_where_it_broke_or_begins_again(files: FileServer) -> None:
    files.files = {"a": LARGE}
    for tags, ranges in ((True, 2), (False, 0)):
        files.tags, files.breaks = tags, 2
        files.requests.clear()
        files.statuses.clear()
        async with http([f"{files.url}/a"]) as connector:
            [found] = (await listed(connector)).values()
            assert await fetched(connector, found) == LARGE
        reads = [asked for method, _, asked in files.requests if method == "GET"]
        assert (len(reads), len([r for r in reads if r])) == (3, ranges)
        assert files.statuses[1:] == [206 if ranges else 200] * 2
    files.tags, files.breaks = True, 3
    async with http([f"{files.url}/a"]) as connector:
        [found] = (await listed(connector)).values()
        with pytest.raises(SourceError) as broken:
            await fetched(connector, found)
        assert broken.value.code == "connection_broken"


@pytest.mark.parametrize("conditions", [True, False], ids=["server that looks at tags", "server that does not"])
async def test_a_file_that_changes_between_two_parts_is_not_mixed(files: FileServer, *, conditions: bool) -> None:
    files.files = {"a": LARGE}
    files.conditions = conditions
    files.breaks = 1
    async with http([f"{files.url}/a"]) as connector:
        [found] = (await listed(connector)).values()

        def change(name: str) -> None:
            if len([1 for method, _, _ in files.requests if method == "GET"]) == 2:
                files.files[name] = b"x" * len(LARGE)

        files.before_read = change
        with pytest.raises(ObjectChangedError):
            await fetched(connector, found)


async def test_http_servers_are_believed_no_more_than_others(files: FileServer) -> None:
    files.files = {"a": b"a"}
    url = f"{files.url}/a"
    assert await refusal(http([url], destinations=NOWHERE)) == "scheme_refused"
    inner = Destinations.of("10.0.0.0/8")
    assert await refusal(http([url.replace("127.0.0.1", "localhost")], destinations=inner)) == "address_refused"
    files.redirect = f"{files.url}/b"
    assert await refusal(http([url])) == "redirect_refused"
    files.redirect = None
    files.authorization = "Basic YmFuazpww6Rzc3fDtnJk"
    assert await refusal(http([url])) == "not_authenticated"
    async with http([url], {"username": "bank", "password": "pässwörd"}) as connector:
        assert set(await listed(connector)) == {url}
    files.authorization = "Bearer abc"
    async with http([url], {"bearerToken": "abc"}) as connector:
        assert set(await listed(connector)) == {url}
    files.authorization = None
    assert await refusal(http([f"{files.url}/none"])) == "not_found"
    async with http([url]) as connector:
        [found] = (await listed(connector)).values()
        with pytest.raises(ObjectTooLargeError):
            await fetched(connector, found, 0)
