"""Let many seeds happen: ``PYTHONPATH=tests python -m simulation --seeds 0-1000000``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import warnings
from typing import Final

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.logs import configure_logging
from simulation.seeds import explored
from support.postgres import cloned, server

TOLD_EVERY: Final = 100
"""Seeds after which each process says how far it is."""


def seeds_of(text: str) -> range:
    """Return a range of seeds, ``FIRST-END`` (the end is not of it), or one seed."""
    first, _, end = text.partition("-")
    return range(int(first), int(end) if end else int(first) + 1)


def work(database: EmbeddedDatabase, seeds: range) -> None:
    """Let seeds happen; a finding ends the process."""
    configure_logging(level="critical", form="json")
    began = time.monotonic()

    def tell(seed: int) -> None:
        count = (seed - seeds.start) // seeds.step + 1
        if count % TOLD_EVERY == 0:
            print(f"up to seed {seed}: {count / (time.monotonic() - began):.1f} seeds a second", flush=True)  # noqa: T201

    finding = explored(database, seeds, tell=tell)
    if finding is not None:
        print(finding, flush=True)  # noqa: T201
        sys.exit(1)


def main() -> int:
    """Spread the seeds over processes; each has a database of its own."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, required=True, help="FIRST-END, or one seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    count = min(given.processes, len(given.seeds))
    spawned = multiprocessing.get_context("spawn")
    with server() as postgres:
        databases = [cloned(postgres) for _ in range(count)]
        made = [one.__enter__() for one in databases]
        parts = [given.seeds[part::count] for part in range(count)]
        running = [spawned.Process(target=work, args=pair) for pair in zip(made, parts, strict=True)]
        for process in running:
            process.start()
        for process in running:
            process.join()
    return int(any(process.exitcode for process in running))


if __name__ == "__main__":
    sys.exit(main())
