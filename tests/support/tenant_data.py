"""Rows straight into a tenant environment, for tests and benchmarks that are about what happens afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.bench.load import Stamp, render_expected, render_incoming
from payrec.bench.store import BenchStore
from payrec.domain.scope import TenantScope
from payrec.factory import Factory
from payrec.storage.tenants import TenantStore, scope_of
from support.service import Tenant


async def scope_of_tenant(factory: Factory, tenant: Tenant, environment: str = "production") -> TenantScope:
    """Return the scope of a tenant's environment, as the registry has it."""
    async with factory.context.database.control(readonly=True) as connection:
        rows = await TenantStore(connection).scopes(UUID(tenant.id))
    return scope_of(next(row for row in rows if row["environment"] == environment))


def frame_of(rows: Iterable[dict[str, Any]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return rows of a data set, numbered where they have no id; what a row does not say is no value."""
    numbered = [{"id": number, **row} for number, row in enumerate(rows, start=1)]
    return pl.DataFrame(numbered, schema=dict(schema), orient="row")


async def load(
    factory: Factory, scope: TenantScope, *, expected: Iterable[dict[str, Any]], incoming: Iterable[dict[str, Any]]
) -> None:
    """Copy rows of a data set, and what matching reads of them, into an environment."""
    ids = factory.context.ids
    stamp = Stamp(at=datetime.now(UTC), change_id=ids.new())
    with tempfile.TemporaryDirectory(prefix="payrec-rows-") as name:
        folder = Path(name)
        items = render_expected(frame_of(expected, EXPECTED_SCHEMA), folder / "expected", ids=ids, stamp=stamp)
        lines = render_incoming(frame_of(incoming, INCOMING_SCHEMA), folder / "incoming", ids=ids, stamp=stamp)
        async with factory.context.database.tenant(scope) as connection:
            await BenchStore(connection).copy([items, lines])
