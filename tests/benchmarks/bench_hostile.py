"""Time the matching engine on data made to match everything with everything, beside data of the same size.

Run as ``python tests/benchmarks/bench_hostile.py [--rows N] [--repeat K] [--kind TEXT]``. Each kind (see
``tests/support/matching_hostile.py``) runs in a process of its own and prints its seconds beside those of what
``payrec bench matching`` generates, and seconds and peak of memory beside those of lines that all quote their item, and
as many keys.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from payrec.bench.generator import generate
from payrec.bench.process import peak_rss_mib
from payrec.domain.incoming_transactions import day_number
from payrec.domain.matching.engine import propose
from payrec.domain.matching.rules import MatchingRules
from support.matching_frames import Item, Line, expected_frame, incoming_frame, names_frame
from support.matching_hostile import KINDS, ORDINARY, WORDY

_WORDS_MANY = 10
"""Keys of a line from which on a kind is compared with lines of many keys."""

GENERATED = "generated"
_RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")


def _generated(rows: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return both sides of generated data, and the names of all; what only a bank's code tells is left out."""
    data = generate(rows=rows, seed=1, preset="base")
    items = [
        Item(
            id=str(row["id"]), **_common(row), due=day_number(row["due_date"]), reference=row["reference"] or None,
            span=(day_number(row["window_from"]), day_number(row["window_to"])), group=row["batch_id"] or None,
        )
        for row in data.expected.iter_rows(named=True)
    ]  # fmt: skip
    lines = [
        Line(id=str(row["id"]), **_common(row), day=day_number(row["booking_date"]), text=row["remittance"] or None)
        for row in data.incoming.iter_rows(named=True)
        if row["amount_minor"]
    ]
    return expected_frame(items), incoming_frame(lines), names_frame([*items, *lines])


def _common(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "amount": abs(row["amount_minor"]),
        "direction": 1 if row["amount_minor"] > 0 else -1,
        "currency": row["currency"],
        "end_to_end_id": row["end_to_end_id"] or None,
        "name": row["counterparty_name"] or None,
        "iban": row["counterparty_iban"] or None,
    }


def _measure(kind: str, rows: int, repeat: int) -> dict[str, float]:
    items, lines, *names = _generated(rows) if kind == GENERATED else KINDS[kind].frames(rows)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = propose(items, lines, _RULES, names=names[0] if names else None)
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
    before = {kind: _in_process(kind, options.rows, options.repeat) for kind in (GENERATED, ORDINARY, WORDY)}
    heads = ("seconds", "generated", "ordinary", "MiB", "ordinary", "proposed", "accepted")
    print(f"{'kind':46} " + " ".join(f"{head:>9}" for head in heads))
    for kind in (GENERATED, *KINDS):
        if options.kind not in kind:
            continue
        found = before.get(kind) or _in_process(kind, options.rows, options.repeat)
        beside = before[WORDY if found["words"] >= _WORDS_MANY else ORDINARY]
        print(
            f"{kind:46} {found['seconds']:9.2f} {found['seconds'] / before[GENERATED]['seconds']:9.2f} "
            f"{found['seconds'] / beside['seconds']:9.2f} {found['mib']:9.0f} {found['mib'] / beside['mib']:9.2f} "
            f"{found['proposed']:9,.0f} {found['auto']:9,.0f}"
        )


if __name__ == "__main__":
    main()
