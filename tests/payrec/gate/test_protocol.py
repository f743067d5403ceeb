"""The head of a request as its bytes come in: how many there may be, and what the server says to what is none."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from payrec.constants import HEADER_BYTES_MAX
from payrec.gate.protocol import HEAD_BYTES_MAX, BoundedHttpProtocol

pytestmark = pytest.mark.anyio

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIECE = 1024


class Connection(asyncio.Transport):
    """A connection of which both ends are here."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None


class Server:
    """A server with one connection, where each request is answered with nothing."""

    def __init__(self) -> None:
        self.state = ServerState()
        config = uvicorn.Config(self._answer, log_config=None, lifespan="off", interface="asgi3")
        self.connection = Connection()
        self._protocol = BoundedHttpProtocol(config=config, server_state=self.state, app_state={})
        self._protocol.connection_made(self.connection)

    @staticmethod
    async def _answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def take(self, data: bytes) -> bytes:
        """Take bytes in small pieces, and return what is written to them."""
        before = len(self.connection.written)
        for start in range(0, len(data), PIECE):
            self._protocol.data_received(data[start : start + PIECE])
        await asyncio.gather(*self.state.tasks)
        return self.connection.written[before:]

    def leave(self) -> None:
        """End what the connection waits for."""
        self._protocol.connection_lost(None)


def unfinished(length: int) -> bytes:
    """Return so many bytes of a head, which is not at its end."""
    return b"GET / HTTP/1.1\r\nX-Pad: ".ljust(length, b"x")


def refusal(written: bytes) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the first line, the headers and the problem of an answer, after its names were looked at."""
    head, _, body = written.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    problem = json.loads(body)
    assert len(lines) == len(headers)
    assert int(headers.pop("content-length")) == len(body)
    request_id = headers.pop("x-request-id")
    assert UUID(request_id).version == 7
    assert problem.pop("requestId") == request_id
    return first, headers, problem


HEADERS = {
    "content-type": "application/problem+json",
    "api-version": "1",
    "connection": "close",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}


async def test_a_head_may_have_so_many_bytes_in_however_many_pieces() -> None:
    server = Server()
    for _ in range(3):
        # What an earlier request had, its body too, is none of the next one's head.
        posted = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (2 * HEAD_BYTES_MAX) + bytes(2 * HEAD_BYTES_MAX)
        assert (await server.take(posted)).startswith(b"HTTP/1.1 204")
        assert (await server.take(REQUEST)).startswith(b"HTTP/1.1 204")
    assert await server.take(unfinished(HEAD_BYTES_MAX)) == b""
    assert not server.connection.is_closing()
    first, headers, problem = refusal(await server.take(b"x"))
    assert server.connection.is_closing()
    assert first == "HTTP/1.1 431 The header block is too large"
    assert headers == HEADERS
    assert problem["code"] == "header_too_large"
    assert problem["detail"] == f"the headers may have at most {HEADER_BYTES_MAX} bytes"
    # Once is enough.
    assert await server.take(b"x") == b""
    server.leave()


async def test_the_first_head_of_a_connection_has_the_same_bound() -> None:
    server = Server()
    assert await server.take(unfinished(HEAD_BYTES_MAX)) == b""
    assert refusal(await server.take(b"x"))[2]["code"] == "header_too_large"
    server.leave()


async def test_what_is_no_http_is_told_so_and_no_more() -> None:
    server = Server()
    first, headers, problem = refusal(await server.take(b"\x16\x03\x01 hello\r\n\r\n"))
    assert first == "HTTP/1.1 400 The body is not valid"
    assert headers == HEADERS
    assert (problem["code"], problem["detail"]) == ("malformed_body", "the request is not HTTP/1.1")
    assert server.connection.is_closing()
    server.leave()


async def test_the_answer_of_a_server_that_leaves_is_its_connections_last() -> None:
    server = Server()
    assert b"connection" not in await server.take(REQUEST)
    assert not server.connection.is_closing()
    server.state.draining = True  # type: ignore[attr-defined] # as the server does that leaves
    assert b"\r\nconnection: close\r\n" in await server.take(REQUEST)
    assert server.connection.is_closing()
    server.leave()
