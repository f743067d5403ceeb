"""A gate of a test's own, before an application that only remembers."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from payrec.domain.caller import Caller
from payrec.factory import Factory
from payrec.factory.context import SystemClock
from payrec.gate.gate import Gate
from payrec.metrics import Metrics

Headers = Sequence[tuple[str, str]]


class EighthsClock(SystemClock):
    """A clock on which everything takes an eighth of a second and a little."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1000)

    def monotonic(self) -> float:
        return next(self._ticks) * 0.1253125


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a request."""

    status: int
    headers: dict[str, str]
    body: bytes
    lines: list[Any]
    """What was logged."""
    app: Remembering

    @property
    def caller(self) -> Caller:
        """Who asks, as the application is told."""
        found = self.app.state["caller"]
        assert isinstance(found, Caller)
        return found

    def refusal(self) -> tuple[int, str, str]:
        """Return status, code and text of a refusal, which has not come to the application."""
        assert self.app.scope is None
        assert self.headers["content-type"] == "application/problem+json"
        problem = json.loads(self.body)
        assert problem["requestId"] == self.headers["x-request-id"]
        return self.status, problem["code"], problem["detail"]


class Remembering:
    """An application that remembers what it was asked; it fails before, within or behind its answer if told to."""

    def __init__(self, failing: tuple[str, BaseException] | None = None) -> None:
        self._failing = failing
        self.scope: Scope | None = None
        self.body = b""
        self.afterwards: Message = {}

    @property
    def state(self) -> dict[str, Any]:
        """What the gate has told."""
        assert self.scope is not None
        found = self.scope["state"]
        assert isinstance(found, dict)
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        if scope["type"] != "http":
            await send(await receive())
            return
        more = True
        while more:
            message = await receive()
            self.body += message.get("body", b"")
            more = message.get("more_body", False)
        self.afterwards = await receive()
        self._fail("before")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self._fail("within")
        await send({"type": "http.response.body", "body": b"answered"})
        self._fail("behind")

    def _fail(self, place: str) -> None:
        if self._failing is not None and self._failing[0] == place:
            raise self._failing[1]


class Entrance:
    """A gate with figures and a clock of its own, which asks the service for all else."""

    def __init__(self, factory: Factory, **settings: Any) -> None:
        self.metrics = Metrics()
        self.factory = copy.copy(factory)
        config = factory.context.config.model_copy(update=settings)
        self.factory.context = replace(factory.context, clock=EighthsClock(), config=config)

    def with_settings(self, **settings: Any) -> Entrance:
        """Return another one, of a service that has these settings."""
        return Entrance(self.factory, **settings)

    async def pass_on(self, scope: Scope, message: Message) -> tuple[Scope | None, list[Message]]:
        """Send what is no request; return what the application was asked, and what it sent back."""
        app, sent = Remembering(), []

        async def receive() -> Message:
            return message

        async def send(message: Message) -> None:
            sent.append(message)

        await Gate(app, factory=self.factory, metrics=self.metrics)(scope, receive, send)
        return app.scope, sent

    async def ask(
        self,
        method: str,
        path: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        failing: tuple[str, BaseException] | None = None,
        client: tuple[str, int] | None = ("203.0.113.7", 4711),
        query: bytes | None = b"",
        request_id: str | None = "r-1",
        **gate: Any,
    ) -> Answer:
        """Send a request through the gate, its body in two pieces."""
        app = Remembering(failing)
        named = [] if request_id is None else [("X-Request-Id", request_id)]
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "client": client,
            "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in (*named, *headers)],
        }
        if query is not None:
            scope["query_string"] = query
        pieces: list[Message] = [
            {"type": "http.request", "body": body[:1], "more_body": True},
            {"type": "http.request", "body": body[1:], "more_body": False},
        ]
        sent: list[Message] = []

        async def receive() -> Message:
            return pieces.pop(0) if pieces else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        with capture_logs(processors=[merge_contextvars]) as lines:
            await Gate(app, factory=self.factory, metrics=self.metrics, **gate)(scope, receive, send)
        answered = {k.decode(): v.decode() for k, v in (sent[0]["headers"] if sent else ())}
        known = answered.get("x-request-id", request_id)
        return Answer(
            status=sent[0]["status"] if sent else 0,
            headers=answered,
            body=b"".join(message.get("body", b"") for message in sent[1:]),
            # The service has lines of its own, of the provider's keys that it is asked for.
            lines=[dict(line) for line in lines if line.get("request_id") == known],
            app=app,
        )

    def counted(self, name: str, **labels: str) -> float:
        """Return one figure."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0
