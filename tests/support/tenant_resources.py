"""A world of Tenant resources: the service that keeps their tenants, on its own database, and looks from outside."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg import sql

from payrec.domain.caller import Caller
from payrec.domain.principal import Permission, Principal
from payrec.domain.scope import TenantScope
from payrec.domain.tenant_resources import ResourceOwner, StoredKey, TenantState, WantedTenant
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.factory import Factory, create_context
from payrec.models.api_keys import ApiKeyCreate
from payrec.services.authentication import Admission, Credentials
from payrec.services.tenant_resource_keys import stored_key
from payrec.services.tenant_resources import TenantResourceService
from payrec.services.tombstones import TombstoneService
from payrec.storage.tenant_resource_keys import TenantResourceKeyStore
from payrec.storage.tenants import TenantStore, scope_of
from support.leaks import SESSION
from support.places import look
from support.service import make_config

WANTED = WantedTenant(name="Acme GmbH")
ADMINISTRATOR = Caller(principal=Principal(kind="system", name="test"), request_id="test")


class MovableClock:
    """The present, moved by what a test says."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the instant."""
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self.now().timestamp()


@dataclass(slots=True, kw_only=True)
class ResourceWorld:
    """The service, and the database below it."""

    addresses: EmbeddedDatabase
    factory: Factory
    registry: TenantResourceService
    clock: MovableClock
    numbers: Any = field(default_factory=itertools.count)

    def slug(self, stem: str = "acme") -> str:
        """Return a slug that nobody has."""
        return f"{stem}-{next(self.numbers)}"

    async def tenant(self, *environments: str, stem: str = "acme") -> tuple[ResourceOwner, str, TenantState]:
        """Claim a tenant and make its environments, as an operator does."""
        slug = self.slug(stem)
        owner = new_owner(slug)
        await self.registry.claim(owner, slug, WANTED)
        state = await self.registry.find(owner)
        assert state is not None
        for environment in environments:
            await self.registry.ensure_environment(state.tenant_id, environment, adopt=False)
        await self.registry.apply(state.tenant_id, WANTED)
        state = await self.registry.find(owner)
        assert state is not None
        return owner, slug, state

    async def look(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a superuser's query."""
        return await look(self.addresses.superuser_url, query, *parameters)

    async def opens(self, text: str, tenant_id: UUID, environment: str = "test") -> bool:
        """Tell whether the API lets a key in."""
        SESSION.credentials.add("a key of a resource", text)
        credentials = Credentials(api_key=text, tenant_id=str(tenant_id), environment=environment)
        admission = Admission(permissions=frozenset({Permission.READ}), jwt_only=False)
        try:
            identified = await self.factory.authenticator.identify(credentials, request_id="test")
            self.factory.authenticator.admit(identified, credentials, admission)
        except Exception:  # noqa: BLE001 - whatever the reason
            return False
        return True

    async def keys(self, tenant_id: UUID) -> list[StoredKey]:
        """Return the resource's keys that are not revoked."""
        async with self.factory.context.database.control(readonly=True) as connection:
            return [stored_key(row) for row in await TenantResourceKeyStore(connection, tenant_id=tenant_id).standing()]

    async def key_of_a_person(self, tenant_id: UUID, environment: str, *, name: str) -> tuple[UUID, str]:
        """Make a key as ``POST /auth/api-keys`` does; return its id and text."""
        scope = next(s for s in await self._scopes(tenant_id) if s.environment == environment)
        caller = replace(ADMINISTRATOR, scope=scope)
        made = await self.factory.create_api_key_service().create(caller, ApiKeyCreate(name=name, read=True))
        assert made.api_key is not None
        return made.id, made.api_key

    async def _scopes(self, tenant_id: UUID) -> list[TenantScope]:
        async with self.factory.context.database.control(readonly=True) as connection:
            return [scope_of(row) for row in await TenantStore(connection).scopes(tenant_id)]

    async def schemas(self, stem: str) -> set[str]:
        """Return the schemas whose names begin with the stem."""
        return {row[0] for row in await self.look("SELECT nspname FROM pg_namespace WHERE nspname LIKE %s", f"{stem}%")}

    async def as_admin(self, query: str) -> None:
        """Run a statement as the administrator."""
        await look(self.addresses.admin_url, query)

    async def end_admin_connections(self) -> None:
        """End what the administrator's pool has, so that new settings of the database count."""
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'payrec_admin'"
        await self.look(f"{query} AND datname = current_database()")

    async def writes(self, tenant_id: UUID, environment: str) -> bool:
        """Store something in an environment through its own door."""
        scope = next(s for s in await self._scopes(tenant_id) if s.environment == environment)
        async with self.factory.context.database.tenant(scope) as connection:
            await connection.execute("INSERT INTO change (id) VALUES (gen_random_uuid())")
        return True

    async def set_version(self, schema: str, revision: str) -> None:
        """Say of an environment's tables that they have a revision."""
        statement = sql.SQL("UPDATE {}.alembic_version SET version_num = {}")
        await self.look(statement.format(sql.Identifier(schema), sql.Literal(revision)).as_string(None))

    @property
    def tombstones(self) -> TombstoneService:
        """What drops what was renamed."""
        return self.factory.tenants.create_tombstone_service()

    async def records(self, tenant_id: UUID) -> list[tuple[str, str, dict[str, Any]]]:
        """Return actor, action and after of the records about the tenant, oldest first."""
        query = "SELECT actor, action, after FROM control.audit_record WHERE resource_id = %s ORDER BY id"
        return [(actor, action, after) for actor, action, after in await self.look(query, tenant_id)]


def new_owner(name: str, namespace: str = "shops") -> ResourceOwner:
    """Return a resource of that name with a UID of its own."""
    return ResourceOwner(uid=str(uuid4()), namespace=namespace, name=name)


@asynccontextmanager
async def resource_world(addresses: EmbeddedDatabase) -> AsyncIterator[ResourceWorld]:
    """Open the world on a migrated database."""
    factory = Factory(create_context(make_config(addresses)))
    clock = MovableClock()
    factory.context.clock = clock
    factory = Factory(factory.context)
    await factory.context.database.open()
    try:
        yield ResourceWorld(
            addresses=addresses, factory=factory, registry=factory.create_tenant_resource_service(), clock=clock
        )
    finally:
        await factory.context.database.close()
        await factory.context.http.aclose()
