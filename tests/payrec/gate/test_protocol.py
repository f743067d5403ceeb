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
from payrec.gate.protocol import (
    ANSWER_BYTES_BETWEEN_MIN,
    ANSWER_LOOK_SECONDS,
    BODY_BYTES_BETWEEN_MIN,
    BODY_LOOK_SECONDS,
    HEAD_BYTES_MAX,
    HEAD_SECONDS_MAX,
    BoundedHttpProtocol,
)

pytestmark = pytest.mark.anyio

KEEP_ALIVE_SECONDS = 75
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIECE = 1024


class Connection(asyncio.Transport):
    """A connection of which both ends are here."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.left, self.aborted = 0, False
        self._closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None


class Clock:
    """The loop as a protocol sees it, whose time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, asyncio.TimerHandle]] = []
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, seconds: float, callback: Any, *given: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now + seconds, callback, given, self._loop)
        self.timers.append((self.now + seconds, handle))
        return handle

    @property
    def waiting(self) -> list[tuple[float, asyncio.TimerHandle]]:
        """What is to come and was not given up."""
        return [(at, timer) for at, timer in self.timers if at > self.now and not timer.cancelled()]

    async def go_on(self, seconds: float) -> None:
        """Let time pass, and everything happen that does in it."""
        until = self.now + seconds
        while due := sorted((at, n) for n, (at, _) in enumerate(self.waiting) if at <= until):
            timer = self.waiting[due[0][1]][1]
            self.now = due[0][0]
            timer._run()  # type: ignore[attr-defined] # as the loop does
            await asyncio.sleep(0)
        self.now = until


class Server:
    """A server with one connection, where each request is answered with nothing, some after their body has come."""

    def __init__(self, *, reading: bool = False) -> None:
        self.state = ServerState()
        self.clock = Clock()
        self.received: list[str] = []
        self.may_read = asyncio.Event()
        config = uvicorn.Config(
            self._read if reading else self._answer,
            log_config=None,
            lifespan="off",
            interface="asgi3",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self.connection = Connection()
        loop: Any = self.clock
        self._protocol = BoundedHttpProtocol(config=config, server_state=self.state, app_state={}, _loop=loop)
        self._protocol.connection_made(self.connection)

    @staticmethod
    async def _answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.may_read.wait()
        while (message := await receive())["type"] == "http.request":
            if not message["more_body"]:
                self.received.append("all of it")
                await self._answer(scope, receive, send)
                return
        self.received.append(message["type"])

    async def come(self, data: bytes) -> None:
        """Take bytes, and let the application do what it can."""
        self._protocol.data_received(data)
        for _ in range(5):
            await asyncio.sleep(0)

    async def take(self, data: bytes) -> bytes:
        """Take bytes in small pieces, and return what is written to them."""
        before = len(self.connection.written)
        for start in range(0, len(data), PIECE):
            self._protocol.data_received(data[start : start + PIECE])
        await asyncio.gather(*self.state.tasks)
        return self.connection.written[before:]

    def hold(self, count: int) -> None:
        """Have so many bytes of an answer that the client has not taken."""
        self.connection.left = count
        self._protocol.pause_writing()

    def go_on(self) -> None:
        """Have the client taken them."""
        self.connection.left = 0
        self._protocol.resume_writing()

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


# Who sends slowly --------------------------------------------------------------------------------------------------


def late(server: Server, part: str) -> None:
    """Look that the connection has ended, and was told why."""
    first, headers, problem = refusal(server.connection.written)
    assert first == "HTTP/1.1 408 The request did not come in time"
    assert headers == HEADERS
    assert (problem["code"], problem["detail"]) == ("request_timeout", f"the {part} of the request came too slowly")
    assert server.connection.is_closing()
    server.leave()
    assert server.clock.waiting == []


async def test_a_connection_on_which_nothing_comes_ends_as_one_that_was_kept() -> None:
    server = Server()
    await server.clock.go_on(KEEP_ALIVE_SECONDS - 1)
    assert not server.connection.is_closing()
    await server.clock.go_on(1)
    assert (server.connection.is_closing(), server.connection.written) == (True, b"")
    server.leave()


@pytest.mark.parametrize("before", [b"", REQUEST])
async def test_a_head_that_is_not_there_in_time_ends_the_connection_however_it_drips(before: bytes) -> None:
    server = Server()
    if before:
        await server.take(before)
        server.connection.written = b""
        await server.clock.go_on(KEEP_ALIVE_SECONDS - 1)
    for at in range(4):
        assert not server.connection.is_closing()
        await server.come(unfinished(100)[25 * at : 25 * at + 25])
        await server.clock.go_on(HEAD_SECONDS_MAX / 4)
    late(server, "head")


def posted(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % length


async def test_a_body_that_comes_steadily_may_take_as_long_as_it_likes() -> None:
    server = Server(reading=True)
    server.may_read.set()
    await server.come(posted(20 * BODY_BYTES_BETWEEN_MIN))
    for _ in range(20):
        assert not server.connection.is_closing()
        await server.come(bytes(BODY_BYTES_BETWEEN_MIN))
        await server.clock.go_on(BODY_LOOK_SECONDS)
    assert server.received == ["all of it"]
    assert server.connection.written.startswith(b"HTTP/1.1 204")
    # What is left is the end of a connection that is kept.
    assert [at - server.clock.now for at, _ in server.clock.waiting] == [KEEP_ALIVE_SECONDS - BODY_LOOK_SECONDS]
    server.leave()


@pytest.mark.parametrize("rate", [0, BODY_BYTES_BETWEEN_MIN - 1])
async def test_a_body_that_hardly_comes_ends_the_connection_and_whoever_reads_it_is_told(rate: int) -> None:
    server = Server(reading=True)
    server.may_read.set()
    await server.come(posted(10**6) + bytes(BODY_BYTES_BETWEEN_MIN))
    await server.clock.go_on(BODY_LOOK_SECONDS)
    assert not server.connection.is_closing()
    await server.come(bytes(rate))
    await server.clock.go_on(BODY_LOOK_SECONDS)
    await asyncio.gather(*server.state.tasks)
    assert server.received == ["http.disconnect"]
    late(server, "body")


async def test_what_is_not_read_because_of_us_is_not_late() -> None:
    server = Server(reading=True)
    length = 4 * 65_536
    await server.come(posted(length) + bytes(2 * 65_536))
    await server.clock.go_on(10 * BODY_LOOK_SECONDS)
    assert not server.connection.is_closing()
    server.may_read.set()
    await server.come(bytes(1))
    # It was told to go on a moment ago.
    await server.clock.go_on(BODY_LOOK_SECONDS)
    assert not server.connection.is_closing()
    await server.come(bytes(length - 2 * 65_536 - 1))
    assert server.received == ["all of it"]
    server.leave()


async def test_an_answer_that_takes_long_ends_nothing() -> None:
    server = Server(reading=True)
    await server.come(REQUEST)
    await server.clock.go_on(10 * KEEP_ALIVE_SECONDS)
    assert not server.connection.is_closing()
    server.may_read.set()
    await asyncio.gather(*server.state.tasks)
    assert server.connection.written.startswith(b"HTTP/1.1 204")
    server.leave()


async def test_a_head_behind_a_request_that_is_not_answered_yet_has_time() -> None:
    server = Server(reading=True)
    await server.come(REQUEST + unfinished(30))
    await server.clock.go_on(10 * HEAD_SECONDS_MAX)
    assert not server.connection.is_closing()
    server.may_read.set()
    await asyncio.gather(*server.state.tasks)
    assert server.connection.written.startswith(b"HTTP/1.1 204")
    server.connection.written = b""
    await server.clock.go_on(HEAD_SECONDS_MAX)
    late(server, "head")


async def test_who_does_not_read_an_answer_has_no_connection_for_it() -> None:
    server = Server()
    await server.take(REQUEST)
    server.hold(10 * ANSWER_BYTES_BETWEEN_MIN)
    for _ in range(3):
        server.connection.left -= ANSWER_BYTES_BETWEEN_MIN
        await server.clock.go_on(ANSWER_LOOK_SECONDS)
        assert not server.connection.aborted
    server.connection.left -= ANSWER_BYTES_BETWEEN_MIN - 1
    await server.clock.go_on(ANSWER_LOOK_SECONDS)
    assert server.connection.aborted
    server.leave()


async def test_who_has_read_an_answer_or_has_gone_is_not_looked_at() -> None:
    server = Server()
    before = len(server.clock.waiting)
    for end in (server.go_on, server.leave):
        server.hold(10 * ANSWER_BYTES_BETWEEN_MIN)
        end()
        await server.clock.go_on(1)
        assert len(server.clock.waiting) <= before
        assert not server.connection.aborted
