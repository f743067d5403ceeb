"""The world that the gate is tested in: a service, the provider that it trusts, tenants with people and keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from payrec.domain.principal import ENVIRONMENTS, Environment
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support.forwarder import certificate, forwarding
from support.idp import sign
from support.postgres import cloned
from support.providers import Person, Provider, claims_of, person
from support.service import Service, make_config, running
from support.wire import in_control


class World:
    """A service, the provider that it trusts, and tenants with people and keys."""

    def __init__(self, service: Service, provider: Provider, tenants: dict[str, str], known: dict[str, Any]) -> None:
        self.service = service
        self.provider = provider
        self.tenants = tenants
        self._known = known

    def seen_by(self, service: Service) -> World:
        """Return the same world as another service on the same database sees it, which takes no logins."""
        return World(service, self.provider, self.tenants, self._known)

    async def person(self, *roles: str, tenant: str = "acme", environments: Sequence[str] | None = None) -> Person:
        """Return a user of a tenant; the same one each time."""
        given = {"environments": environments} if environments is not None else {}
        name = f"{tenant} {roles} {environments}"
        if name not in self._known:
            self._known[name] = await self.provider.add(person(self.tenants[tenant], *roles, **given))
        return self._known[name]  # type: ignore[no-any-return]

    async def stranger(self, *roles: str, tenant: str = "acme") -> Person:
        """Return a user that is nobody else's, so that it may be changed."""
        return await self.provider.add(person(self.tenants[tenant], *roles))

    async def key(self, *flags: str, tenant: str = "acme", environment: str = "production") -> dict[str, Any]:
        """Return an API key with these flags; the same one each time."""
        name = f"{tenant} {flags} {environment}"
        if name not in self._known:
            self._known[name] = await self.new_key(*flags, tenant=tenant, environment=environment)
        return self._known[name]  # type: ignore[no-any-return]

    async def new_key(self, *flags: str, tenant: str = "acme", environment: str = "production") -> dict[str, Any]:
        """Return an API key that is nobody else's."""
        admin = await self.person("admin", tenant=tenant)
        answer = await self.provider.service.http.post(
            f"{self.provider.service.base_url}/auth/api-keys",
            headers=self.place(tenant, environment)
            | bearer(sign(await self.provider.signing_key(), claims_of(self.provider.service, admin))),
            json={"read": "read" in flags, "write": "write" in flags},
        )
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def token(self, somebody: Person, **changes: Any) -> str:
        """Return a token with claims of the test's own, as this service would have it."""
        return sign(await self.provider.signing_key(), claims_of(self.service, somebody, **changes))

    def place(self, tenant: str = "acme", environment: str = "production") -> dict[str, str]:
        """Return the headers that say where."""
        return {"X-Tenant-Id": self.tenants[tenant], "X-Environment": environment}

    async def ask(
        self, method: str, path: str, headers: dict[str, str] | Sequence[tuple[str, str]], **options: Any
    ) -> httpx2.Response:
        """Send a request with exactly these headers."""
        return await self.service.http.request(method, self.service.base_url + path, headers=headers, **options)

    async def get(self, token: str, path: str = "/jobs") -> httpx2.Response:
        """Read something in production with a bearer value."""
        return await self.ask("GET", path, self.place() | bearer(token))


TENANTS: dict[str, list[Environment]] = {
    "acme": list(ENVIRONMENTS),
    "globex": ["production"],
    "testing": ["test"],
    "suspended": ["production"],
    "deleting": ["production"],
    "half": ["staging", "test"],
}
"""The tenants of a world, and their environments."""


async def make_world(service: Service, provider: Provider) -> World:
    """Make the tenants; ``suspended``, ``deleting`` and ``half`` become what they are called once their keys exist."""
    await provider.attach(service)
    tenants = {}
    for slug, environments in TENANTS.items():
        body = {"name": slug, "slug": slug, "environments": environments}
        created = await service.http.post(f"{service.base_url}/tenants", json=body)
        assert created.status_code == 201, created.text
        tenants[slug] = created.json()["id"]
    world = World(service, provider, tenants, {})
    for slug in ("suspended", "deleting"):
        await world.key("read", "write", tenant=slug)
        await in_control(service, "UPDATE tenant SET status = %s WHERE id = %s", slug, tenants[slug])
    for environment, status in (("staging", "suspended"), ("test", "provisioning")):
        await world.key("read", "write", tenant="half", environment=environment)
        await in_control(
            service,
            "UPDATE tenant_environment SET status = %s WHERE tenant_id = %s AND environment = %s",
            status,
            tenants["half"],
            environment,
        )
    return world


@asynccontextmanager
async def in_production(
    world: World, database: EmbeddedDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """Run a second service on the world's database, in production; it reads the provider's keys over TLS."""
    tls, trusted = certificate(folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with forwarding(world.provider.jwks_port, tls=tls) as forwarder:
        settings = {
            "deployment_environment": "production",
            "idp_issuer_url": "https://issuer.test/realms/payrec",
            "idp_jwks_url": f"https://127.0.0.1:{forwarder.port}{world.provider.jwks_path}",
            "idp_client_secret": "of-the-client-32-characters-long",
        }
        async with running(make_config(database, **settings), worker=False) as service:
            yield world.seen_by(service)


def bearer(value: str) -> dict[str, str]:
    """Return the header of a bearer value."""
    return {"Authorization": f"Bearer {value}"}


@pytest.fixture(scope="module")
def shared_database(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """A database that two services can share."""
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
async def world(shared_database: EmbeddedDatabase, provider: Provider) -> AsyncIterator[World]:
    """The world of a module, in development, with the module's ``provider``."""
    async with running(make_config(shared_database, **provider.settings), worker=False) as service:
        yield await make_world(service, provider)
