"""How many threads there are decides how long a run takes, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.matching_hostile import ORDINARY, WORDY

ROWS = 6_000
"""Enough that what is grouped and joined is divided among threads."""
TOLD = """
import hashlib, sys
sys.path[:0] = sys.argv[3:]
import polars as pl
from payrec.domain.matching.engine import propose
from payrec.domain.matching.rules import MatchingRules
from support.matching_hostile import KINDS
result = propose(*KINDS[sys.argv[1]].frames(int(sys.argv[2])), MatchingRules(auto_accept=True))
frames = (result.matches, result.legs, result.adjustments, result.alternatives, result.open_expected,
          result.open_incoming, result.ruled)
print(pl.thread_pool_size(), result.matches.height > 0 or result.open_incoming.height > 0,
      *(hashlib.sha256(frame.write_json().encode()).hexdigest() for frame in frames))
"""


def told(kind: str, threads: int) -> list[str]:
    """Return how many threads there were, whether anything was said, and what was, of a process of its own."""
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", TOLD, kind, str(ROWS), *sys.path],
        env={**os.environ, "POLARS_MAX_THREADS": str(threads)},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    "kind", [ORDINARY, WORDY, "every line pays the same fifty", "every line quotes the same batches"]
)
def test_as_many_threads_as_there_may_be_change_nothing(kind: str) -> None:
    (one, *alone), (several, *together) = told(kind, 1), told(kind, 5)
    assert (one, several, alone[0]) == ("1", "5", "True")
    assert together == alone
