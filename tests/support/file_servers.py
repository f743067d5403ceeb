"""Servers that files are pulled from: SFTP (asyncssh's own), and HTTP with entity tags and ranges."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncssh
from aiohttp import web

from support.object_server import served

USER, PASSWORD = "bank", "pässwörd"
AGE = timedelta(days=2)


@dataclass
class SftpServer:
    """A server, and how it misbehaves."""

    root: Path
    port: int = 0
    host_key: str = ""
    user_key: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    reads: list[str] = field(default_factory=list)
    breaks: int = 0
    """How many reads end in the middle of the file, with the connection."""
    after_read: Callable[[str], None] | None = None
    unanswered: set[str] = field(default_factory=set)
    """What is never answered, while the connection itself stays alive: ``list``, ``read``, ``delete``, ``rename``."""
    refused: dict[str, asyncssh.SFTPError] = field(default_factory=dict)
    """What is answered where a file is to be deleted, or a directory read, by their names."""
    tells: Callable[[asyncssh.SFTPAttrs], None] | None = None
    """Changes what is told of a file."""

    def put(self, name: str, data: bytes, *, age: timedelta = AGE) -> Path:
        """Write a file that was last changed so long ago."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        then = (datetime.now(UTC) - age).timestamp()
        os.utime(path, (then, then))
        return path

    def names(self) -> set[str]:
        """Return which files there are."""
        return {str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()}


@asynccontextmanager
async def sftp_server(root: Path) -> AsyncIterator[SftpServer]:  # noqa: C901 - three small classes
    """Serve a directory."""
    state = SftpServer(root)
    key = asyncssh.generate_private_key("ssh-ed25519")
    state.host_key = key.export_public_key().decode().strip()
    connections: set[asyncssh.SSHServerConnection] = set()

    class Login(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            connections.add(conn)

        def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - everybody has to
            return True

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == (USER, PASSWORD)

        def public_key_auth_supported(self) -> bool:
            return True

        def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
            return username == USER and key.public_data == state.user_key.public_data

    class Files(asyncssh.SFTPServer):
        def __init__(self, channel: asyncssh.SSHServerChannel[bytes]) -> None:
            super().__init__(channel, chroot=os.fsencode(root))
            self._channel = channel

        def _refuse(self, path: bytes) -> None:
            error = state.refused.get(posixpath.normpath(os.fsdecode(path)).lstrip("/"))
            if error is not None:
                raise error

        async def _hush(self, what: str) -> None:
            """Answer, or never, for as long as there is anybody who waits for it."""
            if what in state.unanswered:
                await self._channel.get_connection().wait_closed()
                raise asyncssh.SFTPConnectionLost("gone")

        def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
            state.reads.append(posixpath.normpath(os.fsdecode(path)).lstrip("/"))
            return super().open(path, pflags, attrs)

        async def read(self, file_obj: object, offset: int, size: int) -> bytes:
            if "read" in state.unanswered:
                super().close(file_obj)  # nobody does afterwards
            await self._hush("read")
            if state.breaks and offset > 0:
                state.breaks -= 1
                self._channel.get_connection().abort()
                raise asyncssh.SFTPConnectionLost("gone")
            found: Any = super().read(file_obj, offset, size)
            if not found and state.after_read is not None:
                state.after_read(state.reads[-1])
            return bytes(found)

        async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
            await self._hush("list")
            self._refuse(path)
            async for entry in super().scandir(path):
                if state.tells is not None:
                    state.tells(entry.attrs)
                yield entry

        def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
            found: Any = super().lstat(path)
            attrs = asyncssh.SFTPAttrs.from_local(found)
            if state.tells is not None:
                state.tells(attrs)
            return attrs

        async def remove(self, path: bytes) -> None:
            await self._hush("delete")
            self._refuse(path)
            super().remove(path)

        async def rename(self, oldpath: bytes, newpath: bytes) -> None:
            await self._hush("rename")
            super().rename(oldpath, newpath)

    server = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[key], server_factory=Login, sftp_factory=Files, config=[]
    )
    try:
        state.port = server.get_port()
        yield state
    finally:
        server.close()
        for connection in connections:
            connection.abort()
        await server.wait_closed()


@dataclass
class FileServer:
    """An HTTP server, and how it misbehaves."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and Range."""
    statuses: list[int] = field(default_factory=list)
    """What the reads were answered with."""
    breaks: int = 0
    before_read: Callable[[str], None] | None = None
    tags: bool = True
    conditions: bool = True
    """Whether If-Match and If-Range mean anything to it."""
    heads: bool = True
    redirect: str | None = None
    authorization: str | None = None

    def tag(self, name: str) -> str:
        """Return the entity tag of a file."""
        return f'"{hashlib.sha256(self.files[name]).hexdigest()[:16]}"'


@asynccontextmanager
async def file_server() -> AsyncIterator[FileServer]:
    """Serve files."""
    state = FileServer()

    async def serve(request: web.Request) -> web.StreamResponse:
        name = request.path.lstrip("/")
        state.requests.append((request.method, name, request.headers.get("Range")))
        if state.redirect is not None:
            return web.Response(status=302, headers={"Location": state.redirect})
        if state.authorization is not None and request.headers.get("Authorization") != state.authorization:
            return web.Response(status=401)
        if name not in state.files:
            return web.Response(status=404)
        if request.method == "HEAD" and not state.heads:
            return web.Response(status=405)
        if request.method == "GET" and state.before_read is not None:
            state.before_read(name)
        data, headers = state.files[name], {}
        if state.tags:
            headers["ETag"] = state.tag(name)
            if state.conditions and request.headers.get("If-Match", state.tag(name)) != state.tag(name):
                return web.Response(status=412)
        status, asked = 200, request.http_range
        is_same = request.headers.get("If-Range", "") == headers.get("ETag")
        if asked.start is not None and (is_same or not state.conditions):
            headers["Content-Range"] = f"bytes {asked.start}-{len(data) - 1}/{len(data)}"
            data, status = data[asked], 206
        if request.method == "GET":
            state.statuses.append(status)
        if request.method == "GET" and state.breaks:
            state.breaks -= 1
            answer = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(data))})
            await answer.prepare(request)
            await answer.write(data[: len(data) // 2])
            assert request.transport is not None
            request.transport.close()
            return answer
        return web.Response(status=status, body=data, headers=headers)

    async with served(serve) as url:
        state.url = url
        yield state
