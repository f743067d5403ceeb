"""Receivers of webhooks, good ones and bad ones, on loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.wire import until

Answers = Callable[["Received"], Awaitable[web.StreamResponse] | web.StreamResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One message, as it came."""

    headers: dict[str, str]
    body: bytes
    at: float
    """Seconds of the loop's clock."""
    request: web.Request

    @property
    def message(self) -> dict[str, Any]:
        """The body's document."""
        return dict(json.loads(self.body))

    @property
    def id(self) -> str:
        """The ``webhook-id``."""
        return self.headers["webhook-id"]

    @property
    def resource(self) -> str:
        """Which resource it is about."""
        return str(self.message["data"]["resourceId"])


@dataclass(slots=True)
class Receiver:
    """Takes messages and answers as it is told."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answer: Answers | None = None
    """What to answer; 204 without it."""
    under_way: int = 0
    most_at_once: int = 0

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Take one message."""
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            loop = asyncio.get_running_loop()
            headers = {name.lower(): value for name, value in request.headers.items()}
            came = Received(headers=headers, body=await request.read(), at=loop.time(), request=request)
            self.received.append(came)
            if self.answer is None:
                return web.Response(status=204)
            answer = self.answer(came)
            return await answer if isinstance(answer, Awaitable) else answer
        finally:
            self.under_way -= 1

    def ids(self) -> list[str]:
        """Return the ids of messages in the order in which they came, repetitions included."""
        return [received.id for received in self.received]

    async def got(self, count: int, *, seconds: float = 30.0) -> list[Received]:
        """Wait until that many messages have come."""

        async def enough() -> list[Received] | None:
            return self.received if len(self.received) >= count else None

        return await until(enough, seconds=seconds)


@asynccontextmanager
async def receiving(
    answer: Answers | None = None, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """Run a receiver until the context ends."""
    receiver = Receiver(answer=answer)
    server = web.Server(receiver.take, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    await site.start()
    address, bound = site._server.sockets[0].getsockname()[:2]  # type: ignore[union-attr]
    receiver.url = f"{'https' if tls else 'http'}://{address}:{bound}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def speaking(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """Run a server that says whatever it is told, HTTP or not; return its address."""
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/hook"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
