"""A running service: the real application on a real port, its worker, and a client for each tenant."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import uvicorn
from procrastinate.periodic import PeriodicDeferrer

from payrec.commands.serving import KEEP_ALIVE_SECONDS
from payrec.config import Config
from payrec.embedded.passwords import PasswordHasher
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.factory import Factory, create_context
from payrec.gate.protocol import BoundedHttpProtocol
from payrec.main import create_app
from support import pooled
from support.leaks import SESSION
from support.ports import free_port

PEPPER = "the-pepper-of-the-keys-in-tests!"
ENCRYPTION_KEY = "tests-encryption-key-7Hq2Zt9LwXc"

RATE_LIMITS = (
    "rate_limit_principal_per_second",
    "rate_limit_tenant_per_second",
    "rate_limit_uploads_per_minute",
    "rate_limit_token_per_username_per_minute",
    "rate_limit_token_per_address_per_minute",
)
"""The settings that 0 switches off."""


def cheap_passwords() -> PasswordHasher:
    """Return what hashes passwords at hardly any cost: users of a test keep no secret."""
    return PasswordHasher(log2_n=4)


def make_config(database: EmbeddedDatabase, **settings: Any) -> Config:
    """Return the settings of a development service on a free port, without rate limits unless they are given."""
    given: dict[str, Any] = {
        "port": free_port(),
        "internal_port": 0,
        "deployment_environment": "development",
        **pooled.SESSION.settings(database),
        "admin_database_url": database.admin_url,
        "api_key_pepper": PEPPER,
        "encryption_key": ENCRYPTION_KEY,
        **dict.fromkeys(RATE_LIMITS, 0),
        **settings,
    }
    return Config(**given)


def direct_url(config: Config) -> str:
    """Return the address of the server itself, past a pooler where there is one."""
    return config.jobs_database_url or config.database_url


def superuser_url(config: Config) -> str:
    """Return the same for the server's superuser."""
    return direct_url(config).replace("payrec_service", "postgres")


@dataclass(slots=True, kw_only=True)
class Tenant:
    """A tenant made over HTTP, its administrator's token, and who asks for it."""

    id: str
    slug: str
    token: str
    base_url: str
    http: httpx2.AsyncClient

    def headers(self, environment: str = "production", **more: str) -> dict[str, str]:
        """Return the headers of the administrator in an environment."""
        return {
            "X-Tenant-Id": self.id,
            "X-Environment": environment,
            "Authorization": f"Bearer {self.token}",
            **more,
        }

    async def request(self, method: str, path: str, environment: str = "production", **options: Any) -> httpx2.Response:
        """Ask as the administrator; ``headers`` are added."""
        headers = self.headers(environment) | options.pop("headers", {})
        return await self.http.request(method, self.base_url + path, headers=headers, **options)

    async def get(self, path: str, environment: str = "production", **options: Any) -> httpx2.Response:
        """GET as the administrator."""
        return await self.request("GET", path, environment, **options)

    async def post(
        self, path: str, json: Any = None, environment: str = "production", **options: Any
    ) -> httpx2.Response:
        """POST as the administrator."""
        if json is not None:
            options["json"] = json
        return await self.request("POST", path, environment, **options)


@dataclass(slots=True, kw_only=True)
class Service:
    """The service under test."""

    base_url: str
    factory: Factory
    http: httpx2.AsyncClient

    async def tenant(self, slug: str, *, environments: list[str] | None = None) -> Tenant:
        """Create a tenant with an administrator, over HTTP alone."""
        body: dict[str, Any] = {
            "name": slug.title(),
            "slug": slug,
            "admin": {"username": f"admin@{slug}", "password": f"pässwörd-{slug}"},
        }
        if environments is not None:
            body["environments"] = environments
        created = await self.http.post(f"{self.base_url}/tenants", json=body)
        assert created.status_code == 201, created.text
        token = await self.http.post(
            f"{self.base_url}/auth/token", json={"username": f"admin@{slug}", "password": f"pässwörd-{slug}"}
        )
        assert token.status_code == 200, token.text
        return Tenant(
            id=created.json()["id"],
            slug=slug,
            token=token.json()["access_token"],
            base_url=self.base_url,
            http=self.http,
        )


def _hooks(factory: Factory) -> dict[str, list[Any]]:
    """Return what collects the credentials of a service and of its clients, and what must have none."""
    if not SESSION.is_watching:
        return {}
    SESSION.learn(factory.context.config)
    SESSION.credentials.add("the client secret", factory.idp_client_secret)
    return {"request": [SESSION.asked], "response": [SESSION.answered]}


def _stop_the_clock(patch: pytest.MonkeyPatch) -> None:
    """Let no worker do anything because of the time: at that minute of an hour a test would find it done already."""

    async def nothing(_: PeriodicDeferrer) -> None:
        return None

    patch.setattr(PeriodicDeferrer, "worker", nothing)


@asynccontextmanager
async def running(
    config: Config, *, worker: bool = True, passwords: PasswordHasher | None = None
) -> AsyncIterator[Service]:
    """Run the service, and its worker unless told otherwise, until the context ends."""
    factory = Factory(create_context(config, passwords=passwords or cheap_passwords()))
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(factory),
            host="127.0.0.1",
            port=config.port,
            http=BoundedHttpProtocol,
            ws="none",
            log_config=None,
            lifespan="on",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
    )
    serving = asyncio.create_task(server.serve())
    tasks = [serving]
    patch = pytest.MonkeyPatch()
    try:
        while not server.started:
            if serving.done():
                serving.result()
            await asyncio.sleep(0.01)
        if worker:
            from payrec.jobs.worker import run_worker  # noqa: PLC0415  # a service alone starts without the engine

            ready = asyncio.Event()
            _stop_the_clock(patch)
            tasks.append(asyncio.create_task(run_worker(factory, ready=ready)))
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait([tasks[-1], waiting], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                await tasks[-1]
        # Idle connections are left before the server ends them, or a request could meet that end.
        limits = httpx2.Limits(keepalive_expiry=2.0)
        async with httpx2.AsyncClient(timeout=30.0, event_hooks=_hooks(factory), limits=limits) as http:
            yield Service(base_url=f"http://127.0.0.1:{config.port}", factory=factory, http=http)
    finally:
        for task in tasks[1:]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        patch.undo()
        server.should_exit = True
        await serving
        SESSION.write("metric", factory.context.metrics.render())
