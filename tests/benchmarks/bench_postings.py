"""Time postings: ``bench_postings.py [rows]`` numbers those of a run and reads them over HTTP, as the books would.

So many items are accepted by a run at once. Then their events get their places, postings are numbered, and one client
reads all of them in pages of 5,000. The server is a real one with its durable settings. Beside the time, the processor
time that the service (with its client) and the database took is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_decisions import database_seconds
from bench_run import durable_server, expected_rows, incoming_rows, timed_run

from payrec.commands.serving import keep_what_is_there
from payrec.constants.postings import POSTINGS_PAGE_MAX
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.logs import configure_logging
from payrec.storage.posting_sealing import PostingSealingStore
from support.postgres import cloned
from support.service import Tenant, make_config, running
from support.tenant_data import load, scope_of_tenant

READINGS = 3


async def timed(name: str, work: Callable[[], Awaitable[int]], told: Callable[[], float]) -> None:
    """Do something to so many rows, and print what it took."""
    before, start = (time.process_time(), told()), time.perf_counter()
    count = await work()
    took = time.perf_counter() - start
    service, database = (now - then for now, then in zip((time.process_time(), told()), before, strict=True))
    sys.stdout.write(
        f"{name}: {count} in {took:.2f} s, {count / took:,.0f} a second;"
        f" processor: service {service:.2f} s, database {database:.2f} s\n"
    )


async def read(tenant: Tenant) -> int:
    """Read all postings, and see to it that none is missing."""
    after = 0
    while True:
        answer = await tenant.get("/postings", params={"after": after, "limit": POSTINGS_PAGE_MAX})
        page = answer.json()
        if [posting["sequence"] for posting in page["data"]] != list(range(after + 1, after + len(page["data"]) + 1)):
            raise AssertionError("there is a gap")
        after += len(page["data"])
        if not page["hasMore"]:
            return after


async def bench(database: EmbeddedDatabase, rows: int) -> None:
    """Load, accept, number, read, print."""
    async with running(make_config(database), worker=False) as service:
        tenant = await service.tenant("bench", environments=["production"])
        settings = {"matching": {"autoAccept": True}}
        await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json=settings)
        scope = await scope_of_tenant(service.factory, tenant)
        await load(service.factory, scope, expected=expected_rows(rows), incoming=incoming_rows(rows))
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        await timed_run(service, scope)
        configure_logging(level="warning", form="json")
        keep_what_is_there()
        told = database_seconds(database)
        upkeep = service.factory.upkeep
        sealer, postings = upkeep.create_sealer(), upkeep.create_posting_sealer()

        async def seal() -> int:
            return await sealer.seal(scope) or 0

        async def number() -> int:
            while not await postings.number(scope):
                pass
            async with service.factory.context.database.tenant(scope, readonly=True) as reading:
                return (await PostingSealingStore(reading).feed()).sequence

        await timed("sealed", seal, told)
        await timed("numbered", number, told)
        for _ in range(READINGS):
            await timed("read", lambda: read(tenant), told)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=100_000)
    given = parser.parse_args()
    with durable_server() as postgres, cloned(postgres) as database:
        asyncio.run(bench(database, given.rows))


if __name__ == "__main__":
    main()
