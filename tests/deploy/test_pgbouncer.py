"""The service behind PgBouncer in transaction mode: everything works, and nothing of a tenant stays on a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from support.books import LINES, keep_books
from support.installations import Installation
from support.pgbouncer import pgbouncer, program
from support.places import look
from support.service import Service, make_config, running

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(program() is None, reason="no PgBouncer: apt-get install pgbouncer"),
]


@pytest.fixture(scope="module")
def pooled(installed: Installation) -> Iterator[str]:
    with pgbouncer(installed.socket, role="payrec_service", database="payrec") as url:
        yield url


@pytest.fixture(scope="module")
async def service(installed: Installation, pooled: str) -> AsyncIterator[Service]:
    config = make_config(
        installed.database,
        database_url=pooled,
        jobs_database_url=installed.database.url,
        database_pooler="transaction",
    )
    async with running(config) as started:
        yield started


async def test_two_tenants_at_once_each_see_their_own(service: Service) -> None:
    acme, globex = await service.tenant("acme"), await service.tenant("globex")
    await asyncio.gather(keep_books(acme), keep_books(globex))
    answers = await asyncio.gather(
        *(tenant.get("/incoming-transactions", params={"limit": 200}) for tenant in [acme, globex] * 20)
    )
    seen = [{line["id"] for line in answer.json()["data"]} for answer in answers]
    assert all(len(ids) == LINES for ids in seen)
    assert all(ids == seen[place % 2] for place, ids in enumerate(seen))
    assert not seen[0] & seen[1]


async def test_a_connection_that_is_given_back_has_no_role_and_no_path(service: Service, pooled: str) -> None:
    assert (await service.http.get(f"{service.base_url}/healthz")).status_code < 500
    state = "SELECT current_user::text, current_setting('search_path'), current_setting('transaction_read_only')"
    for _ in range(20):
        [(role, path, readonly)] = await look(pooled, state)
        assert (role, path, readonly) == ("payrec_service", '"$user", public', "off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await look(pooled, "SELECT FROM acme_production.job")


async def test_times_are_utc_through_the_pooler_too(pooled: str) -> None:
    async with await psycopg.AsyncConnection.connect(pooled, options="-c timezone=UTC") as connection:
        cursor = await connection.execute("SHOW timezone")
        assert await cursor.fetchone() == ("UTC",)
