"""A process of those that share the seeds; by itself, because what is run as a package cannot be imported again."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from typing import Final

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.logs import configure_logging
from simulation.seeds import explored

TOLD_EVERY: Final = 100
"""Seeds after which each process says how far it is."""


def work(database: EmbeddedDatabase, seeds: range, seconds: float) -> None:
    """Let seeds happen, and begin none when so many seconds are over; a finding ends the process."""
    configure_logging(level="critical", form="json")
    began, count = 0.0, 0

    def in_time() -> Iterator[int]:
        nonlocal began
        began = time.monotonic()
        yield from itertools.takewhile(lambda _seed: time.monotonic() - began < seconds, seeds)

    def say() -> None:
        print(f"{count} of {seeds}, {count / (time.monotonic() - began):.1f} a second", flush=True)  # noqa: T201

    def tell(_seed: int) -> None:
        nonlocal count
        count += 1
        if count % TOLD_EVERY == 0:
            say()

    finding = explored(database, in_time(), tell=tell)
    if finding is not None:
        print(finding, flush=True)  # noqa: T201
        sys.exit(1)
    say()
