"""The rounds of the clock through all tenant environments: what each takes, and what the database keeps of them.

    python tests/benchmarks/bench_rounds.py [--environments 400]

Each environment has a match, and nothing is due in it. Each round happens twice, since what a backend knows of an
environment it need not look up again; told are the seconds of the second one, and the memory that backends have of
their own afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from bench_migrations import make_clients
from bench_one_line import Spent, backends

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.jobs.app import PERIODIC
from payrec.logs import configure_logging
from support.clock_tasks import clock_tasks
from support.postgres import cloned, server
from support.service import make_config, running

MIB = 2**20


def memory(database: EmbeddedDatabase) -> list[float]:
    """Return the MiB that each backend has of its own."""
    return [psutil.Process(pid).memory_full_info().uss / MIB for pid in backends(database)]


async def bench(database: EmbeddedDatabase, environments: int) -> None:
    """Make environments, go through them as a worker that has just begun, and print what that took."""
    config = make_config(database)
    async with running(config, worker=False) as service:
        await make_clients(service, environments)
    async with running(config, worker=False) as service:
        tasks = clock_tasks(service.factory)
        print(f"{environments} environments; of a second round:")
        for name in PERIODIC:
            for _ in range(2):
                spent = Spent(backends=dict.fromkeys(backends(database), 0))
                began = asyncio.get_running_loop().time()
                with spent.part(name):
                    await tasks[name]()
                seconds = asyncio.get_running_loop().time() - began
            worker, backend = spent.parts[name]
            kept = " and ".join(f"{one:.0f}" for one in memory(database))
            print(f"{name:27} {seconds:6.2f} s, worker {worker:5.2f}, database {backend:5.2f}; backends {kept} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=400)
    given = parser.parse_args()
    configure_logging(level="warning", form="json")
    with server() as postgres, cloned(postgres) as made:
        asyncio.run(bench(made, given.environments))
