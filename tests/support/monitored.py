"""A service, a worker and an operator, each with metrics of its own, and a day of theirs in a few seconds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final

import httpx2
from aiohttp import web

from payrec.commands.serving import internal_port, listen, served
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.factory import Factory, create_context
from payrec.internal import create_internal_app
from payrec.jobs.worker import run_worker
from payrec.metrics import Metrics
from payrec_operator.metrics import OperatorMetrics, TenantFacts
from payrec_operator.runner import Runner
from support.ages import aged
from support.file_servers import FileServer, file_server
from support.operator_world import OperatorWorld, make_spec
from support.receivers import receiving
from support.service import Service, Tenant, make_config, running
from support.sources import UNREADABLE, statement
from support.tenant_data import scope_of_tenant
from support.wire import until

TOKENS_A_MINUTE: Final = 5
"""For one username; beyond it, a request is limited."""


class OperatorBench:
    """The operator's runner on Tenants in memory, each in another state."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.told = OperatorMetrics(self.metrics.registry, resync_seconds=300)
        self.world = OperatorWorld()
        self.runner = Runner(world=self.world.world, metrics=self.told, clock=_Clock(), chance=lambda: 0.5, fresh=0.0)
        self.well = self.world.create(make_spec("acme"))
        self.held = self.world.create(make_spec("globex"), name="globex", paused="true")
        self.taken = self.world.create(make_spec("acme"), name="copy")

    async def act(self) -> None:
        """Make passes: one that corrects, one that is left alone, one that cannot be, one that is deleted."""
        for place in (self.well, self.held, self.taken):
            body = self.world.objects[place]
            self.world.secrets.catch_up()
            await self.runner.run("change", body)
            self.runner.write_status(body["metadata"]["uid"], body)
        self.world.remove(("shop", "ledger-key"))
        self.world.secrets.catch_up()
        await self.runner.run("secret", self.world.objects[self.well])
        leaving = TenantFacts(
            namespace="shop",
            name="leaving",
            conditions={"Ready": "False", "Deleting": "False"},
            keys={"retiring": 1, "retiring_in_use": 1},
            finalizing=True,
        )
        self.told.observe("uid-leaving", leaving)


class _Clock:
    """The real one."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass(slots=True, kw_only=True)
class Scene:
    """What runs, where it is scraped, and what happens in it."""

    service: Service
    worker: Factory
    operator: OperatorBench
    ports: dict[str, int]
    tenants: list[Tenant]
    files: FileServer
    rounds: int = 0

    async def act(self) -> None:
        """Let everything happen that a panel shows; each time with new data."""
        self.rounds += 1
        for tenant in self.tenants:
            await self._files(tenant)
            await self._matching(tenant)
            await self._refusals(tenant)
        await self._upkeep()
        await self.operator.act()

    async def _files(self, tenant: Tenant) -> None:
        today, first = datetime.now(UTC).date(), self.rounds * 100
        items: list[dict[str, Any]] = []
        lines: list[dict[str, Any]] = []
        for n, (direction, days) in enumerate(product(("credit", "debit"), (-5, 2, 20, 60, 200))):
            # Of each age, in and out, and nobody's.
            about = {"direction": direction, "currency": "EUR"}
            day = str(today - timedelta(days=days))
            items.append({**about, "amount": f"{first + n}.11", "dueDate": day})
            if days > 0:
                lines.append({**about, "amount": f"{first + n}.77", "bookingDate": day})
        for n in range(3):
            about = {"direction": "credit", "currency": "EUR", "amount": f"{first + n}.00"}
            named = f"INV-{tenant.slug}-{first + n}"
            items.append({**about, "dueDate": str(today), "reference": named, "counterpartyName": "Ann"})
            lines.append({**about, "bookingDate": str(today), "remittance": named})
        for item in items:
            made = await tenant.post("/expected-transactions", item)
            assert made.status_code == 201, made.text
        uploaded = "/incoming-transactions/upload"
        assert (await tenant.post(uploaded, [*lines, {**lines[0], "amount": 1.5}])).is_success
        await tenant.post(uploaded, lines)
        await tenant.post(uploaded, content=UNREADABLE, headers={"Content-Type": "text/csv"})
        self.files.files["day.csv"] = statement(*range(first + 1000, first + 1003))
        self.files.files["letter.csv"] = UNREADABLE
        sources = (await tenant.get("/data-sources")).json()["data"]
        for source in sources:
            await self._done(tenant, await tenant.post(f"/data-sources/{source['id']}/sync"))
            # What is looked at for the first time may still be written.
            query = aged("data_source_object", "2 minutes")
            await self._sql(tenant, query)
            await self._done(tenant, await tenant.post(f"/data-sources/{source['id']}/sync"))

    async def _matching(self, tenant: Tenant) -> None:
        await self._done(tenant, await tenant.post("/matches/match", {"wait": 0}))
        proposed = (await tenant.get("/matches", params={"status": "proposed"})).json()["data"]
        assert proposed, "nothing is proposed"
        assert (await tenant.post(f"/matches/{proposed[0]['id']}/accept")).is_success
        export = {"kind": "export", "params": {"resource": "matches", "format": "csv"}}
        await self._done(tenant, await tenant.post("/jobs", export))

    async def _refusals(self, tenant: Tenant) -> None:
        asked = f"{self.service.base_url}/matches"
        await self.service.http.get(asked, headers=tenant.headers() | {"Authorization": "Bearer nonsense"})
        login = {"username": f"admin@{tenant.slug}", "password": f"pässwörd-{tenant.slug}"}
        for _ in range(TOKENS_A_MINUTE + 1):
            await self.service.http.post(f"{self.service.base_url}/auth/token", json=login)
        assert (await tenant.get("/matches/none")).status_code >= 400

    async def _upkeep(self) -> None:
        for tenant in self.tenants:
            await self._sql(tenant, "UPDATE export SET expires_at = now() - interval '1 day'")
        upkeep = self.worker.upkeep
        await upkeep.create_retention_service().drop_expired()
        await upkeep.create_audit_sealer().seal_everywhere()
        await self.worker.measurement.take_census()

    async def _sql(self, tenant: Tenant, query: str) -> None:
        scope = await scope_of_tenant(self.service.factory, tenant)
        async with self.service.factory.context.database.tenant(scope) as connection:
            await connection.execute(query.encode())

    async def _done(self, tenant: Tenant, started: httpx2.Response) -> None:
        assert started.is_success, started.text
        at = started.headers["location"]

        async def ended() -> bool | None:
            job = (await tenant.get(at)).json()
            return True if job["status"] not in {"queued", "running"} else None

        await until(ended, seconds=120)


@asynccontextmanager
async def monitored(database: EmbeddedDatabase) -> AsyncIterator[Scene]:
    """Run all three; a job is asked for before there is a worker, and counted."""
    config = make_config(database, rate_limit_token_per_username_per_minute=TOKENS_A_MINUTE)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(config, worker=False))
        tenants = [await service.tenant(slug, environments=["production"]) for slug in ("acme", "globex")]
        files = await stack.enter_async_context(file_server())
        good = await stack.enter_async_context(receiving())
        bad = await stack.enter_async_context(receiving(lambda _: web.Response(status=500)))
        for tenant in tenants:
            for name in ("day.csv", "letter.csv"):
                source = {"name": name, "kind": "http", "config": {"urls": [f"{files.url}/{name}"]}}
                assert (await tenant.post("/data-sources", source)).status_code == 201
            for url in (good.url, bad.url):
                assert (await tenant.post("/webhooks", {"url": url, "events": ["*"]})).status_code == 201
            assert (await tenant.post("/matches/match", {"wait": 0})).status_code == 202
        context = create_context(config)
        await context.database.open()
        stack.push_async_callback(context.http.aclose)
        stack.push_async_callback(context.database.close)
        worker, operator, ports = Factory(context), OperatorBench(), {}
        for name, factory in (("api", service.factory), ("worker", worker)):
            listening = listen("127.0.0.1", 0, name="INTERNAL_PORT")
            ports[name] = listening.getsockname()[1]
            await stack.enter_async_context(internal_port(factory, listening))
        listening = listen("127.0.0.1", 0, name="INTERNAL_PORT")
        ports["operator"] = listening.getsockname()[1]
        app = create_internal_app(metrics=operator.metrics, check_ready=_nothing, measure=_nothing)
        await stack.enter_async_context(served(app, listening))
        await worker.measurement.take_census()
        yield Scene(
            service=service,
            worker=worker,
            operator=operator,
            ports=ports,
            tenants=tenants,
            files=files,
        )


@asynccontextmanager
async def working(scene: Scene) -> AsyncIterator[None]:
    """Run the scene's worker."""
    ready = asyncio.Event()
    task = asyncio.create_task(run_worker(scene.worker, ready=ready))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        waiting.cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _nothing() -> None:
    return
