"""Seeds of the simulation: whatever order things happen in, whoever dies where, all that must be true is.

And what keeps it true is taken away, one guard after the other: each time a seed finds it.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from payrec.domain.principal import Principal
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.services.tenant_resource_keys import TenantResourceKeys
from payrec.services.work import Unit
from payrec.storage import database as doors
from payrec.storage import sealing
from payrec.storage.idempotency import IdempotencyStore
from payrec.storage.jobs import Ended, JobStore
from simulation.estate import START, estate
from simulation.seeds import explored, run_seed
from support.postgres import cloned

SEEDS = int(os.environ.get("PAYREC_SIMULATION_SEEDS", "50"))
"""Seeds in all."""
PARTS = 4
"""Databases that they are spread over, so that several processes can share them."""
SEEDS_OF_A_GUARD = 150
"""Within how many seeds it must be found that a guard is not there."""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_order_and_no_death_breaks_anything(postgres: EmbeddedPostgres, part: int) -> None:
    with cloned(postgres) as database:
        finding = explored(database, range(part, SEEDS, PARTS))
    assert finding is None, str(finding)


def test_the_command_spreads_seeds_over_processes_and_ends_in_time() -> None:
    command = [sys.executable, "-m", "simulation", *["--processes", "2", "--seeds", "0-1000000", "--seconds", "1"]]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)  # noqa: S603
    told = [re.match(r"(\d+) of range\((\d), 1000000, 2\)", line) for line in done.stdout.splitlines()]
    counts = {found[2]: int(found[1]) for found in told if found}
    assert counts.keys() == {"0", "1"}
    assert all(counts.values())


def test_a_seed_happens_the_same_way_again(postgres: EmbeddedPostgres) -> None:
    async def traces(seeds: tuple[int, ...]) -> list[list[str]]:
        async with estate(made) as shared:
            return [(await run_seed(shared, seed))[1] for seed in seeds]

    with cloned(postgres) as made:
        first, second, again = asyncio.run(traces((3, 4, 3)))
    assert first == again != second


async def _nothing(*_: Any, **__: Any) -> None:
    return None


async def _true(*_: Any, **__: Any) -> bool:
    return True


async def _finished(*_: Any, **__: Any) -> Ended:
    return Ended(repeat_requested=False)


def _at_once(patch: pytest.MonkeyPatch) -> None:
    promote = TenantResourceKeys.promote

    async def promoted(self: Any, *given: Any, retire_until: Any) -> None:
        await promote(self, *given, retire_until=min(retire_until, START - timedelta(days=1)))

    patch.setattr(TenantResourceKeys, "promote", promoted)


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    begin, known = doors.beginning, {}

    def begins(role: str, search_path: str, **more: Any) -> bytes:
        if not search_path.endswith("_production"):
            return begin(role, search_path, **more)
        return known.setdefault(tuple(sorted(more.items())), begin(role, search_path, **more))

    begins.__wrapped__ = begin.__wrapped__  # type: ignore[attr-defined]
    patch.setattr(doors, "beginning", begins)


GUARDS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no key of a request is claimed": lambda p: p.setattr(IdempotencyStore, "claim", _nothing),
    "no answer is kept": lambda p: p.setattr(Unit, "save_answer", _nothing),
    "events are sealed backwards": lambda p: p.setattr(
        sealing,
        "_SEAL",
        sealing._SEAL.replace(b"ORDER BY t.sequence, r.ordinal", b"ORDER BY t.sequence DESC, r.ordinal"),
    ),
    "several seal at once": lambda p: p.setattr(sealing.SealingStore, "hold", _true),
    "who has lost a job finishes it": lambda p: p.setattr(JobStore, "finish", _finished),
    "a key has no overlap": _at_once,
    "the door remembers somebody else's schema": _forgetful,
    "a key that takes another's place is somebody else": lambda p: p.setattr(
        Principal, "repeats_as", property(lambda self: self.actor)
    ),
}
"""What keeps things true, and how it is taken away."""


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_that_is_gone_is_found(postgres: EmbeddedPostgres, guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with cloned(postgres) as database:
        finding = explored(database, range(SEEDS_OF_A_GUARD), broken=lambda: GUARDS[guard](monkeypatch))
    assert finding is not None
    print(f"\n{guard}: seed {finding.seed}, {finding.what[:200]}")  # noqa: T201 - shown by -s
