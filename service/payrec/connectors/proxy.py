"""The proxy that object stores are reached through, because their library connects by itself.

It listens on the loopback address for as long as a store is open, takes requests that know its password, and connects
to nothing that is refused: so neither an endpoint, nor a redirect of it, nor a name that changes its address leads to
where nothing may be read from.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import socket
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from payrec.connectors.base import SourceError
from payrec.connectors.egress import connect
from payrec.constants.sources import PROXY_HEAD_BYTES_MAX, SOURCE_CHUNK_BYTES, SOURCE_CONNECT_SECONDS
from payrec.domain.addresses import Destinations

_REFUSED: Final = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_HOP: Final = (b"proxy-authorization:", b"proxy-connection:", b"connection:", b"keep-alive:")


class EgressProxy:
    """A forward proxy (RFC 9110, section 7.6; CONNECT, section 9.3.6) for one store; open it as a context."""

    def __init__(self, *, destinations: Destinations, password: str) -> None:
        self._destinations = destinations
        self._expected = b"basic " + base64.b64encode(f"payrec:{password}".encode())
        self._password = password
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused: SourceError | None = None
        """Why the last connection was not made: the store's library only says that it has none."""

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._server is None:
            raise AssertionError("not open")
        port = self._server.sockets[0].getsockname()[1]
        return f"http://payrec:{self._password}@127.0.0.1:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=PROXY_HEAD_BYTES_MAX)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            try:
                async with asyncio.timeout(SOURCE_CONNECT_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                await self._forward(head, reader, writer)
            finally:
                writer.close()

    async def _forward(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = head[:-4].split(b"\r\n")
        method, target, version = lines[0].split(b" ")
        given = next((line.split(b":", 1)[1].strip() for line in lines[1:] if _is(line, b"proxy-authorization:")), b"")
        if not hmac.compare_digest(given.partition(b" ")[2], self._expected.partition(b" ")[2]):
            writer.write(_REFUSED % b"407 Proxy Authentication Required")
            return
        is_tunnel = method == b"CONNECT"
        parts = urlsplit("//" + target.decode("ascii") if is_tunnel else target.decode("ascii"))
        if not parts.hostname or (not is_tunnel and parts.scheme != "http"):
            writer.write(_REFUSED % b"400 Bad Request")
            return
        port = parts.port or (443 if is_tunnel else 80)
        try:
            made = await connect(parts.hostname, port, self._destinations, is_encrypted=is_tunnel)
        except SourceError as error:
            self.refused = error
            writer.write(_REFUSED % b"403 Forbidden")
            return
        far_reader, far_writer = await _streams(made)
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                # One request a connection: the next one may be for another host.
                path = parts.path or "/"
                path += f"?{parts.query}" if parts.query else ""
                kept = [line for line in lines[1:] if not any(_is(line, name) for name in _HOP)]
                first = b" ".join((method, path.encode("ascii"), version))
                far_writer.write(b"\r\n".join([first, *kept, b"Connection: close", b"", b""]))
            there = asyncio.create_task(_copy(reader, far_writer))
            back = asyncio.create_task(_copy(far_reader, writer))
            try:
                await back
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        finally:
            far_writer.close()


def _is(line: bytes, name: bytes) -> bool:
    return line[: len(name)].lower() == name


async def _streams(made: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(sock=made)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(SOURCE_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
