"""Two tenants with the same content in one database, as the operator makes them, and how all is as before again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from unittest.mock import patch
from uuid import UUID

import httpx2
import psycopg
from psycopg import sql

from payrec.domain.scope import TenantScope
from payrec.domain.tenant_resources import ResourceOwner
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.factory import Factory, create_context
from payrec.jobs.outgoing import Outgoing
from payrec.jobs.runner import JobRunner
from payrec.main import create_app
from payrec.storage.partitions import ensure_partitions
from payrec.storage.tenants import TenantStore, scope_of
from payrec_operator.passes import API_KEY
from payrec_operator.ports import KeySecret, World
from payrec_operator.reconcile import reconcile
from payrec_operator.resources import TenantResource
from simulation.database import SteppedDatabase
from simulation.scheduler import WAITING, WAITING_ON_CITUS, point
from support.matching_world import TABLES
from support.operator_faults import Faults
from support.operator_secrets import MemorySecrets
from support.operator_world import make_key, make_spec
from support.service import cheap_passwords, make_config

START: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST_ID: Final = int(START.timestamp() * 1000) << 80 | 7 << 76 | 2 << 62
SLUGS: Final = ("acme", "globex")
OVERLAP: Final = timedelta(hours=24)
CONNECTIONS_MAX: Final = 24
_CONTROL: Final = ("api_key", "webhook_queue", "audit_record", "outbox", "unsealed_change", "idempotency")
_OWN: Final = "simulation"


class SteppedClock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.past = timedelta()

    def now(self) -> datetime:
        return START + self.past

    def monotonic(self) -> float:
        return self.past.total_seconds()


class CountedIds:
    """UUIDv7 of one instant, one after the other."""

    def __init__(self) -> None:
        self.last = FIRST_ID

    def new(self) -> UUID:
        return UUID(int=self.block(1))

    def block(self, count: int) -> int:
        first = self.last + 1
        self.last += count
        return first


class SteppedSecrets(MemorySecrets):
    """Secrets with a point before and after each is written."""

    async def write(self, owner: ResourceOwner, name: str, data: Mapping[str, str], *, seen: str | None) -> str:
        await point("a Secret before it is written")
        version = await super().write(owner, name, data, seen=seen)
        await point("a Secret after it was written")
        return version

    async def owned(self, owner: ResourceOwner, *, fresh: bool = False) -> Sequence[KeySecret]:
        self.catch_up()
        return await super().owned(owner, fresh=fresh)


@dataclass(slots=True, kw_only=True)
class Home:
    """A tenant: its resource, its production environment, and what its endpoint has got."""

    slug: str
    body: dict[str, Any]
    scope: TenantScope
    arrived: list[tuple[str, str]] = field(default_factory=list)
    """Resource and event of each message that the endpoint has taken, in their order."""

    @property
    def place(self) -> tuple[str, str]:
        """Where the Secret is that has the key."""
        return ("shop", f"{self.slug}-key")


class Estate:
    """All that the processes of a seed share."""

    def __init__(self, factory: Factory, watcher: psycopg.AsyncConnection[Any]) -> None:
        self.factory = factory
        self.watcher = watcher
        self.clock: SteppedClock = factory.context.clock  # type: ignore[assignment]
        self.ids: CountedIds = factory.context.ids  # type: ignore[assignment]
        self.secrets = SteppedSecrets(Faults(lambda: None))
        self.world = World(
            registry=factory.create_tenant_resource_service(), secrets=self.secrets, base_url="https://payrec.example"
        )
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=create_app(factory)), base_url="http://payrec.example"
        )
        self.homes: list[Home] = []
        self.lock_waits = WAITING
        """Asks the database who waits for a lock."""
        self.is_over = False
        """Whether nobody begins again who dies."""
        self.first_secrets: dict[Any, Any] = {}

    def resource(self, home: Home) -> TenantResource:
        """Return the tenant's resource as it is now."""
        return TenantResource.parse(home.body)

    async def reconcile(self, body: dict[str, Any]) -> None:
        """Make one pass of the operator over a resource."""
        outcome = await reconcile(TenantResource.parse(body), self.world, now=self.clock.now(), jitter=0.5)
        if outcome.status is not None:
            outcome.status.apply(body)

    def key(self, home: Home) -> str:
        """Return the key that is in the tenant's Secret."""
        return self.secrets.stored[home.place].data[API_KEY]

    async def ask(
        self, home: Home, method: str, path: str, json: Any = None, *, key: str | None = None, **headers: str
    ) -> httpx2.Response:
        """Ask as the tenant."""
        given = {
            "X-Tenant-Id": str(home.scope.tenant_id),
            "X-Environment": home.scope.environment,
            "X-Api-Key": key or self.key(home),
            **headers,
        }
        return await self.http.request(method, path, json=json, headers=given)

    async def begin(self) -> None:
        """Have the operator make the tenants, each with an endpoint, and remember how all is then."""
        for slug in SLUGS:
            key = make_key(secretName=f"{slug}-key", rotation={"interval": "720h", "overlap": "24h"})
            spec = make_spec(slug, environments=[{"name": "production"}], apiKeys=[key])
            body = {
                "metadata": {
                    "uid": f"uid-{slug}", "namespace": "shop", "name": slug, "generation": 1, "annotations": {}
                },
                "spec": spec,
            }  # fmt: skip
            for _ in range(3):
                await self.reconcile(body)
            async with self.factory.context.database.control(readonly=True) as connection:
                self.lock_waits = WAITING_ON_CITUS if connection.is_distributed else WAITING
                [row] = await TenantStore(connection).scopes(UUID(body["status"]["tenantId"]))  # type: ignore[arg-type, index]
            home = Home(slug=slug, body=body, scope=scope_of(row))
            self.homes.append(home)
            async with self.factory.context.database.tenant(home.scope) as connection:
                await ensure_partitions(connection)
            made = await self.ask(home, "POST", "/webhooks", {"url": f"http://127.0.0.1:9999/{slug}", "events": ["*"]})
            assert made.status_code == 201, made.text
        await self.empty()
        await self._remember()

    async def empty(self) -> None:
        """Forget what was told so far."""
        for home in self.homes:
            tables = [f"{home.scope.schema_name}.{table}" for table in TABLES if table != "webhook"]
            await self.execute("; ".join(f"DELETE FROM {table}" for table in tables))  # noqa: S608 - our own names
            await self.execute(f"UPDATE {home.scope.schema_name}.webhook SET position = 0")  # noqa: S608 - our own
        await self.execute("DELETE FROM control.outbox; DELETE FROM control.unsealed_change")

    async def _remember(self) -> None:
        await self.execute(f"CREATE SCHEMA {_OWN}")
        for schema, table in self._kept():
            await self.execute(f"CREATE TABLE {_OWN}.{schema}_{table} AS TABLE {schema}.{table}")
        self.first_secrets = dict(self.secrets.stored)
        self.first_bodies = [dict(home.body) for home in self.homes]

    def _kept(self) -> list[tuple[str, str]]:
        return [*(("control", t) for t in _CONTROL), *((home.scope.schema_name, "webhook") for home in self.homes)]

    async def restore(self) -> None:
        """Make everything as it was when the estate was begun."""
        statements = ["SET session_replication_role = replica"]
        for home in self.homes:
            statements += [f"DELETE FROM {home.scope.schema_name}.{table}" for table in TABLES]  # noqa: S608 - our own
        for schema, table in self._kept():
            statements.append(f"DELETE FROM {schema}.{table}")  # noqa: S608 - our own
            statements.append(f"INSERT INTO {schema}.{table} OVERRIDING SYSTEM VALUE TABLE {_OWN}.{schema}_{table}")
        statements += ["DELETE FROM jobs.procrastinate_jobs", "SET session_replication_role = origin"]
        await self.execute("; ".join(statements))
        self.secrets.stored = dict(self.first_secrets)
        self.secrets.catch_up()
        for home, body in zip(self.homes, self.first_bodies, strict=True):
            home.body = {**body, "metadata": {**body["metadata"], "annotations": {}}, "status": dict(body["status"])}
            home.arrived = []
        self.clock.past = timedelta()
        self.ids.last = FIRST_ID + (1 << 40)

    @staticmethod
    def ids_from(first: int, number: int) -> UUID:
        """Return one of the ids that were given out one after the other."""
        return UUID(int=first + 1 + number)

    async def execute(self, statements: str) -> None:
        """Do something behind everybody's back."""
        await self.watcher.execute(sql.SQL(statements))  # type: ignore[arg-type]

    async def lapse(self) -> None:
        """Let leases be over and what waits for its time be due, but for what somebody holds just now."""
        for home in self.homes:
            schema = home.scope.schema_name
            for table, condition, change in (
                ("job", "status = 'running'", "lease_until = statement_timestamp() - interval '1 second'"),
                ("job", "status = 'queued'", "next_attempt_at = NULL"),
                ("webhook", "true", "lease_until = NULL"),
                ("webhook_delivery", "status = 'pending'", "next_attempt_at = statement_timestamp()"),
            ):
                await self.execute(
                    f"UPDATE {schema}.{table} SET {change} WHERE ctid IN"  # noqa: S608 - our own text
                    f" (SELECT ctid FROM {schema}.{table} WHERE {condition} FOR UPDATE SKIP LOCKED)"
                )
        await self.execute(
            "UPDATE control.webhook_queue SET due_at = clock_timestamp() WHERE ctid IN"
            " (SELECT ctid FROM control.webhook_queue FOR UPDATE SKIP LOCKED)"
        )

    async def waiting(self) -> list[tuple[Home, str]]:
        """Return of whom there are jobs of which kind, as wake-ups would say it."""
        found = []
        for home in self.homes:
            query = f"SELECT DISTINCT kind FROM {home.scope.schema_name}.job WHERE status IN ('queued', 'running')"  # noqa: S608 - our own
            rows = await (await self.watcher.execute(query.encode())).fetchall()
            found += [(home, str(kind)) for (kind,) in sorted(rows)]
        return found

    def runner(self) -> JobRunner:
        """Return what a worker does its jobs with."""
        return JobRunner(self.factory, lease=timedelta(hours=1), memory_bytes=1 << 33, drawn=lambda: 0.5)

    def outgoing(self) -> Outgoing:
        """Return what a worker tells others with."""
        return Outgoing(self.factory)


@asynccontextmanager
async def estate(database: EmbeddedDatabase) -> AsyncIterator[Estate]:
    """Make the tenants in a database that is migrated."""
    context = create_context(make_config(database, webhook_allowed_cidrs="127.0.0.0/8"), passwords=cheap_passwords())
    context.database = SteppedDatabase(
        url=database.url, admin_url=database.admin_url, pool_size_max=CONNECTIONS_MAX, prepared=True
    )
    context.clock, context.ids = SteppedClock(), CountedIds()
    async with await psycopg.AsyncConnection.connect(database.superuser_url, autocommit=True) as watcher:
        await context.database.open()
        factory = Factory(context)
        try:
            with (
                patch("payrec.services.imports.INLINE_BYTES_MAX", 0),
                patch("payrec.jobs.runner.HELD_SECONDS", 0),
            ):
                made = Estate(factory, watcher)
                await made.begin()
                yield made
        finally:
            await factory.verifier.aclose()
            await factory.identity_provider.aclose()
            await context.http.aclose()
            await context.database.close()
