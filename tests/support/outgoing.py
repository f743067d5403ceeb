"""A service without a worker, events written straight into it, and what a worker tells of them, run by the test."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from payrec.domain.caller import Caller
from payrec.domain.changes import Record
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.factory import Factory, create_context
from payrec.jobs.outgoing import Outgoing
from payrec.storage.rows import fetch_all
from support.postgres import cloned
from support.receivers import Received
from support.service import Service, Tenant, make_config, running
from support.tenant_data import scope_of_tenant
from support.wire import in_control, until

TYPE = "match.accepted"
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class Place:
    """A tenant environment whose events are told of."""

    service: Service
    tenant: Tenant
    scope: TenantScope

    async def happen(self, *resources: UUID) -> None:
        """Commit a change for each resource, with an event of it."""
        factory = self.service.factory
        for resource in resources:
            caller = Caller(principal=Principal(kind="system", name="test"), request_id="test", scope=self.scope)
            async with factory.work.tenant(caller, resumed=True) as unit:
                unit.record(Record(action=TYPE, resource_id=resource))

    async def hook(self, url: str, *events: str) -> str:
        """Make an endpoint and return its id."""
        body = {"url": url, "events": list(events) or [TYPE]}
        made = await self.tenant.post("/webhooks", body)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    async def webhook(self, webhook_id: str) -> dict[str, Any]:
        """Return an endpoint."""
        return dict((await self.tenant.get(f"/webhooks/{webhook_id}")).json())

    async def deliveries(self, webhook_id: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return what became of events at an endpoint, the oldest first."""
        answer = await self.tenant.get(
            f"/webhooks/{webhook_id}/deliveries", params={"sort": "createdAt", "limit": 200, **parameters}
        )
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    async def settled(self, webhook_id: str, count: int, *, status: str = "succeeded") -> list[dict[str, Any]]:
        """Wait until so many deliveries have a status, and return them."""

        async def enough() -> list[dict[str, Any]] | None:
            found = await self.deliveries(webhook_id, status=status)
            return found if len(found) >= count else None

        return await until(enough, seconds=60)

    async def sql(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Do something in the schema and return the rows."""
        async with self.service.factory.context.database.tenant(self.scope) as connection:
            if "RETURNING" in query or query.lstrip().startswith("SELECT"):
                return await fetch_all(connection, query, parameters or None)
            await connection.execute(query.encode(), parameters or None)
            return []

    async def look_now(self) -> None:
        """Have every endpoint looked at, whatever it waits for."""
        async with self.service.factory.context.database.control() as connection:
            await connection.execute("UPDATE webhook_queue SET due_at = now()")


async def new_place(service: Service) -> Place:
    """Make a tenant, and return its production environment, which is never told that it was made."""
    tenant = await service.tenant(f"place-{next(_numbers)}", environments=["production"])
    scope = await scope_of_tenant(service.factory, tenant)
    await in_control(service, "DELETE FROM outbox WHERE environment_id = %s", scope.environment_id)
    return Place(service=service, tenant=tenant, scope=scope)


@pytest.fixture(scope="module")
async def idle(postgres: EmbeddedPostgres) -> AsyncIterator[tuple[Service, str]]:
    """Return a service without a worker, and the superuser's address of its database."""
    with cloned(postgres) as database:
        async with running(make_config(database), worker=False) as service:
            yield service, database.superuser_url


@pytest.fixture
async def here(idle: tuple[Service, str]) -> AsyncIterator[Place]:
    """Return an environment of a new tenant; its endpoints are gone afterwards."""
    made = await new_place(idle[0])
    yield made
    for one in (await made.tenant.get("/webhooks", params={"limit": 200})).json()["data"]:
        await made.tenant.request("DELETE", f"/webhooks/{one['id']}")


@asynccontextmanager
async def telling(service: Service) -> AsyncIterator[Factory]:
    """Run what a worker tells others, with connections of its own."""
    context = create_context(service.factory.context.config)
    await context.database.open()
    factory = Factory(context)
    try:
        async with Outgoing(factory).running():
            yield factory
    finally:
        await context.database.close()
        await context.http.aclose()


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry, give up leases and come back after failures in parts of a second."""
    monkeypatch.setattr("payrec.domain.webhooks.DELAYS", (timedelta(milliseconds=50),) * 9)
    monkeypatch.setattr("payrec.domain.webhooks.WEBHOOK_PAUSE_MIN", timedelta(milliseconds=50))
    monkeypatch.setattr("payrec.domain.webhooks.WEBHOOK_PAUSE_MAX", timedelta(milliseconds=100))
    delivery = "payrec.services.webhook_delivery.WEBHOOK_"
    monkeypatch.setattr(f"{delivery}LEASE", timedelta(seconds=1.5))
    monkeypatch.setattr(f"{delivery}LEASE_RENEWED_SECONDS", 0.3)
    monkeypatch.setattr(f"{delivery}LEASE_TRUSTED_SECONDS", 1.0)
    monkeypatch.setattr("payrec.jobs.outgoing.EVENT_FAILURE_PAUSE_SECONDS", 0.1)


def shuffled(resources: list[UUID], times: int, *, seed: int) -> list[UUID]:
    """Return each resource so many times, in an order of chance."""
    found = resources * times
    random.Random(seed).shuffle(found)  # noqa: S311 - the same each time, no secret
    return found


def arrived(received: list[Received], accepted: set[int]) -> dict[str, list[str]]:
    """Return, by resource, the ids in the order of their first arrival; ``accepted`` are the places of good answers."""
    found: dict[str, list[str]] = {}
    for place_, came in enumerate(received):
        if place_ in accepted and came.id not in found.setdefault(came.resource, []):
            found[came.resource].append(came.id)
    return found


async def in_feed(where: Place) -> dict[str, list[str]]:
    """Return, by resource, the ids of events in the order of the feed."""
    found: dict[str, list[str]] = {}
    query = "SELECT id::text, resource_id::text AS resource FROM event WHERE type = %s ORDER BY position"
    for row in await where.sql(query, TYPE):
        found.setdefault(row["resource"], []).append(row["id"])
    return found


async def pause(seconds: float) -> None:
    """Let time pass in which something must not happen."""
    await asyncio.sleep(seconds)
