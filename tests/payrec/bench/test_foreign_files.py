"""Files that somebody else made: every way to leave a field empty, edges of 64 bits, columns too many and too few."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import pytest

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA, TRUTH_SCHEMA, DataSet, read
from payrec.bench.load import Rendered, Stamp, render_expected, render_incoming
from payrec.bench.measure import check, measure
from payrec.constants import AMOUNT_MINOR_MAX
from payrec.errors import ConfigurationError
from payrec.factory import TimeOrderedIds
from support.tenant_data import frame_of

EDGES = [-(2**63), -(2**63) + 1, -AMOUNT_MINOR_MAX - 1, -AMOUNT_MINOR_MAX, -1, 0, 1]
EDGES += [AMOUNT_MINOR_MAX, AMOUNT_MINOR_MAX + 1, 2**53, 2**63 - 1]
STAMP = Stamp(at=datetime(2026, 1, 1, tzinfo=UTC), change_id=UUID(int=1))
DAY = date(2026, 3, 1)


def folder_of(path: Path, expected: list[dict[str, Any]], incoming: list[dict[str, Any]]) -> Path:
    """Write a data set whose files have columns that nobody asked for, in an order of their own."""
    for name, rows, schema in (("expected", expected, EXPECTED_SCHEMA), ("incoming", incoming, INCOMING_SCHEMA)):
        frame = frame_of(rows, schema)
        extra = [pl.lit("x").alias("comment"), pl.lit(1.5).alias("Amount"), pl.lit(None).alias("__index_level_0__")]
        frame.with_columns(extra).select(sorted([*schema, "comment", "Amount", "__index_level_0__"])).write_parquet(
            path / f"{name}.parquet"
        )
    (path / "fx.json").write_text(json.dumps({"per_eur": {"EUR": 1, "USD": 1.1}, "exponent": {"EUR": 2, "XXX": 0}}))
    return path


def rendered(data: DataSet, path: Path) -> tuple[Rendered, Rendered]:
    ids = TimeOrderedIds()
    return (
        render_expected(data.expected, path / "e", ids=ids, stamp=STAMP),
        render_incoming(data.incoming, path / "i", ids=ids, stamp=STAMP),
    )


def stored(side: Rendered, table: str) -> int:
    return len(side.files[table].read_text().splitlines()) if table in side.files else 0


def test_amounts_at_the_edges_are_stored_or_left_out_and_never_changed(tmp_path: Path) -> None:
    rows = [{"id": at, "amount_minor": amount, "currency": "EUR"} for at, amount in enumerate(EDGES)]
    data = read(folder_of(tmp_path, rows, [{**row, "booking_date": DAY} for row in rows]))
    assert data.expected["amount_minor"].to_list() == EDGES
    assert data.expected.columns == list(EXPECTED_SCHEMA)
    expected, incoming = rendered(data, tmp_path / "out")
    kept = sum(1 <= abs(amount) <= AMOUNT_MINOR_MAX for amount in EDGES)
    # A line of nothing is stored, and nothing of it is open.
    assert (stored(expected, "expected_open"), stored(incoming, "incoming_open")) == (kept, kept)
    assert stored(incoming, "incoming_transaction") == kept + 1
    assert expected.left_out == {"amount_minor": len(EDGES) - kept}
    assert incoming.left_out == {"amount_minor": len(EDGES) - kept - 1}


@pytest.mark.parametrize("empty", [None, ""])
def test_a_row_of_nothing_but_what_it_needs_is_a_row(tmp_path: Path, empty: str | None) -> None:
    texts = {name: empty for schema in (EXPECTED_SCHEMA, INCOMING_SCHEMA) for name, dtype in schema.items()
             if dtype == pl.String()}  # fmt: skip
    money = {"id": 1, "amount_minor": 5, "currency": "EUR"}
    expected = {name: value for name, value in {**texts, **money}.items() if name in EXPECTED_SCHEMA}
    line = {name: value for name, value in {**texts, **money}.items() if name in INCOMING_SCHEMA}
    sides = rendered(read(folder_of(tmp_path, [expected], [{**line, "value_date": DAY}])), tmp_path / "out")
    assert [side.left_out for side in sides] == [{}, {}]
    assert stored(sides[1], "incoming_open") == 1


@pytest.mark.parametrize("currency", [None, "", "??", "XXX", "eur", "EURO", "ZZZ", "\x00\x00\x00"])
def test_a_currency_that_nobody_has_is_left_out_and_counted(tmp_path: Path, currency: str | None) -> None:
    row = {"id": 1, "amount_minor": 5, "currency": currency}
    sides = rendered(read(folder_of(tmp_path, [row], [{**row, "booking_date": DAY}])), tmp_path / "out")
    assert [side.left_out for side in sides] == [{"currency": 1}, {"currency": 1}]


def test_rows_with_nothing_in_them_are_left_out_and_counted(tmp_path: Path) -> None:
    data = read(folder_of(tmp_path, [{"id": 1}], [{"id": 1}, {"id": 2, "amount_minor": 5, "currency": "EUR"}]))
    sides = rendered(data, tmp_path / "out")
    assert [side.left_out for side in sides] == [{"amount_minor": 1}, {"amount_minor": 1, "booking_date": 1}]


@pytest.mark.parametrize(
    ("name", "column"),
    [("expected", column) for column in EXPECTED_SCHEMA] + [("incoming", column) for column in INCOMING_SCHEMA],
)
def test_a_column_that_is_not_there_is_one_line(tmp_path: Path, name: str, column: str) -> None:
    folder = folder_of(tmp_path, [{"id": 1}], [{"id": 1}])
    path = folder / f"{name}.parquet"
    pl.read_parquet(path).drop(column).write_parquet(path)
    with pytest.raises(ConfigurationError) as raised:
        read(folder)
    assert str(raised.value) == f"{path}: column {column} is missing"


def test_a_truth_without_classes_and_payers_and_with_edges_is_measured(tmp_path: Path) -> None:
    rows = [{"id": at, "amount_minor": amount, "currency": "XXX"} for at, amount in enumerate(EDGES)]
    folder = folder_of(tmp_path, rows, rows)
    pairs = pl.DataFrame({"expected_id": [0, 10, None], "incoming_id": [0, 10, 3], "sure": [True, False, None]})
    pairs.write_parquet(folder / "truth.parquet")
    data = read(folder)
    assert data.truth is not None
    assert data.truth.columns == list(TRUTH_SCHEMA)
    links = pl.DataFrame(
        {"expected_id": [10], "incoming_id": [10], "auto": [True], "score": [1.0], "settled_minor": [2**63 - 1]}
    )
    found = measure(links, data).total
    assert (found.true, found.found, found.auto_eur) == (2, 1, 0.0)
    accepted = links.with_columns(amount_minor=pl.col("settled_minor"))
    assert check(accepted, data).double_allocations == 0
