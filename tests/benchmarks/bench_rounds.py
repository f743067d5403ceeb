"""The rounds of the clock through all tenant environments: what each takes, and what the database keeps of them.

    python tests/benchmarks/bench_rounds.py [--environments 400]

Nothing is due in any of them. Told are the seconds of each round, on a connection that comes past all of them for the
first time, as a worker's does, and the memory that its backend has afterwards; and that of backends of requests, when a
match was made by hand in each environment.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Collection
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from bench_migrations import ENVIRONMENTS, make_clients
from bench_one_line import Spent, backends, worker_seconds

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.jobs.app import PERIODIC
from payrec.logs import configure_logging
from support.clock_tasks import clock_tasks
from support.postgres import cloned, server
from support.service import make_config, running

MIB = 2**20


def memory(pids: Collection[int]) -> str:
    """Return the MiB that each backend has of its own."""
    return " and ".join(f"{psutil.Process(pid).memory_full_info().uss / MIB:.0f}" for pid in pids) or "no"


async def bench(database: EmbeddedDatabase, environments: int) -> None:
    """Make environments, go through them as a worker does, and print what that took."""
    config = make_config(database)
    async with running(config, worker=False) as service:
        clients = await make_clients(service, environments)
        # Whatever is made has backends forget what they know.
        for tenant in clients.tenants:
            for environment in ENVIRONMENTS:
                await clients.visit(tenant, environment)
        print(f"{environments} environments, a match in each: backends {memory(backends(database))} MiB")
    for name in PERIODIC:
        async with running(config, worker=False) as service:
            others = {*backends(database)}
            loop, worker = asyncio.get_running_loop(), worker_seconds()
            began = loop.time()
            await clock_tasks(service.factory)[name]()
            seconds, worker = loop.time() - began, worker_seconds() - worker
            own = [pid for pid in backends(database) if pid not in others]
            server = Spent(backends=dict.fromkeys(own, 0)).server_seconds()
            took = f"{seconds:6.2f} s, worker {worker:5.2f}, database {server:5.2f}"
            print(f"{name:27} {took}; its backend {memory(own)} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=400)
    given = parser.parse_args()
    configure_logging(level="warning", form="json")
    with server() as postgres, cloned(postgres) as made:
        asyncio.run(bench(made, given.environments))
