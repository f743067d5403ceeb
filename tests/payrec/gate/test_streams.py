"""The body that comes in and the answer that goes out, message by message as the server gives and takes them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from uuid import UUID

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from payrec.errors import PayloadTooLargeError, RateLimitedError
from payrec.gate import streams
from payrec.gate.room import Room
from payrec.gate.streams import (
    ANSWER_PIECE_BYTES,
    GUARDS,
    LINGER_BYTES_MAX,
    UNREAD_BYTES_MAX,
    Incoming,
    Watch,
    capped,
    declared_length,
    read_all,
    replayed,
)

pytestmark = pytest.mark.anyio

GONE: Message = {"type": "http.disconnect"}
OWN = [(b"x-request-id", b"r-1"), (b"api-version", b"1")]


def piece(body: bytes, *, more: bool | None = None) -> Message:
    """Return a message of a body; ``more`` is left out where a server may leave it out."""
    return {"type": "http.request", "body": body} | ({} if more is None else {"more_body": more})


def client(*messages: Message) -> Receive:
    """Return a client that sends these messages, and is gone behind them."""
    left = list(messages)

    async def receive() -> Message:
        return left.pop(0) if left else GONE

    return receive


class Wire:
    """What was sent to the client, and a client that sends these messages."""

    def __init__(self, *messages: Message, headers: dict[str, str] | None = None) -> None:
        self.sent: list[Message] = []
        self.incoming = Incoming(client(*messages), headers or {})
        self.watch = Watch(self.send, self.incoming, headers=OWN)

    @property
    def seen(self) -> tuple[int, bool, bool]:
        """The status of the answer, and whether it has begun and ended."""
        return self.watch.status, self.watch.started, self.watch.finished

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def answer(self, *bodies: Message, headers: Iterable[tuple[bytes, bytes]] | None = None) -> None:
        """Answer by way of the watch; without headers, if they are left out."""
        start: Message = {"type": "http.response.start", "status": 201, "trailers": False}
        await self.watch.send(start if headers is None else {**start, "headers": headers})
        for body in bodies:
            await self.watch.send({"type": "http.response.body", **body})


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({}, 0),
        ({"content-length": ""}, 0),
        ({"content-length": "-1"}, 0),
        ({"content-length": "²"}, 0),
        ({"content-length": "١"}, 0),
        ({"content-length": "017"}, 17),
    ],
)
async def test_a_length_is_a_number_or_nothing(headers: dict[str, str], length: int) -> None:
    assert declared_length(headers) == length
    assert Incoming(client(), headers).left == length


async def test_what_is_left_of_a_body_is_never_nothing_before_its_end() -> None:
    incoming = Incoming(client(piece(b"12", more=True), piece(b"3456", more=True), piece(b"")), {"content-length": "5"})
    left = []
    for _ in range(3):
        await incoming.receive()
        left.append(incoming.left)
    assert left == [3, 1, 0]


async def test_a_body_without_a_length_is_left_until_its_end() -> None:
    chunked = {"transfer-encoding": "chunked", "content-length": "5"}
    without_bytes: Message = {"type": "http.request", "more_body": True}
    incoming = Incoming(client(piece(b"1234567", more=True), without_bytes, piece(b"8", more=False)), chunked)
    assert incoming.left == math.inf
    for left in (math.inf, math.inf, 0):
        await incoming.receive()
        assert incoming.left == left


async def test_of_a_client_that_is_gone_nothing_is_left() -> None:
    incoming = Incoming(client({**GONE, "more_body": True}), {"content-length": "5"})
    assert await incoming.receive() == {**GONE, "more_body": True}
    assert incoming.left == 0


async def test_a_body_is_taken_up_to_the_limit_and_not_one_byte_further() -> None:
    empty: Message = {"type": "http.request", "more_body": True}
    messages = [piece(b"1234", more=True), empty, piece(b"56", more=True), GONE, piece(b"7")]
    counted: list[int] = []
    receive = capped(client(*messages), 6, counted.append)
    assert [await receive() for _ in messages[:-1]] == messages[:-1]
    with pytest.raises(PayloadTooLargeError) as refused:
        await receive()
    assert refused.value.detail == "the body may have at most 6 bytes"
    assert counted == [4, 0, 2]


async def test_what_is_no_piece_of_the_body_is_not_counted() -> None:
    other: Message = {"type": "http.other", "body": b"1234567"}
    counted: list[int] = []
    assert await capped(client(other), 6, counted.append)() == other
    assert counted == []


async def test_a_body_is_read_whole_to_its_last_piece() -> None:
    empty: Message = {"type": "http.request", "more_body": True}
    for last in (piece(b"45"), piece(b"45", more=False), {"type": "http.request", "body": b"45"}):
        receive = client(piece(b"12", more=True), empty, piece(b"3", more=True), last, piece(b"6"))
        assert await read_all(receive) == b"12345"
        assert await receive() == piece(b"6")


async def test_a_body_that_ends_with_its_client_is_none() -> None:
    with pytest.raises(ClientDisconnect):
        await read_all(client(piece(b"12", more=True)))


async def test_a_body_that_was_read_is_given_once_and_then_what_the_client_does() -> None:
    receive = replayed(b"12", client(piece(b"3")))
    assert [await receive() for _ in range(3)] == [piece(b"12", more=False), piece(b"3"), GONE]


async def test_an_answer_goes_out_with_the_headers_of_every_answer() -> None:
    wire = Wire()
    wire.watch.add([(b"ratelimit", b"x")])
    assert wire.seen == (500, False, False)
    await wire.answer(headers=[(b"Cache-Control", b"max-age=1")])
    assert wire.seen == (201, True, False)
    await wire.watch.send({"type": "http.response.body", "body": b"1", "more_body": True})
    assert wire.seen == (201, True, False)
    await wire.watch.send({"type": "http.response.body", "body": b"2"})
    assert wire.seen == (201, True, True)
    assert wire.sent == [
        {
            "type": "http.response.start",
            "status": 201,
            "trailers": False,
            "headers": [(b"Cache-Control", b"max-age=1"), *OWN, (b"ratelimit", b"x"), GUARDS[1]],
        },
        {"type": "http.response.body", "body": b"1", "more_body": True},
        {"type": "http.response.body", "body": b"2"},
    ]


async def test_an_answer_without_headers_gets_them_too() -> None:
    wire = Wire()
    await wire.answer()
    assert wire.sent[0]["headers"] == [*OWN, *GUARDS]


async def test_a_connection_is_closed_under_more_than_may_stay_unread() -> None:
    """The end of the answer waits for the client to stop writing, or the client would not get to read it."""
    for length, closed in ((UNREAD_BYTES_MAX, False), (UNREAD_BYTES_MAX + 1, True)):
        wire = Wire(piece(b"1", more=True), piece(b"2"), headers={"content-length": str(length)})
        await wire.answer({"body": b"a", "more_body": True}, {"body": b"b", "more_body": False}, headers=())
        end: Message = {"type": "http.response.body", "body": b"", "more_body": False}
        assert wire.sent[0]["headers"] == [*OWN, *GUARDS, *([(b"connection", b"close")] if closed else [])]
        assert wire.sent[1:] == [
            {"type": "http.response.body", "body": b"a", "more_body": True},
            {"type": "http.response.body", "body": b"b", "more_body": closed},
            *([end] if closed else []),
        ]
        assert wire.incoming.left == (0 if closed else UNREAD_BYTES_MAX)
        assert wire.seen == (201, True, True)


@pytest.mark.parametrize("first", [LINGER_BYTES_MAX // 2, LINGER_BYTES_MAX - 1])
async def test_a_refused_client_is_listened_to_for_so_many_bytes(first: int) -> None:
    """Pieces without bytes are none of them, and who is gone is not waited for."""
    begun, empty = piece(b"x" * first, more=True), {"type": "http.request", "more_body": True}
    rest, more = piece(b"x" * (LINGER_BYTES_MAX - first), more=True), piece(b"more", more=True)
    incoming = Incoming(client(begun, empty, rest, more), {"transfer-encoding": "chunked"})
    await incoming.linger()
    assert await incoming.receive() == more
    await incoming.linger()
    assert incoming.left == 0


async def test_a_refused_client_is_listened_to_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(streams, "LINGER_SECONDS", 0.01)
    incoming = Incoming(silent, {"content-length": "5"})
    async with asyncio.timeout(30):
        await incoming.linger()
    assert incoming.left == 5


async def test_a_long_answer_goes_out_in_pieces_and_counts_until_its_client_has_it() -> None:
    room, tenant, wire = Room(10 * ANSWER_PIECE_BYTES), UUID(int=1), Wire()
    held = wire.incoming.held = room.of(tenant)
    held.add(10)
    body = bytes(range(256)) * (ANSWER_PIECE_BYTES * 6 // 256) + b"end"
    await wire.watch.send({"type": "http.response.start", "status": 200, "headers": []})
    await wire.watch.send({"type": "http.response.body", "body": body[:1], "more_body": True})
    await wire.watch.send({"type": "http.response.body", "body": body[1:]})
    pieces = wire.sent[1:]
    assert b"".join(message["body"] for message in pieces) == body
    assert max(len(message["body"]) for message in pieces) <= ANSWER_PIECE_BYTES
    assert [message["more_body"] for message in pieces] == [True] * (len(pieces) - 1) + [False]
    assert room.held == 10 + len(body) - 1
    with pytest.raises(RateLimitedError):
        room.of(tenant).add(1)
    room.of(UUID(int=2)).add(1)
    held.release()
    room.of(tenant).add(1)
    assert room.held == 1 + 1


async def test_what_anybody_may_ask_for_keeps_nobody_from_signing_in() -> None:
    room, wire = Room(100), Wire()
    wire.incoming.held = room.of(None)
    await wire.watch.send({"type": "http.response.start", "status": 200, "headers": []})
    await wire.watch.send({"type": "http.response.body", "body": bytes(2 * ANSWER_PIECE_BYTES)})
    room.of(None).add(50)
