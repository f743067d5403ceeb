"""Time an import of decisions over HTTP, and what is learned of them: ``bench_match_imports.py [decisions]``.

As many items and lines are stored, and as many again that stay open; then a file says which item each line has paid. It
is timed from the first byte sent to the finished job of a worker in a process of its own, on a server with its durable
settings. Then the job is timed that computes what the decisions teach. Beside the time, the processor time is printed
that the worker and the database took: it says more than the time does where other programs are busy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_decisions import database_seconds
from bench_run import durable_server, expected_rows, incoming_rows

from payrec.embedded.postgres import EmbeddedDatabase
from support.postgres import cloned
from support.service import Tenant, make_config, running
from support.tenant_data import load, scope_of_tenant
from support.worker_process import worker_process

WARM_UP = 2_000
"""Decisions that are not counted."""


def decisions(lines: list[dict[str, Any]], first: int, end: int) -> bytes:
    """Return a file of decisions about these lines, which quote the items' numbers; rows are named by their numbers."""
    said = {"decidedAt": "2026-06-01T08:00:00Z", "decidedBy": "a person", "reviewed": True}
    records = (
        {
            "expectedExternalId": str(int(line["remittance"].split()[1].rsplit("-", 1)[1]) + 1),
            "incomingExternalId": str(number + 1),
            "amountMinor": line["amount_minor"],
            **said,
        }
        for number, line in enumerate(lines[first:end], start=first)
    )
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far (Linux, proc(5))."""
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


async def imported(tenant: Tenant, data: bytes) -> tuple[float, dict[str, Any]]:
    """Return the seconds from the first byte to the finished import, and what became of its records."""
    began = time.perf_counter()
    answer = await tenant.post("/matches/import", files={"file": ("decisions.jsonl", data)}, timeout=300.0)
    assert answer.status_code in {201, 202}, answer.text
    found = answer.json()
    while found["status"] == "processing":
        await asyncio.sleep(0.1)
        found = (await tenant.get(f"/imports/{found['id']}")).json()
    return time.perf_counter() - began, found["counts"]


async def bench(database: EmbeddedDatabase, rows: int) -> None:
    """Load, import, learn, print."""
    config = make_config(database)
    async with running(config, worker=False) as service:
        tenant = await service.tenant("bench", environments=["production"])
        scope = await scope_of_tenant(service.factory, tenant)
        lines = list(incoming_rows(2 * rows))
        await load(service.factory, scope, expected=expected_rows(2 * rows), incoming=iter(lines))
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
        told = database_seconds(database)
        async with worker_process(config, lease=15.0) as worker:

            def times() -> tuple[float, float]:
                return processor_seconds(worker.pid), told()

            for name, first, end in (("warm-up", 0, WARM_UP), ("import", WARM_UP, WARM_UP + rows)):
                before = times()
                seconds, counts = await imported(tenant, decisions(lines, first, end))
                show(name, seconds, before, times())
                print(counts)
                before, began = times(), time.perf_counter()
                await learned(tenant)
                show("what is learned of it", time.perf_counter() - began, before, times())


async def learned(tenant: Tenant) -> None:
    """Wait until nobody has to learn any more."""
    found = await jobs(tenant)
    while any(job["status"] in {"queued", "running"} for job in found):
        await asyncio.sleep(0.1)
        found = await jobs(tenant)
    assert {job["status"] for job in found} == {"succeeded"}


async def jobs(tenant: Tenant) -> list[dict[str, Any]]:
    """Return the jobs that learn."""
    found: list[dict[str, Any]] = (await tenant.get("/jobs", params={"kind": "learn"})).json()["data"]
    return found


def show(name: str, seconds: float, before: tuple[float, float], after: tuple[float, float]) -> None:
    """Print what something took."""
    python, postgres = (now - then for now, then in zip(after, before, strict=True))
    print(f"{name}: {seconds:.2f} s; processor: worker {python:.2f} s, database {postgres:.2f} s")


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("decisions", type=int, nargs="?", default=100_000)
    given = parser.parse_args()
    with durable_server() as postgres, cloned(postgres) as database:
        asyncio.run(bench(database, given.decisions))


if __name__ == "__main__":
    main()
