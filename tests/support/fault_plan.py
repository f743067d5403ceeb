"""What fails when: drawn by a seed, so that the same seed and duration have the same plan."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Final

SERVES: Final = ("serve-1", "serve-2")
WORKERS: Final = ("worker-1", "worker-2")
PROCESSES: Final = (*SERVES, *WORKERS, "pgbouncer")

KINDS: Final = {
    "kill": 6, "backend": 2, "crash": 1, "freeze": 2, "slow": 2, "disk": 1, "partition": 2, "cut": 2, "latency": 2,
    "clock": 2, "storm": 1,
}  # fmt: skip
"""Kinds of faults, and how often each is drawn.

``kill`` is kill -9 of a process; ``backend`` the same of one of PostgreSQL's, which then starts anew; ``crash`` an
immediate stop of PostgreSQL; ``freeze`` stops its processes and lets them go on; ``slow`` lets them run a quarter of
the time; ``disk`` fills its disk; ``partition`` takes the link of a network namespace down; ``cut`` ends the
connections of a service to the database and refuses new ones; ``latency`` delays what goes over them; ``clock`` sets
the clock of processes; ``storm`` opens 500 connections.
"""

DATABASE: Final = frozenset({"backend", "crash", "freeze", "slow", "disk"})
"""Those of PostgreSQL itself, of which one is there at a time."""

CLOCK_STEPS: Final = (-7_200.0, -600.0, -30.0, 30.0, 600.0, 7_200.0)
"""Seconds by which a clock is set."""

FIRST_SECONDS: Final = 3.0
QUIET_SECONDS: Final = 5.0
"""At the end nothing new fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that fails."""

    at: float
    """Seconds after the clients began."""
    kind: str
    target: str = ""
    seconds: float
    """How long it lasts; for a process that is killed, until it is started again."""
    step: float = 0.0
    """Seconds by which a clock is wrong."""


def planned(seed: int, seconds: float, kinds: Collection[str] = tuple(KINDS)) -> list[Fault]:
    """Return the faults of so many seconds, each kind once before any by chance."""
    chance = Random(seed)  # noqa: S311 - a test's own
    first = sorted(kinds)
    chance.shuffle(first)
    found: list[Fault] = []
    at = FIRST_SECONDS
    while at < seconds - QUIET_SECONDS:
        kind = first.pop() if first else chance.choices(sorted(kinds), [KINDS[k] for k in sorted(kinds)])[0]
        found.append(
            Fault(
                at=round(at, 2),
                kind=kind,
                target=chance.choice(PROCESSES) if kind == "kill" else "",
                seconds=round(chance.uniform(0.1, 3.0) if kind == "kill" else chance.uniform(1.0, 6.0), 2),
                step=chance.choice(CLOCK_STEPS) if kind == "clock" else 0.0,
            )
        )
        at += chance.uniform(1.0, 5.0)
    return found
