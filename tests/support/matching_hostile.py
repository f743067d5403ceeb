"""Data that nobody would send by accident, in columns, so that a hundred thousand rows are made in a moment.

Each kind changes something in the very same ordinary rows: line ``n`` pays item ``n`` and quotes its reference, and
eight items have one counterparty. What differs from them is what the kind is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import polars as pl
import pytest

from payrec.domain.matching.columns import EXPECTED_SCHEMA, INCOMING_SCHEMA

Columns = Mapping[str, pl.Expr]

_N: Final = pl.col("n")
_NOTHING: Final = pl.lit(None, dtype=pl.Int64)


def chance(seed: int) -> pl.Expr:
    """Return a number of 64 bits that the row and the seed decide."""
    return (_N + seed * 2**40).hash(seed).reinterpret(signed=True)


def between(seed: int, low: int, high: int) -> pl.Expr:
    """Return a number from ``low`` to ``high`` that the row and the seed decide."""
    return low + (chance(seed) & 0x7FFF_FFFF) % (high - low + 1)


def key(number: pl.Expr | int, *, proving: bool = True) -> pl.Expr:
    """Return a key that the number decides."""
    mixed = (pl.lit(number, dtype=pl.Int64) if isinstance(number, int) else number).hash(7).reinterpret(signed=True)
    return mixed | 1 if proving else mixed & -2


def keys(*found: pl.Expr) -> pl.Expr:
    """Return a list of keys."""
    return pl.concat_list(found)


def _frame(rows: int, schema: Mapping[str, pl.DataType], columns: Columns) -> pl.DataFrame:
    empty = {name: pl.lit(None, dtype=dtype) for name, dtype in schema.items()}
    found = pl.DataFrame({"n": pl.int_range(rows, eager=True)})
    return found.select(
        (empty[name] if name not in columns else columns[name]).cast(schema[name]).alias(name) for name in schema
    )


_PAYER: Final = _N // 8
_ITEMS: Final[Columns] = {
    "ordinal": _N,
    "currency": pl.lit("EUR"),
    "direction": pl.lit(1),
    "amount_minor": between(1, 1_000, 5_000_000),
    "due_day": between(2, 20_500, 20_590),
    "reference_key": key(_N),
    "name_key": key(_PAYER + 2**33),
    "account_key": key(_PAYER + 2**34),
    "tie_key": chance(3),
}
_LINES: Final[Columns] = {
    "ordinal": _N,
    "currency": pl.lit("EUR"),
    "direction": pl.lit(1),
    "amount_minor": between(1, 1_000, 5_000_000),
    "booking_day": between(2, 20_500, 20_590),
    "pending": pl.lit(value=False),
    "reversal": pl.lit(value=False),
    "duplicate": pl.lit(value=False),
    "reference_keys": keys(key(_N), key(_N + 2**35)),
    "name_key": key(_PAYER + 2**33),
    "account_key": key(_PAYER + 2**34),
    "tie_key": chance(4),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What is unusual of a kind of data."""

    items: Columns = field(default_factory=dict)
    lines: Columns = field(default_factory=dict)

    def frames(self, rows: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return as many items as lines."""
        items, lines = {**_ITEMS, **self.items}, {**_LINES, **self.lines}
        for side in (items, lines):
            side["total_minor"] = side["amount_minor"]
        return _frame(rows, EXPECTED_SCHEMA, items), _frame(rows, INCOMING_SCHEMA, lines)


def _equal(**columns: pl.Expr) -> Kind:
    """Return a kind whose columns are the same on both sides."""
    return Kind(columns, columns)


_SILENT: Final[Columns] = {"name_key": _NOTHING, "account_key": _NOTHING}
_MUTE: Final[Columns] = {"reference_keys": pl.lit([], dtype=pl.List(pl.Int64))}
_CROWD: Final = _N % 5 < 2


def _crowded(**columns: pl.Expr) -> Columns:
    """Change 40 % of the rows."""
    return {
        name: pl.when(_CROWD).then(changed).otherwise(_ITEMS.get(name, _LINES.get(name)))
        for name, changed in columns.items()
    }


_COLLECTIVE: Final = _crowded(account_key=key(2**36 + 5), name_key=key(2**36 + 6), amount_minor=pl.lit(80_000))
ORDINARY: Final = "ordinary"
WORDY: Final = "ordinary with sixty words"
"""What kinds are compared with whose lines quote as much."""

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        ORDINARY: Kind(),
        WORDY: Kind({}, {"reference_keys": keys(key(_N), *(key(_N * 64 + at + 2**39) for at in range(59)))}),
        "one reference": Kind(
            {"reference_key": key(2**36 + 1, proving=False)},
            {"reference_keys": keys(key(2**36 + 1, proving=False), key(_N + 2**35))},
        ),
        "one proving reference": Kind({"reference_key": key(1)}, {"reference_keys": keys(key(1), key(_N + 2**35))}),
        "one reference and nothing else": Kind(
            {"reference_key": key(1), **_SILENT, "amount_minor": pl.lit(80_000)},
            {"reference_keys": keys(key(1)), **_SILENT, "amount_minor": pl.lit(80_000)},
        ),
        "one end-to-end id": _equal(end_to_end_key=key(2**36 + 2)),
        "one payer and amount for 40 %": Kind(_COLLECTIVE, _COLLECTIVE),
        "one payer and amount for 40 %, nothing quoted": Kind(
            {**_COLLECTIVE, "reference_key": _NOTHING}, {**_COLLECTIVE, **_MUTE}
        ),
        "one batch": Kind({"group_key": key(2**36 + 3)}, {"reference_keys": keys(key(2**36 + 3))}),
        "one amount and nothing else": Kind(
            {**_SILENT, "reference_key": _NOTHING, "amount_minor": pl.lit(1)},
            {**_SILENT, **_MUTE, "amount_minor": pl.lit(1)},
        ),
        "as many of one payer and amount as may be": Kind(
            {"account_key": key(_N // 12), "amount_minor": pl.lit(7_000), "name_key": _NOTHING,
             "reference_key": _NOTHING},
            {"account_key": key(_N // 64), "amount_minor": pl.lit(7_000), "name_key": _NOTHING, **_MUTE},
        ),
        "as many of one payer as may be": Kind(
            {"account_key": key(_N // 12), "name_key": _NOTHING, "reference_key": _NOTHING},
            {"account_key": key(_N // 64), "name_key": _NOTHING, "amount_minor": between(9, 1_000, 5_000_000), **_MUTE},
        ),
        "every line quotes the same items": Kind(
            {"reference_key": key(_N)},
            {"reference_keys": keys(*(key(at) for at in range(60))), "amount_minor": pl.lit(77)},
        ),
        "every line quotes the same batches": Kind(
            {"group_key": key(_N + 2**37)},
            {"reference_keys": keys(*(key(at + 2**37) for at in range(60))), "amount_minor": pl.lit(77)},
        ),
        "every line quotes the same dozen": Kind(
            {"reference_key": key(_N // 12)},
            {"reference_keys": keys(key(1)), "amount_minor": between(9, 1_000, 5_000_000)},
        ),
        "every line pays the same fifty": Kind(
            {"reference_key": key(_N), "amount_minor": pl.lit(100)},
            {"reference_keys": keys(*(key(at) for at in range(50))), "amount_minor": pl.lit(5_000),
             "name_key": key(_N + 2**38)},
        ),
        "every line pays some of the same dozen": Kind(
            {"reference_key": key(_N), "amount_minor": 2**(_N % 12).cast(pl.Int64)},
            {"reference_keys": keys(*(key(at) for at in range(12))), "amount_minor": 3 + _N % 4000,
             "name_key": key(_N + 2**38)},
        ),
        "one payer": Kind(
            {"account_key": key(2**36 + 8), "name_key": key(2**36 + 9), "reference_key": _NOTHING},
            {"account_key": key(2**36 + 8), "name_key": key(2**36 + 9), "amount_minor": between(9, 1_000, 5_000_000),
             **_MUTE},
        ),
        "payers of as many alike as are searched": Kind(
            {"account_key": key(_N // 30), "name_key": _NOTHING, "reference_key": _NOTHING,
             "amount_minor": 100_003 + 7 * (_N % 5)},
            {"account_key": key(_N // 30), "name_key": _NOTHING, **_MUTE, "amount_minor": 3 * 100_003 + 7 * (_N % 5)},
        ),
        "payers of one amount": Kind(
            {"account_key": key(_N // 200), "name_key": _NOTHING, "reference_key": _NOTHING,
             "amount_minor": pl.lit(100_003)},
            {"account_key": key(_N // 32), "name_key": _NOTHING, **_MUTE, "amount_minor": 100_003 * (2 + _N % 40)},
        ),
        "parts of everything": Kind(
            {"account_key": key(_N // 200), "name_key": _NOTHING, "reference_key": _NOTHING,
             "amount_minor": pl.lit(120_000)},
            {"account_key": key(_N // 32), "name_key": _NOTHING, **_MUTE, "amount_minor": pl.lit(10_000)},
        ),
        "repeated lines": Kind(
            {},
            {"amount_minor": pl.lit(80_000), "account_key": key(2**36 + 8), "name_key": key(2**36 + 9),
             "reference_keys": keys(key(1)), "booking_day": pl.lit(20_550)},
        ),
        "nothing at all": Kind(
            {**_SILENT, "reference_key": _NOTHING, "due_day": _NOTHING},
            {**_SILENT, **_MUTE, "booking_day": _NOTHING, "amount_minor": between(9, 1_000, 5_000_000)},
        ),
        "out of the window": Kind({}, {"booking_day": pl.lit(-700_000)}),
    }
)  # fmt: skip


@contextmanager
def joined_rows(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the rows of every join's result meanwhile."""
    found: list[int] = []
    join = pl.DataFrame.join

    def counting(frame: pl.DataFrame, *args: Any, **kwargs: Any) -> pl.DataFrame:
        result = join(frame, *args, **kwargs)
        found.append(result.height)
        return result

    with patch.context() as here:
        here.setattr(pl.DataFrame, "join", counting)
        yield found
