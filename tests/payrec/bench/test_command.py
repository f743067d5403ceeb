"""``payrec bench matching`` from end to end: the very run of the service, over given and over generated rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from polars.testing import assert_frame_equal

from payrec.bench.dataset import EXPECTED_SCHEMA, INCOMING_SCHEMA, write
from payrec.bench.generator import generate
from payrec.bench.scenarios import RETURN_CODES
from payrec.cli import main
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support.commands import environment, started
from support.postgres import cloned
from support.tenant_data import frame_of

LINK_TYPES = {
    "match_id": pl.Int64,
    "expected_id": pl.Int64,
    "incoming_id": pl.Int64,
    "auto": pl.Boolean,
    "score": pl.Float64,
    "confidence": pl.String,
    "kind": pl.String,
}

OTHERS = ("acme", "globex")

Command = Callable[..., str]


@pytest.fixture(scope="module")
def shared(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Return a database for all of the measurements; its two tenants must see nothing of them."""
    with cloned(postgres) as made:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment(made).items():
                patch.setenv(name, value)
            for tenant in OTHERS:
                assert main(["tenants", "create", "--name", tenant, "--environments", "production"]) == 0
        yield made
        with psycopg.connect(made.superuser_url) as connection:
            schemas = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ '_production$'").fetchall()
            assert sorted(schemas) == [(f"{tenant}_production",) for tenant in OTHERS]
            for tenant in OTHERS:
                for table in ("match", "leg", "job", "expected_transaction"):
                    query = f"SELECT count(*) FROM {tenant}_production.{table}"  # noqa: S608 - our own names
                    assert connection.execute(query.encode()).fetchone() == (0,), query


@pytest.fixture
def payrec(shared: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return the command: its output, or with ``fails`` what it complained of."""
    for name, value in environment(shared).items():
        monkeypatch.setenv(name, value)

    def call(*arguments: object, fails: int = 0) -> str:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert code == fails, captured.err
        return captured.err.strip() if fails else captured.out

    return call


def links_of(folder: Path) -> pl.DataFrame:
    frame = pl.read_parquet(folder / "links.parquet")
    assert dict(frame.schema) == LINK_TYPES
    return frame


def read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("preset", ["base", "hard"])
def test_generated_rows_are_matched_measured_and_the_same_in_any_order(
    payrec: Command, tmp_path: Path, preset: str
) -> None:
    common = ("bench", "matching", "--rows", 300, "--seed", 5, "--preset", preset)
    repeat = 2 if preset == "base" else 1
    out = payrec(*common, "--out", tmp_path / "a", "--json", tmp_path / "a.json", "--repeat", repeat)
    payrec(*common, "--out", tmp_path / "b", "--permute", 9)

    links = links_of(tmp_path / "a")
    assert links.height > 100
    assert (tmp_path / "a" / "links.parquet").read_bytes() == (tmp_path / "b" / "links.parquet").read_bytes()
    result = read_json(tmp_path / "a" / "result.json")
    assert set(result) == {"rows", "proposals", "seconds", "peakRssMiB", "versions"}
    rows = generate(rows=300, seed=5, preset=preset)
    assert result["rows"] == {"expected": rows.expected.height, "incoming": rows.incoming.height}
    assert result["proposals"] == links["match_id"].n_unique()
    assert set(result["seconds"]) >= {"total", "read", "engine", "commit"}
    assert 0 < result["seconds"]["total"] < 60
    assert 20 < result["peakRssMiB"] < 2_000
    assert set(result["versions"]) >= {"payrec", "engine", "postgresql", "polars"}
    told = read_json(tmp_path / "a.json")
    assert result.items() <= told.items()
    exact = told["classes"]["exact_reference"]
    assert exact["links"]["found"] > 0
    assert (told["reversalsProposed"], told["doubleAllocations"], told["repeatable"]) == (0, 0, True)
    assert len(told["runs"]) == repeat
    assert ("2 runs gave the same links" in out) is (repeat == 2)
    assert "exact_reference" in out
    assert "Risk and coverage by score" in out


def test_generated_rows_are_kept_and_give_the_same_again(payrec: Command, tmp_path: Path) -> None:
    payrec("bench", "matching", "--rows", 300, "--seed", 2, "--out", tmp_path / "a")
    payrec("bench", "matching", "--data", tmp_path / "a" / "data", "--out", tmp_path / "b")

    assert_frame_equal(links_of(tmp_path / "a"), links_of(tmp_path / "b"))
    assert not (tmp_path / "b" / "data").exists()


def test_what_was_decided_before_changes_the_scores(payrec: Command, tmp_path: Path) -> None:
    payrec("bench", "matching", "--rows", 300, "--seed", 2, "--out", tmp_path / "a")
    kept = tmp_path / "a" / "data"
    common = ("bench", "matching", "--data", kept, "--history", kept)
    payrec(*common, "--out", tmp_path / "b", "--json", tmp_path / "b.json")

    pairs = ["expected_id", "incoming_id"]
    before, after = (links_of(tmp_path / name).sort(pairs) for name in ("a", "b"))
    assert_frame_equal(before.select(pairs), after.select(pairs))
    assert before["score"].to_list() != after["score"].to_list()
    assert read_json(tmp_path / "b.json")["total"]["recall"] > 0.3


def test_a_past_needs_its_truth(payrec: Command, tmp_path: Path) -> None:
    write(generate(rows=50, seed=1, preset="base"), tmp_path)
    (tmp_path / "truth.parquet").unlink()

    words = payrec("bench", "matching", "--rows", 50, "--history", tmp_path, fails=2)
    assert words == f"payrec: {tmp_path / 'truth.parquet'} is missing"


def test_new_lines_come_when_all_others_are_matched(payrec: Command, tmp_path: Path) -> None:
    payrec(
        "bench", "matching", "--rows", 300, "--new-lines", 40, "--out", tmp_path / "a", "--json", tmp_path / "a.json"
    )

    links = links_of(tmp_path / "a")
    lines = pl.read_parquet(tmp_path / "a" / "data" / "incoming.parquet").tail(40)
    newest = lines["id"].to_list()
    assert links.filter(pl.col("incoming_id").is_in(newest)).height > 10
    assert links.filter(~pl.col("incoming_id").is_in(newest)).height > 80
    # The timed run is told of the new lines alone, but for those that take back what is here: they are linked before.
    taken_back = lines["tx_code"].is_in(RETURN_CODES).sum()
    assert 40 - taken_back <= read_json(tmp_path / "a.json")["counts"]["incoming"] <= 40


def test_somebody_else_s_rows_keep_their_ids_and_odd_ones_do_no_harm(payrec: Command, tmp_path: Path) -> None:
    odd = "\x00\t\\N 'odd' " + "x" * 70_000
    money = {"amount_minor": 12_345, "currency": "EUR"}
    expected = [
        {**money, "id": -(2**63), "reference": "INV-2026-000077", "due_date": "2026-03-01"},
        {**money, "id": 5, "amount_minor": 0},
        {**money, "id": 6, "currency": "??"},
        {**money, "id": 7, **dict.fromkeys(("reference", "counterparty_name", "batch_id", "metadata"), odd)},
    ]
    incoming = [
        {**money, "id": 2**63 - 1, "remittance": "re INV-2026-000077", "booking_date": "2026-03-02"},
        {**money, "id": 1, "booking_date": ""},
        {**money, "id": 2, "remittance": "INV-2026-000077", "booking_date": "2026-03-04", "tx_code": "PMNT-RCDT-RRTN"},
        {**money, "id": 3, "booking_date": "2026-03-04", **dict.fromkeys(("remittance", "tx_code"), odd)},
    ]
    folder = tmp_path / "data"
    folder.mkdir()
    dates = dict.fromkeys(("due_date", "window_from", "window_to", "booking_date", "value_date"), pl.String())
    for name, rows, schema in (("expected", expected, EXPECTED_SCHEMA), ("incoming", incoming, INCOMING_SCHEMA)):
        texts = {column: dates.get(column, dtype) for column, dtype in schema.items()}
        frame_of(rows, texts).write_parquet(folder / f"{name}.parquet")
    (folder / "fx.json").write_text('{"per_eur": {"EUR": 1}, "exponent": {"EUR": 2}}')
    out = payrec("bench", "matching", "--data", folder, "--out", tmp_path / "out", "--json", tmp_path / "out.json")

    links = links_of(tmp_path / "out")
    assert (-(2**63), 2**63 - 1) in links.select("expected_id", "incoming_id").rows()
    assert 2 not in links["incoming_id"]
    told = read_json(tmp_path / "out.json")
    assert told["rows"] == {"expected": 4, "incoming": 4}
    assert told["leftOut"] == {"expected": {"amount_minor": 1, "currency": 1}, "incoming": {"booking_date": 1}}
    assert "left out, as the service would: 1 incoming for booking_date" in out
    assert "total" not in told, "nobody has said what is true"


def test_rows_that_match_nothing_are_no_proposals(payrec: Command, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    frame_of([], EXPECTED_SCHEMA).write_parquet(folder / "expected.parquet")
    frame_of([], INCOMING_SCHEMA).write_parquet(folder / "incoming.parquet")
    (folder / "fx.json").write_text('{"per_eur": {}, "exponent": {}}')
    payrec("bench", "matching", "--data", folder, "--out", tmp_path / "out")

    assert links_of(tmp_path / "out").is_empty()
    assert read_json(tmp_path / "out" / "result.json")["proposals"] == 0


def test_a_directory_that_is_wrong_is_one_line_before_anything_is_started(payrec: Command, tmp_path: Path) -> None:
    write(generate(rows=50, seed=1, preset="base"), tmp_path)
    path = tmp_path / "incoming.parquet"
    pl.read_parquet(path).drop("remittance").write_parquet(path)

    words = payrec("bench", "matching", "--data", tmp_path, fails=2)
    assert words == f"payrec: {path}: column remittance is missing"
    words = payrec("bench", "matching", "--data", tmp_path / "nowhere", fails=2)
    assert words == f"payrec: {tmp_path / 'nowhere' / 'expected.parquet'} is missing"
    words = payrec("bench", "matching", "--rows", 50, "--out", path, fails=2)
    assert words.startswith(f"payrec: --out {path} cannot be made: ")
    words = payrec("bench", "matching", "--rows", 50, "--json", tmp_path / "nowhere" / "x.json", fails=2)
    assert words == f"payrec: --json {tmp_path / 'nowhere'} is no directory"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rows", "10", "--data", "x"],
        ["--rows", "10", "--quick"],
        ["--rows", "0"],
        ["--rows", "9999999"],
        ["--rows", "10", "--preset", "soft"],
        ["--rows", "10", "--repeat", "0"],
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "matching", *arguments])
    assert caught.value.code == 2
    assert "payrec bench matching" in capsys.readouterr().err


def test_an_argument_of_one_run_needs_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matching", "--seed", "5"]) == 2
    assert "--rows or --data is missing" in capsys.readouterr().err


def test_a_database_needs_its_administrator_too(payrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADMIN_DATABASE_URL")

    assert payrec("bench", "matching", "--rows", 10, fails=2).startswith("payrec: ADMIN_DATABASE_URL is not set")


def test_without_a_database_one_is_embedded_and_goes_away(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("b")
    with started("bench", "matching", "--rows", "100", cwd=folder, environ={"TMPDIR": "/tmp"}) as bench:  # noqa: S108 - a socket's path is short
        server = bench.wait_for(r"^server .*fsync (\w+)")
        assert bench.ended() == 0, bench.rest()
    assert server[1] == "on"
    assert "Traceback" not in "".join(bench.seen)


@pytest.mark.parametrize("step", ["rendering", "matching"])
def test_an_interruption_ends_it_at_once_and_leaves_nothing(shared: EmbeddedDatabase, step: str) -> None:
    with tempfile.TemporaryDirectory(prefix="pr-") as name:
        folder = Path(name)
        environ = environment(shared, TMPDIR=name)
        rows = "100000" if step == "rendering" else "1000"
        with started("bench", "matching", "--rows", rows, cwd=folder, environ=environ) as bench:
            bench.wait_for(f"payrec: {step}")
            bench.process.terminate()
            assert bench.ended() == 130, bench.rest()
        assert list(folder.glob("payrec-bench-*")) == []
