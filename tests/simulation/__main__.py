"""Let many seeds happen: ``PYTHONPATH=tests python -m simulation --seeds 0-1000000``."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import warnings
from contextlib import ExitStack

from simulation.process import work
from support.postgres import cloned, server


def seeds_of(text: str) -> range:
    """Return a range of seeds, ``FIRST-END`` (the end is not of it), or one seed."""
    first, _, end = text.partition("-")
    return range(int(first), int(end) if end else int(first) + 1)


def main() -> int:
    """Spread the seeds over processes; each has a database of its own."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, required=True, help="FIRST-END, or one seed")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no seed begins")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    count = min(given.processes, len(given.seeds))
    spawned = multiprocessing.get_context("spawn")
    with server() as postgres, ExitStack() as databases:
        running = []
        for part in range(count):
            database = databases.enter_context(cloned(postgres))
            seeds = given.seeds[part::count]
            running.append(spawned.Process(target=work, args=(database, seeds, given.seconds)))
        for process in running:
            process.start()
        for process in running:
            process.join()
    return int(any(process.exitcode for process in running))


if __name__ == "__main__":
    sys.exit(main())
