"""Time the matching engine alone on seeded data with clean references, by stage.

Run as ``python tests/benchmarks/bench_engine.py [--rows N] [--seed S] [--repeat K]``. Making the data, and the keys
that the product makes at ingest, is timed apart. ``bench_hostile.py`` has the data that is not clean.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time

import polars as pl

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA
from payrec.domain.matching.engine import propose
from payrec.domain.matching.keys import expected_keys, incoming_keys, tie_key
from payrec.domain.matching.rules import MatchingRules

_CURRENCIES = ("EUR", "EUR", "EUR", "USD", "GBP", "CHF", "JPY", "SEK", "PLN")
_FIRST_DAY = 20_500


def generate(rows: int, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make as many lines as items, each line paying the item of its number, both shuffled."""
    chance = random.Random(seed)  # noqa: S311 - reproducible data, not a secret
    items: list[tuple[object, ...]] = []
    lines: list[tuple[object, ...]] = []
    for number in range(rows):
        payer = chance.randrange(rows // 8 + 1)
        name, iban = f"Customer {payer} Trading GmbH", f"DE{payer:020d}"
        currency = chance.choice(_CURRENCIES)
        amount = chance.randrange(100, 5_000_000)
        due = _FIRST_DAY + chance.randrange(90)
        reference = f"INV-{number:07d}"
        known = expected_keys(reference=reference, counterparty_name=name, counterparty_account=iban, account="DE1")
        head = (number, currency, 1, amount, amount, None, None, due, None, None)
        items.append((*head, *known, tie_key(number), 1, None))
        text = f"Invoice {reference} dated {due % 28 + 1:02d}.{due % 12 + 1:02d}.2026 customer no {payer}"
        seen = incoming_keys(remittance=text, counterparty_name=name, counterparty_account=iban, account="DE1")
        booked = due + chance.randrange(-5, 20)
        flags = (False, False, False)
        lines.append((number, currency, 1, amount, amount, booked, booked, *flags, *seen, tie_key("line", number), 1))
    chance.shuffle(items)
    chance.shuffle(lines)
    return (
        pl.DataFrame(items, schema=dict(EXPECTED_SCHEMA), orient="row"),
        pl.DataFrame(lines, schema=dict(INCOMING_SCHEMA), orient="row"),
    )


def main() -> None:
    """Generate, run, and print seconds by stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    out = sys.stdout
    start = time.perf_counter()
    expected, incoming = generate(options.rows, options.seed)
    out.write(f"generate and keys {time.perf_counter() - start:8.3f} s\n")
    for _ in range(options.repeat):
        stages: list[tuple[str, float]] = []
        start = time.perf_counter()
        result = propose(
            expected,
            incoming,
            MatchingRules(auto_accept=True),
            observe=lambda stage, to=stages: to.append((stage, time.perf_counter())),  # type: ignore[misc]
        )
        total = time.perf_counter() - start
        parts, before = [], start
        for stage, at in stages:
            parts.append(f"{stage} {at - before:.3f}")
            before = at
        right = result.legs.filter(pl.col("expected") == pl.col("incoming")).height
        out.write(f"engine {total:.3f} s: {', '.join(parts)}\n")
        out.write(f"  {result.counts.proposed} proposed, {right} right, {result.counts.auto_accepted} auto\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    out.write(f"peak {peak} MiB; polars {pl.__version__} on {pl.thread_pool_size()} threads\n")


if __name__ == "__main__":
    main()
