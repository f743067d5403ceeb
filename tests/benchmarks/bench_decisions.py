"""Time decisions over HTTP, one by one and many at once: ``bench_decisions.py [rows] [--decisions N] [--many N]``.

So many items are proposed to the lines that pay them, by a run; then proposals are accepted and rejected one by one by
one client, and ``many`` of them are accepted in one request, three times. The server is a real one with its durable
settings. Beside the time, the processor time that the service (with its client) and the database took is printed: it
says more than the time does where other programs are busy.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_run import durable_server, expected_rows, incoming_rows, timed_run

from payrec.commands.serving import keep_what_is_there
from payrec.embedded.postgres import EmbeddedDatabase
from payrec.logs import configure_logging
from support.postgres import cloned
from support.service import Tenant, make_config, running
from support.tenant_data import load, scope_of_tenant

WARM_UP = 50
"""Decisions that are not counted: connections have prepared their statements by then."""
MANY_TIMES = 3


def database_seconds(database: EmbeddedDatabase) -> Callable[[], float]:
    """Return what tells the processor time of the backends that are connected for the service, and of all that ended.

    What helps a backend to read ends with its statement, and counts for the server that has started it.
    """
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    def told() -> float:
        with psycopg.connect(database.superuser_url) as connection:
            pids = [row[0] for row in connection.execute(query)]
            server = psutil.Process(connection.info.backend_pid).ppid()
        ended = psutil.Process(server).cpu_times()
        total = ended.children_user + ended.children_system
        for pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(psutil.Process(pid).cpu_times()[:2])
        return total

    return told


async def one_by_one(tenant: Tenant, verb: str, ids: list[str], told: Callable[[], float]) -> str:
    """Decide one by one, and return what it took."""
    took: list[float] = []
    before = (time.process_time(), told())
    for number, match_id in enumerate(ids):
        if number == WARM_UP:
            before = (time.process_time(), told())
        start = time.perf_counter()
        answer = await tenant.post(f"/matches/{match_id}/{verb}")
        took.append(time.perf_counter() - start)
        answer.raise_for_status()
    counted = sorted(took[WARM_UP:])
    service, database = (
        (now - then) / len(counted) for now, then in zip((time.process_time(), told()), before, strict=True)
    )
    median, high = counted[len(counted) // 2], counted[len(counted) * 99 // 100]
    return (
        f"{verb}: p50 {median * 1e3:.1f} ms, p99 {high * 1e3:.1f} ms;"
        f" processor: service {service * 1e3:.1f} ms, database {database * 1e3:.1f} ms"
    )


async def at_once(tenant: Tenant, ids: list[str], told: Callable[[], float]) -> str:
    """Accept in one request, and return what it took."""
    before, start = (time.process_time(), told()), time.perf_counter()
    answer = await tenant.post("/matches/accept", {"ids": ids})
    took = time.perf_counter() - start
    service, database = (now - then for now, then in zip((time.process_time(), told()), before, strict=True))
    results: list[dict[str, Any]] = answer.json()["results"]
    right = sum(result["status"] == 200 for result in results)
    return f"{right} accepted at once: {took:.2f} s; processor: service {service:.2f} s, database {database:.2f} s"


async def bench(database: EmbeddedDatabase, rows: int, *, decisions: int, many: int) -> None:
    """Load, propose, decide, print."""
    async with running(make_config(database), worker=False) as service:
        tenant = await service.tenant("bench", environments=["production"])
        scope = await scope_of_tenant(service.factory, tenant)
        await load(service.factory, scope, expected=expected_rows(rows), incoming=incoming_rows(rows))
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        await timed_run(service, scope)
        configure_logging(level="warning", form="json")
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
        async with service.factory.context.database.tenant(scope) as reading:
            found = await (await reading.execute(b"SELECT id FROM match WHERE status = 'proposed'")).fetchall()
        ids = [str(row["id"]) for row in found]
        random.Random(3).shuffle(ids)  # noqa: S311 - no secret
        keep_what_is_there()
        told = database_seconds(database)
        for verb in ("accept", "reject"):
            chosen, ids = ids[: decisions + WARM_UP], ids[decisions + WARM_UP :]
            sys.stdout.write(await one_by_one(tenant, verb, chosen, told) + "\n")
        for _ in range(MANY_TIMES):
            chosen, ids = ids[:many], ids[many:]
            sys.stdout.write(await at_once(tenant, chosen, told) + "\n")


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=100_000)
    parser.add_argument("--decisions", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=10_000)
    given = parser.parse_args()
    with durable_server() as postgres, cloned(postgres) as database:
        asyncio.run(bench(database, given.rows, decisions=given.decisions, many=given.many))


if __name__ == "__main__":
    main()
