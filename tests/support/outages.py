"""A service, its worker and its database as processes of their own, each of which may go down at any time."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import httpx2
from standardwebhooks.webhooks import Webhook

from payrec.config import Config
from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.errors import UnavailableError
from payrec.factory import Factory, create_context
from payrec.storage.rows import fetch_one
from support.commands import Running, environment, started
from support.events import TOLD
from support.outgoing import TYPE
from support.places import look
from support.ports import free_port
from support.receivers import Received
from support.service import RATE_LIMITS, Service, Tenant, cheap_passwords, make_config
from support.worker_process import worker_process

QUICK = {"lease": 1.5, "heartbeat_seconds": 0.3, "stalled_seconds": 1.0, "polling_seconds": 0.3, "grace_seconds": 5.0}
"""Options of a worker that takes over from a dead one in parts of a second."""

WAIT_SECONDS = 90.0
"""How long a test waits for what must come at last."""

TEMPORARY = frozenset({409, 500, 502, 503, 504})
"""Answers after which a client tries again; 409 is its own first try that has not ended."""


class Crash(Protocol):
    """Lets a server of the database go down without a warning, and come back."""

    async def __call__(self, *, seconds: float = 0.0) -> None:
        """Be away for a time."""


@dataclass(slots=True, kw_only=True)
class Installation:
    """The processes, and ways to let each of them down."""

    config: Config
    database: EmbeddedDatabase
    crash_database: Crash
    folder: Path
    service: Service
    serving: Running | None = None
    worker: asyncio.subprocess.Process | None = None
    _serve: AsyncExitStack = field(default_factory=AsyncExitStack)
    _work: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def serve(self) -> None:
        """Start the service."""
        settings = {"PORT": str(self.config.port), "INTERNAL_PORT": "0", **{name.upper(): "0" for name in RATE_LIMITS}}
        environ = environment(self.database, **settings)
        self.serving = self._serve.enter_context(started("serve", cwd=self.folder, environ=environ))
        await self._answering()

    async def work(self) -> None:
        """Start a worker."""
        self.worker = await self._work.enter_async_context(worker_process(self.config, **QUICK))

    async def end_service(self, number: signal.Signals) -> int:
        """End the service, and return how it ended."""
        assert self.serving is not None
        self.serving.process.send_signal(number)
        code = await asyncio.to_thread(self.serving.ended)
        await self._serve.aclose()
        return code

    async def end_worker(self, number: signal.Signals) -> int:
        """End the worker, and return how it ended."""
        assert self.worker is not None
        self.worker.send_signal(number)
        code = await asyncio.wait_for(self.worker.wait(), WAIT_SECONDS)
        await self._work.aclose()
        return code

    async def close(self) -> None:
        """End what still runs."""
        await self._serve.aclose()
        await self._work.aclose()

    async def _answering(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    if (await self.service.http.get(f"{self.service.base_url}/api/health")).status_code == 200:
                        return
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)


@asynccontextmanager
async def installed(database: EmbeddedDatabase, crash: Crash, folder: Path) -> AsyncIterator[Installation]:
    """Start a service and a worker on a database that may crash."""
    config = make_config(database, port=free_port())
    context = create_context(config, passwords=cheap_passwords())
    await context.database.open()
    async with httpx2.AsyncClient(timeout=30.0) as http:
        service = Service(base_url=f"http://127.0.0.1:{config.port}", factory=Factory(context), http=http)
        made = Installation(config=config, database=database, crash_database=crash, folder=folder, service=service)
        try:
            await made.serve()
            await made.work()
            yield made
        finally:
            await made.close()
            await context.database.close()
            await context.http.aclose()


async def surely(ask: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """Ask until there is an answer that is not for a time only, as a careful client does."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                answer = await ask()
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
                continue
            if answer.status_code not in TEMPORARY:
                return answer
            await asyncio.sleep(0.05)


async def posted(tenant: Tenant, path: str, body: Any, *, key: str, **options: Any) -> dict[str, Any]:
    """Create something, once, whatever happens meanwhile; return the answer."""
    answer = await surely(lambda: tenant.post(path, body, headers={"Idempotency-Key": key}, **options))
    assert answer.status_code in {200, 201, 202}, answer.text
    return dict(answer.json())


async def happened(factory: Factory, scope: TenantScope, resource: UUID, number: int) -> None:
    """Commit the ``number``-th change of a resource, with an event of it; once, though a commit may go unanswered."""
    caller = Caller(principal=Principal(kind="system", name="test"), request_id="test", scope=scope)
    query = f"SELECT 1 AS there FROM {TOLD} WHERE resource_id = %s AND (data->>'number')::int = %s"  # noqa: S608
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                async with factory.work.tenant(caller, resumed=True) as unit:
                    if await fetch_one(unit.connection, query, (resource, number)) is None:
                        unit.record(Record(action=TYPE, resource_id=resource, data={"number": number}))
            except UnavailableError:
                await asyncio.sleep(0.05)
            else:
                return


async def looked(url: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query of the superuser's, as soon as there is a database to answer."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                return await look(url, query, *parameters)
            except OSError:
                await asyncio.sleep(0.05)


@dataclass(slots=True)
class Ledger:
    """A receiver as somebody writes it who knows Standard Webhooks, and nothing of who sends."""

    secret: str
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Messages by ``webhook-id``, in the order in which they came first."""
    repetitions: int = 0

    def take(self, came: Received) -> None:
        """Verify a message, and note it unless it is a repetition."""
        message = Webhook(self.secret).verify(came.body, came.headers)
        if came.id in self.seen:
            assert self.seen[came.id] == json.loads(came.body)
            self.repetitions += 1
            return
        self.seen[came.id] = message

    def by_resource(self) -> dict[str, list[dict[str, Any]]]:
        """Return the messages of each resource, in the order of their arrival."""
        found: dict[str, list[dict[str, Any]]] = {}
        for message in self.seen.values():
            found.setdefault(message["data"]["resourceId"], []).append(message)
        return found
