"""What a worker takes a run for before it begins it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from payrec.constants import KEYS_VERSION
from payrec.constants.jobs import JOB_BYTES_FIXED, MATCH_RUN_BYTES_PER_ROW
from payrec.domain.scope import TenantScope
from payrec.services import job_sizes
from payrec.services.job_sizes import JobSize, Lane, size_of
from payrec.storage.database import Database
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

ITEMS = 20_000
STORE = f"""
    INSERT INTO expected_open (transaction_id, open_minor, total_minor, tie_key, direction, currency, keys_version)
    SELECT gen_random_uuid(), n, n, n, 1, 'EUR', {KEYS_VERSION} FROM generate_series(1, %s) n
"""  # noqa: S608 - our own number


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def sized(database: Database, scope: TenantScope) -> JobSize:
    async with database.tenant(scope, readonly=True) as connection:
        return await size_of(connection, {"kind": "match"})


def rows_of(size: JobSize) -> int:
    rows, rest = divmod(size.memory_bytes - JOB_BYTES_FIXED, MATCH_RUN_BYTES_PER_ROW)
    assert rest == 0
    return rows


async def test_a_run_is_counted_up_to_a_limit_and_then_told_by_the_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = world.service.factory.context.database
    await world.receive()
    # Nobody else looks at the table: autovacuum counts what is visible, in pages of which some are being filled.
    await world.sql("ALTER TABLE expected_open SET (autovacuum_enabled = off)")
    await world.sql(STORE, ITEMS)
    counted = await sized(database, world.scope)
    assert (rows_of(counted), counted.lane) == (ITEMS + 1, Lane.SMALL)

    # Beyond the limit too, as long as nobody has looked at the table.
    monkeypatch.setattr(job_sizes, "JOB_SMALL_ROWS_MAX", ITEMS // 2)
    large = await sized(database, world.scope)
    assert (rows_of(large), large.lane) == (ITEMS + 1, Lane.LARGE)

    await world.sql("ANALYZE expected_open")
    assert rows_of(await sized(database, world.scope)) == pytest.approx(ITEMS, rel=0.1)
    await world.sql(STORE, ITEMS)
    assert rows_of(await sized(database, world.scope)) == pytest.approx(2 * ITEMS, rel=0.3)

    assert rows_of(await sized(database, world.bystander_scope)) == 1
