"""The files of a data set: what is read back is what was written, and what is wrong is named in one line."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA, permuted, read, write
from payrec.bench.generator import generate
from payrec.errors import ConfigurationError
from support.tenant_data import frame_of

RATES = {"per_eur": {"EUR": 1.0}, "exponent": {"EUR": 2}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a small data set that is right."""
    frame_of([{"amount_minor": 1, "currency": "EUR"}], EXPECTED_SCHEMA).write_parquet(tmp_path / "expected.parquet")
    frame_of([{"amount_minor": 1, "currency": "EUR"}], INCOMING_SCHEMA).write_parquet(tmp_path / "incoming.parquet")
    (tmp_path / "fx.json").write_text(json.dumps(RATES))
    return tmp_path


def change(path: Path, *columns: pl.Series | pl.Expr) -> None:
    pl.read_parquet(path).with_columns(*columns).write_parquet(path)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    data = generate(rows=300, seed=3, preset="base")
    write(data, tmp_path)
    again = read(tmp_path)

    for one, other in ((data.expected, again.expected), (data.incoming, again.incoming), (data.truth, again.truth)):
        assert one is not None
        assert other is not None
        assert_frame_equal(one, other)
    assert dict(again.rates.per_eur) == dict(data.rates.per_eur)
    assert dict(again.rates.exponent) == dict(data.rates.exponent)


def test_other_ways_to_write_a_column_are_understood(folder: Path) -> None:
    path = folder / "expected.parquet"
    change(
        path,
        pl.Series("id", [7], dtype=pl.Int32),
        pl.Series("currency", ["EUR"], dtype=pl.Categorical),
        pl.Series("due_date", ["2026-02-28"]),
        pl.Series("window_from", [datetime(2026, 1, 2, 3, 4)]),  # noqa: DTZ001 - files have no time zone
        pl.Series("window_to", ["the 30th of February"]),
        pl.Series("metadata", [None]),
        pl.Series("more", [1.5]),
    )

    [row] = read(folder).expected.rows(named=True)
    assert (row["id"], row["currency"]) == (7, "EUR")
    assert (row["due_date"], row["window_from"], row["window_to"]) == (date(2026, 2, 28), date(2026, 1, 2), None)


def test_a_day_that_no_calendar_has_is_no_value(folder: Path) -> None:
    change(folder / "incoming.parquet", pl.Series("booking_date", [4_000_000], dtype=pl.Int32).cast(pl.Date))

    assert read(folder).incoming["booking_date"].to_list() == [None]


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("expected.parquet", pl.Series("id", [None], dtype=pl.Int64), "column id: cannot be null"),
        ("incoming.parquet", pl.Series("id", ["1"]), "column id: must be int64, not String"),
        ("incoming.parquet", pl.Series("amount_minor", [1.0]), "column amount_minor: must be int64, not Float64"),
        ("expected.parquet", pl.Series("id", [2**63], dtype=pl.UInt64), "column id: must fit 64 bits"),
        ("expected.parquet", pl.Series("reference", [1]), "column reference: must be text, not Int64"),
        ("expected.parquet", pl.Series("due_date", [1]), "column due_date: must be a date or its text, not Int64"),
    ],
)
def test_a_wrong_column_is_named_with_its_file(folder: Path, name: str, column: pl.Series, words: str) -> None:
    change(folder / name, column)

    with pytest.raises(ConfigurationError) as caught:
        read(folder)
    assert caught.value.detail == f"{folder / name}: {words}"


@pytest.mark.parametrize(("name", "schema"), [("expected", EXPECTED_SCHEMA), ("incoming", INCOMING_SCHEMA)])
def test_every_column_must_be_there(folder: Path, name: str, schema: dict[str, Any]) -> None:
    path = folder / f"{name}.parquet"
    whole = pl.read_parquet(path)
    for column in schema:
        whole.drop(column).write_parquet(path)
        with pytest.raises(ConfigurationError, match=rf"{name}\.parquet: column {column} is missing$"):
            read(folder)


def test_an_id_names_one_row(folder: Path) -> None:
    path = folder / "expected.parquet"
    frame = pl.read_parquet(path)
    pl.concat([frame, frame]).write_parquet(path)

    with pytest.raises(ConfigurationError, match=r"expected\.parquet: column id: must be unique$"):
        read(folder)


@pytest.mark.parametrize("name", ["expected.parquet", "incoming.parquet", "fx.json"])
def test_a_file_that_is_missing_or_something_else_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"nonsense\n\nof several lines")
    with pytest.raises(ConfigurationError) as caught:
        read(folder)
    assert caught.value.detail.startswith(f"{folder / name} is no ")
    assert "\n" not in caught.value.detail

    (folder / name).unlink()
    with pytest.raises(ConfigurationError) as caught:
        read(folder)
    assert caught.value.detail == f"{folder / name} is missing"


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([], "per_eur is missing"),
        ({"per_eur": {"EUR": 1}}, "exponent is missing"),
        ({**RATES, "per_eur": {"USD": 0}}, "per_eur: USD has no usable number"),
        ({**RATES, "per_eur": {"USD": True}}, "per_eur: USD has no usable number"),
        ({**RATES, "per_eur": {"USD": float("inf")}}, "per_eur: USD has no usable number"),
        ({**RATES, "exponent": {"USD": 2.0}}, "exponent: USD has no usable number"),
    ],
)
def test_rates_that_cannot_be_used_are_named(folder: Path, rates: Any, words: str) -> None:
    (folder / "fx.json").write_text(json.dumps(rates))

    with pytest.raises(ConfigurationError) as caught:
        read(folder)
    assert caught.value.detail == f"{folder / 'fx.json'}: {words}"


def test_a_truth_needs_its_pairs_alone(folder: Path) -> None:
    assert read(folder).truth is None
    with pytest.raises(ConfigurationError, match=r"truth\.parquet is missing$"):
        read(folder, truth_required=True)

    pl.DataFrame({"expected_id": [1], "incoming_id": [1]}).write_parquet(folder / "truth.parquet")
    truth = read(folder, truth_required=True).truth
    assert truth is not None
    assert truth.rows() == [(1, 1, "unknown", None)]


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    with pytest.raises(ConfigurationError, match=r"file cannot be written to: "):
        write(generate(rows=10, seed=1, preset="base"), file)


def test_the_last_lines_are_those_of_the_file_and_an_order_is_the_seed_s() -> None:
    data = generate(rows=300, seed=1, preset="base")
    first, new = data.split(40)

    assert new["id"].to_list() == data.incoming["id"].to_list()[-40:]
    assert_frame_equal(pl.concat([first, new]), data.incoming)
    assert data.split(10**6)[0].is_empty()
    assert permuted(first, 1).equals(permuted(first, 1))
    assert not permuted(first, 1).equals(permuted(first, 2))
    assert_frame_equal(permuted(first, 1).sort("id"), first)
