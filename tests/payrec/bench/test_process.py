"""The run in a process of its own: what it took, and in one line why it did not end well."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from payrec.bench import process
from payrec.bench.process import Timing, peak_rss_mib, run_in_process
from payrec.bench.store import BenchStore
from payrec.domain.scope import TenantScope
from payrec.errors import PayrecError
from payrec.storage.jobs import JobStore
from support.service import Service, Tenant
from support.tenant_data import load, scope_of_tenant

pytestmark = pytest.mark.anyio

MONEY = {"amount_minor": 12_345, "currency": "EUR"}


async def queued(service: Service, scope: TenantScope, params: dict[str, Any]) -> UUID:
    """Queue a run that no worker is told of, and return its job."""
    context = service.factory.context
    job = {
        "id": context.ids.new(),
        "created_at": context.clock.now(),
        "updated_at": context.clock.now(),
        "kind": "match",
        "status": "queued",
        "actor": "system:test",
        "request_id": "test",
        "params": params,
    }
    async with context.database.tenant(scope) as connection:
        await JobStore(connection).add(job)
    found: UUID = job["id"]
    return found


async def ran(service: Service, scope: TenantScope, params: dict[str, Any]) -> Timing:
    job_id = await queued(service, scope, params)
    return await asyncio.to_thread(run_in_process, service.factory.context.config, scope.environment_id, job_id)


async def links(service: Service, scope: TenantScope) -> int:
    async with service.factory.context.database.tenant(scope, readonly=True) as connection:
        return (await BenchStore(connection).links()).height


async def test_a_run_tells_its_stages_and_what_it_did_to_its_own_tenant_alone(
    service: Service, acme: Tenant, globex: Tenant
) -> None:
    scopes = [await scope_of_tenant(service.factory, tenant) for tenant in (acme, globex)]
    for scope in scopes:
        await load(
            service.factory,
            scope,
            expected=[{**MONEY, "reference": "INV-2026-0001"}],
            incoming=[{**MONEY, "remittance": "INV-2026-0001", "booking_date": date(2026, 1, 2)}],
        )
    timing = await ran(service, scopes[0], {})

    assert timing.seconds["total"] >= sum(timing.seconds[name] for name in ("read", "engine", "commit")) - 0.002
    assert timing.counts["proposed"] == 1
    assert timing.engine_version
    assert timing.peak_rss_mib > 20
    assert [await links(service, scope) for scope in scopes] == [1, 0]


async def test_a_run_that_fails_says_why(service: Service, acme: Tenant) -> None:
    scope = await scope_of_tenant(service.factory, acme, "test")

    with pytest.raises(PayrecError, match=r"^the run ended as failed: "):
        await ran(service, scope, {"incomingFilter": {"nonsense": 1}})


async def test_a_run_that_crashes_says_where(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    tenant = await service.tenant("broken", environments=["production"])
    scope = await scope_of_tenant(service.factory, tenant, "production")
    async with service.factory.context.database.tenant(scope) as connection:
        await connection.execute("DROP TABLE expected_open")

    with pytest.raises(PayrecError, match=r"^the run ended as queued: it crashed$"):
        await ran(service, scope, {})
    assert 'relation "expected_open" does not exist' in capfd.readouterr().err


async def test_the_memory_is_that_of_this_process_and_where_the_kernel_does_not_tell_that_of_its_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = peak_rss_mib()
    monkeypatch.setattr(process, "STATUS_FILE", Path("/nowhere"))

    assert 20 < told < 10_000
    assert 20 < peak_rss_mib() < 10_000
