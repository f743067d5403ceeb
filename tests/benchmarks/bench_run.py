"""Time a matching run from PostgreSQL to PostgreSQL, as the job does it: ``bench_run.py [rows] [--auto] [--twice]``.

Every item is paid by one line that quotes its reference, so the figures are those of reading, joining and writing.
The server is a real one with its durable settings (fsync and synchronous commit on); its settings are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import structlog

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.jobs.runner import JobRunner
from payrec.storage.jobs import JobStore
from support.postgres import TEMPLATE, cloned, migrate
from support.service import Service, make_config, running
from support.tenant_data import load, scope_of_tenant

SETTINGS_NAMED = "server_version shared_buffers max_wal_size fsync synchronous_commit full_page_writes jit work_mem"
PING_SECONDS = 0.05


@contextmanager
def durable_server() -> Iterator[EmbeddedPostgres]:
    """Start a server that keeps what it commits, in a directory that goes away."""
    with tempfile.TemporaryDirectory(prefix="payrec-bench-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "pg")
        postgres.start()
        try:
            migrate(postgres.database(TEMPLATE))
            yield postgres
        finally:
            postgres.stop()


def expected_rows(count: int) -> Iterator[dict[str, Any]]:
    """Return items with a reference each."""
    dice = random.Random(1)  # noqa: S311 - data, not a secret
    first = date(2026, 1, 1)
    for number in range(count):
        yield {
            "amount_minor": dice.randint(100, 5_000_000),
            "due_date": first + timedelta(days=number % 90),
            "currency": "EUR",
            "reference": f"INV-2026-{number:07}",
            "counterparty_name": f"Customer {number % (count // 8 + 1)} GmbH",
        }


def incoming_rows(count: int) -> Iterator[dict[str, Any]]:
    """Return for each item, in another order, the line that pays it."""
    dice = random.Random(2)  # noqa: S311 - data, not a secret
    items = list(expected_rows(count))
    dice.shuffle(items)
    for number, item in enumerate(items):
        yield {
            "amount_minor": item["amount_minor"],
            "booking_date": item["due_date"] + timedelta(days=dice.randint(-3, 20)),
            "currency": "EUR",
            "remittance": f"Rechnung {item['reference']} vielen Dank {number:06}",
            "counterparty_name": item["counterparty_name"].upper(),
        }


async def timed_run(service: Service, scope: TenantScope) -> dict[str, Any]:
    """Queue a run and do it as a worker does; return its log line, the whole time and the loop's longest silence."""
    context = service.factory.context
    job_id = context.ids.new()
    now = datetime.now(UTC)
    async with context.database.tenant(scope) as connection:
        await JobStore(connection).add(
            {
                "id": job_id,
                "created_at": now,
                "updated_at": now,
                "kind": "match",
                "status": "queued",
                "actor": "system:bench",
                "request_id": "bench",
                "params": {},
            }
        )
    silences = [0.0]

    async def ping() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(PING_SECONDS)
            silences.append(time.perf_counter() - before - PING_SECONDS)

    pinging = asyncio.create_task(ping())
    with structlog.testing.capture_logs() as lines:
        start = time.perf_counter()
        await JobRunner(service.factory).drain(scope.environment_id, "match")
        total = time.perf_counter() - start
    pinging.cancel()
    [line] = [x for x in lines if x["event"] == "match_run.finished"]
    return {**line, "total": total, "silence": max(silences)}


async def bench(database: EmbeddedDatabase, rows: int, *, auto: bool, twice: bool) -> None:
    """Load, run, print."""
    out = sys.stdout
    async with running(make_config(database), worker=False) as service:
        tenant = await service.tenant("bench", environments=["production"])
        if auto:
            settings = {"matching": {"autoAccept": True}}
            await tenant.request("PATCH", f"/tenants/{tenant.id}/settings", json=settings)
        scope = await scope_of_tenant(service.factory, tenant)
        start = time.perf_counter()
        await load(service.factory, scope, expected=expected_rows(rows), incoming=incoming_rows(rows))
        out.write(f"{rows} expected and {rows} incoming loaded in {time.perf_counter() - start:.1f} s\n")
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("ANALYZE")
            connection.execute("CHECKPOINT")
            named = [f"{n} {connection.execute(f'SHOW {n}').fetchone()[0]}" for n in SETTINGS_NAMED.split()]
        out.write(f"server: {', '.join(named)}\n")
        for _ in range(2 if twice else 1):
            line = await timed_run(service, scope)
            out.write(
                f"total {line['total']:.2f} s: read {line['read_ms'] / 1000:.2f},"
                f" engine {line['engine_ms'] / 1000:.2f}, commit {line['commit_ms'] / 1000:.2f};"
                f" the event loop was silent for {line['silence'] * 1000:.0f} ms at most\n"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    out.write(f"peak {peak} MiB in this process\n")


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=100_000)
    parser.add_argument("--auto", action="store_true", help="accept what is proved at once")
    parser.add_argument("--twice", action="store_true", help="run again over the same proposals")
    given = parser.parse_args()
    with durable_server() as postgres, cloned(postgres) as database:
        asyncio.run(bench(database, given.rows, auto=given.auto, twice=given.twice))


if __name__ == "__main__":
    main()
