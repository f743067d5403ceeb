"""The two streams of a request at the gate: the body coming in, counted and capped, and the answer going out."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Send

from payrec.errors import PayloadTooLargeError
from payrec.gate.room import Held

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Bytes of a body that may stay unread under an answer without the connection being closed."""

LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes that are still taken from a client whose body is refused, so that it gets to read the answer."""

LINGER_SECONDS: Final = 1.0
"""How long such a client is waited for."""

ANSWER_PIECE_BYTES: Final = 256 * 1024
"""Bytes of an answer that are given to the server at once, which holds them until the client takes them."""

GUARDS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""What every answer says to browsers and to caches on the way, unless it says otherwise itself."""


def declared_length(headers: Mapping[str, str]) -> int:
    """Return Content-Length, 0 when it is absent; the server has refused one that is no number."""
    given = headers.get("content-length", "")
    return int(given) if given.isascii() and given.isdigit() else 0


class Incoming:
    """The body as it comes in: knows how much of it may still be under way."""

    def __init__(self, receive: Receive, headers: Mapping[str, str]) -> None:
        self._receive = receive
        self.held: Held | None = None
        """What it has of a room, once that is known."""
        self.left: float = math.inf if "transfer-encoding" in headers else declared_length(headers)

    async def receive(self) -> Message:
        """Receive the next message of the client."""
        message = await self._receive()
        if message["type"] == "http.request" and message.get("more_body", False):
            self.left = max(1, self.left - len(message.get("body", b"")))
        else:
            self.left = 0
        return message

    async def linger(self) -> None:
        """Take a little more of a body that nobody wants: closing at once would reset a client that is writing."""
        taken = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while self.left and taken < LINGER_BYTES_MAX:
                    taken += len((await self.receive()).get("body", b""))


class Watch:
    """Sees the answer go out: adds the headers that every answer has, and remembers the status.

    Under an answer that comes before the body was read, the connection is closed; the server would otherwise read and
    drop the rest for as long as the client likes to send.
    """

    def __init__(self, send: Send, incoming: Incoming, *, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._incoming = incoming
        self._headers = list(headers)
        self._closing = False
        self.status = 500
        self.started = False
        self.finished = False

    def add(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Add headers to the answer, whatever it will be; nothing of it may have been sent."""
        self._headers.extend(headers)

    async def send(self, message: Message) -> None:
        """Pass a message of the answer on."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            if self._incoming.held is not None:
                self._incoming.held.end_turn()
            headers = [*message.get("headers", ()), *self._headers]
            said = {name.lower() for name, _ in headers}
            headers += [guard for guard in GUARDS if guard[0] not in said]
            self._closing = self._incoming.left > UNREAD_BYTES_MAX
            if self._closing:
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        elif not message.get("more_body", False):
            self.finished = True
            if self._closing:
                await self._pass({**message, "more_body": True})
                await self._incoming.linger()
                message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._pass(message)

    async def _pass(self, message: Message) -> None:
        """Pass a message on; many bytes in pieces, each when the client has taken most of the one before.

        Until then they count as what the tenant holds: who does not read its answers gets no more of them.
        """
        body, more = message.get("body", b""), message.get("more_body", False)
        if len(body) <= ANSWER_PIECE_BYTES:
            await self._send(message)
            return
        if self._incoming.held is not None:
            self._incoming.held.answer(len(body))
        for begin in range(0, len(body), ANSWER_PIECE_BYTES):
            end = begin + ANSWER_PIECE_BYTES
            await self._send({**message, "body": body[begin:end], "more_body": more or end < len(body)})


def capped(receive: Receive, limit: int, count: Callable[[int], None]) -> Receive:
    """Count what streams in, tell ``count`` of it, and stop it beyond the limit."""
    total = 0

    async def counting() -> Message:
        nonlocal total
        message = await receive()
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            total += size
            if total > limit:
                raise PayloadTooLargeError(f"the body may have at most {limit} bytes")
            count(size)
        return message

    return counting


async def read_all(receive: Receive) -> bytes:
    """Return the whole body.

    Raises
    ------
    ClientDisconnect
    """
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Give the application the body that was read, then whatever the client does."""
    given = False

    async def replaying() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replaying
