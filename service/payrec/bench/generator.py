"""Data with known truth: as many items as lines, 90 days, seven currencies, a counterparty for about eight items.

The same rows, seed and preset give the same bytes. Ids say nothing: both sides are put in the order of their days, with
chance between equal ones, and numbered then.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA, TRUTH_SCHEMA, DataSet
from payrec.bench.maker import RATES, Hardness, Maker
from payrec.bench.scenarios import SINGLE, noise, unpaid
from payrec.bench.scenarios_groups import GROUPS

SHARES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "exact_reference": (120, 55),
        "end_to_end_id": (60, 25),
        "reference_in_noise": (150, 80),
        "typo_reference": (40, 60),
        "partial_reference": (35, 60),
        "wrong_reference": (12, 30),
        "account_only": (45, 70),
        "name_only": (37, 63),
        "name_in_text": (8, 12),
        "common_amount": (40, 85),
        "amount_only": (12, 25),
        "fee": (30, 40),
        "fx": (20, 25),
        "rounding": (15, 25),
        "overpaid": (12, 20),
        "underpaid": (12, 20),
        "refund": (15, 15),
        "duplicate": (10, 15),
        "reversal": (10, 12),
        "missing_item": (8, 8),
        "batch_id": (108, 40),
        "batch_id_net": (12, 10),
        "batch_references": (36, 30),
        "batch_references_cut": (6, 7),
        "batch_references_short": (8, 8),
        "less_credit_notes": (12, 12),
        "batch_contiguous": (40, 40),
        "batch_contiguous_minus": (20, 30),
        "batch_arbitrary": (12, 25),
        "missing_member": (6, 8),
        "instalments_reference": (15, 15),
        "instalments": (8, 12),
    }
)
"""Items of each class for a thousand items, base and hard; for ``missing_item``, which has none, lines. What is left is
unpaid, and as many lines as are left are noise."""

HARDNESS: Final[Mapping[str, Hardness]] = MappingProxyType(
    {
        "base": Hardness(
            silent_accounts=0.2,
            silent_names=0.1,
            shared_names=0.01,
            shared_accounts=0.01,
            round_amounts=0.1,
            listed_amounts=0.2,
            repeated_amounts=0.15,
            common_references=0.02,
            payables=0.06,
        ),
        "hard": Hardness(
            silent_accounts=0.45,
            silent_names=0.2,
            shared_names=0.15,
            shared_accounts=0.06,
            round_amounts=0.3,
            listed_amounts=0.4,
            repeated_amounts=0.3,
            common_references=0.4,
            payables=0.1,
        ),
    }
)
"""The presets, in the order of SHARES."""

SCENARIOS: Final = MappingProxyType({**SINGLE, **GROUPS})

CLASSES: Final = (*SCENARIOS, "unpaid", "noise")


def generate(*, rows: int, seed: int, preset: str) -> DataSet:
    """Return a data set of ``rows`` items and as many lines; ``preset`` is one of HARDNESS."""
    make = Maker(rows=rows, seed=seed, hardness=HARDNESS[preset])
    column = tuple(HARDNESS).index(preset)
    # In turns, so that what looks for another item finds one of any class.
    budgets = {name: max(round(rows * shares[column] / 1000), 1) for name, shares in SHARES.items()}
    done = dict.fromkeys(budgets, 0)
    turns = [name for name, count in budgets.items() for _ in range(count)]
    make.dice.shuffle(turns)
    for name in turns:
        if done[name] < budgets[name]:
            done[name] += SCENARIOS[name](make)
    while len(make.tables.expected) < rows:
        unpaid(make)
    while len(make.tables.incoming) < rows:
        noise(make)
    return _data_set(make)


def _data_set(make: Maker) -> DataSet:
    tables = make.tables
    expected, of_item = _numbered(make, tables.expected, EXPECTED_SCHEMA)
    incoming, of_line = _numbered(make, tables.incoming, INCOMING_SCHEMA)
    truth = pl.DataFrame(
        [
            (None if row is None else of_item[row], None if line is None else of_line[line], kind, payer)
            for row, line, kind, payer in tables.truth
        ],
        schema=dict(TRUTH_SCHEMA),
        orient="row",
    )
    return DataSet(expected=expected, incoming=incoming, rates=RATES, truth=truth)


def _numbered(make: Maker, rows: list[tuple[Any, ...]], schema: Mapping[str, pl.DataType]) -> tuple[pl.DataFrame, Any]:
    """Return the rows by day with ids from 1, and the ids of the rows as they were made."""
    dice = make.dice.random
    # The third column is the day on both sides.
    order = sorted(range(len(rows)), key=lambda at: (rows[at][2], dice()))
    ids = [0] * len(rows)
    for place, at in enumerate(order, start=1):
        ids[at] = place
    columns = list(zip(*rows, strict=True))
    frame = pl.DataFrame(
        [
            pl.Series("id", ids, dtype=pl.Int64),
            *(
                pl.Series(name, column, dtype=schema[name])
                for name, column in zip(list(schema)[1:], columns, strict=True)
            ),
        ]
    )
    return frame.sort("id"), ids
