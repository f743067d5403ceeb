"""Time the matching engine on data made to match everything with everything, beside ordinary data of the same size.

Run as ``python tests/benchmarks/bench_hostile.py [--rows N] [--repeat K] [--kind TEXT]``. Each kind (see
``tests/support/matching_hostile.py``) runs in a process of its own and prints its seconds, its peak of memory, and both
beside those of ordinary data whose lines have as many keys.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from payrec.bench.process import peak_rss_mib
from payrec.domain.matching.engine import propose
from payrec.domain.matching.rules import MatchingRules
from support.matching_hostile import KINDS, ORDINARY, WORDY

_WORDS_MANY = 10
"""Keys of a line from which on a kind is compared with lines of many keys."""


def _measure(kind: str, rows: int, repeat: int) -> dict[str, float]:
    items, lines = KINDS[kind].frames(rows)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = propose(items, lines, MatchingRules(auto_accept=True, auto_accept_min_confidence="high"))
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": min(seconds),
        "mib": peak_rss_mib(),
        "words": float(lines["reference_keys"].list.len().max() or 0),  # type: ignore[arg-type]
        "proposed": result.counts.proposed,
        "auto": result.counts.auto_accepted,
    }


def _in_process(kind: str, rows: int, repeat: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--rows", str(rows), "--repeat", str(repeat), "--only", kind]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603 - ours
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kind", default="", help="only kinds whose name has this text")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(_measure(options.only, options.rows, options.repeat)))
        return
    plain, wordy = (_in_process(kind, options.rows, options.repeat) for kind in (ORDINARY, WORDY))
    print(f"{'kind':50} {'seconds':>8} {'ratio':>6} {'MiB':>6} {'ratio':>6} {'proposed':>9} {'accepted':>9}")
    for kind in KINDS:
        if options.kind not in kind:
            continue
        known = {ORDINARY: plain, WORDY: wordy}
        found = known.get(kind) or _in_process(kind, options.rows, options.repeat)
        beside = wordy if found["words"] >= _WORDS_MANY else plain
        time_ratio, memory_ratio = (found[name] / beside[name] for name in ("seconds", "mib"))
        print(
            f"{kind:50} {found['seconds']:8.2f} {time_ratio:6.2f} {found['mib']:6.0f} {memory_ratio:6.2f} "
            f"{found['proposed']:9,.0f} {found['auto']:9,.0f}"
        )


if __name__ == "__main__":
    main()
