"""Large runs started at once, in one worker with little memory: its peak, and how long small runs of others wait.

python tests/benchmarks/bench_admission.py --rows 400000 --runs 6 --memory-mib 4096
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from statistics import median
from typing import Final

import psycopg
from bench_run import durable_server, expected_rows, incoming_rows
from psycopg import sql

sys.path.insert(0, str(Path(__file__).parents[1]))

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.storage.jobs import LEASE
from support.attempts import queue
from support.postgres import cloned
from support.service import make_config, running
from support.tenant_data import load, scope_of_tenant
from support.worker_process import worker_process

TABLES: Final = ("expected_transaction", "expected_open", "incoming_transaction", "incoming_open")
SMALL_ROWS: Final = 1_000
MEBIBYTE: Final = 1024 * 1024


def peak_mib(pid: int) -> int:
    """Return the most memory that a process had at once."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


async def bench(database: EmbeddedDatabase, *, rows: int, runs: int, memory_bytes: int) -> None:
    """Load, start everything at once, print."""
    config = make_config(database)
    async with running(config, worker=False) as service:
        tenants = [await service.tenant(f"large-{n}", environments=["production"]) for n in range(runs)]
        scopes = [await scope_of_tenant(service.factory, tenant) for tenant in tenants]
        small = await service.tenant("small", environments=["production"])
        small_scope = await scope_of_tenant(service.factory, small)
        await load(service.factory, scopes[0], expected=expected_rows(rows), incoming=incoming_rows(rows))
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            for scope in scopes[1:]:
                for table in TABLES:
                    names = [sql.Identifier(s.schema_name, table) for s in (scope, scopes[0])]
                    connection.execute(sql.SQL("INSERT INTO {} SELECT * FROM {}").format(*names))
            connection.execute("VACUUM ANALYZE")
        await load(service.factory, small_scope, expected=expected_rows(SMALL_ROWS), incoming=incoming_rows(SMALL_ROWS))
        async with worker_process(config, lease=LEASE.total_seconds(), memory_bytes=memory_bytes) as process:
            before = peak_mib(process.pid)
            began = time.perf_counter()
            jobs = [(t, await queue(service.factory.context, s, "match")) for t, s in zip(tenants, scopes, strict=True)]
            waits: list[float] = []
            most_at_once = 0
            while True:
                states = [(await t.get(f"/jobs/{job_id}")).json() for t, job_id in jobs]
                most_at_once = max(most_at_once, sum(s["status"] == "running" for s in states))
                if all(s["status"] not in {"queued", "running"} for s in states):
                    break
                asked = time.perf_counter()
                await small.post("/matches/match", {"wait": 60})
                waits.append(time.perf_counter() - asked)
                await asyncio.sleep(1)
            seconds = time.perf_counter() - began
            peak = peak_mib(process.pid)
        ended = sorted((s["status"], s["attempts"]) for s in states)
        sys.stdout.write(
            f"{runs} runs of {rows} x {rows}: {ended}\n"
            f"{seconds:.0f} s, {most_at_once} at once at most, worker {before} MiB idle, peak {peak} MiB"
            f" of {memory_bytes // MEBIBYTE} MiB\n"
            f"{len(waits)} small runs meanwhile: {max(waits):.2f} s at most, median {median(waits):.2f} s\n"
        )


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--memory-mib", type=int, default=1_280)
    given = parser.parse_args()
    with durable_server() as postgres, cloned(postgres) as database:
        asyncio.run(bench(database, rows=given.rows, runs=given.runs, memory_bytes=given.memory_mib * MEBIBYTE))


if __name__ == "__main__":
    main()
