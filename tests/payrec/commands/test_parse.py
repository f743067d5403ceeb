"""``payrec parse``: the facts of a file, whole, in three shapes, and what the exit code says."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from payrec import cli
from payrec.commands import parse as command
from payrec.services import parse_output
from support.memory import peak_bytes
from support.samples import assert_truth, requires_samples, sample_path, truth

FILES = Path(__file__).parents[2] / "data" / "uploads"
CAMT = FILES / "statement.camt053.xml"
CSV = FILES / "statement.csv"

Parse = Callable[..., tuple[int, str]]


@pytest.fixture
def parse(capsys: pytest.CaptureFixture[str]) -> Parse:
    """Run the command; return its exit code and what it wrote to standard output."""

    def run(path: Path, *options: str) -> tuple[int, str]:
        status = cli.main(["parse", str(path), *options])
        return status, capsys.readouterr().out

    return run


def document_of(parse: Parse, path: Path, *options: str) -> dict[str, Any]:
    """Return the document of a file that can be read, or cannot."""
    _, text = parse(path, "--json", *options)
    assert text.count("\n") == 1
    found: dict[str, Any] = json.loads(text)
    return found


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def records(count: int, *, accounts: int) -> str:
    """Return JSON lines whose accounts come in turns."""
    lines = []
    for n in range(count):
        money = {"direction": "credit", "amount": f"{n % 900 + 1}.00", "currency": "EUR"}
        day = f"2026-01-{n % 28 + 1:02}"
        lines.append(
            json.dumps({**money, "bookingDate": day, "account": f"A{n % accounts}", "remittance": f"line {n}"})
        )
    return "\n".join(lines)


# Known files ------------------------------------------------------------------------------------------------------


def options_of(known: dict[str, Any], folder: Path) -> list[str]:
    """Return the options without which the file must be refused."""
    options = (known.get("args") or "").split()
    if known.get("profile"):
        options += ["--profile", str(written(folder, "profile.json", json.dumps(known["profile"])))]
    return options


@requires_samples
@pytest.mark.parametrize("known", truth(), ids=lambda known: known["file"])
def test_a_known_file_is_what_it_is_known_to_be(known: dict[str, Any], parse: Parse, tmp_path: Path) -> None:
    path = sample_path(known["file"])
    status, text = parse(path, "--json", *options_of(known, tmp_path))
    found = json.loads(text)

    assert_truth(known, found)
    assert status == (4 if known["outcome"] == "unreadable" else 3 if found["counts"]["rejected"] else 0)
    assert found["schemaVersion"] == 1
    content = path.read_bytes()
    assert found["file"]["name"] == path.name
    assert (found["file"]["bytes"], found["file"]["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert_adds_up(found)


def assert_adds_up(found: dict[str, Any]) -> None:
    """Compute once more what the document says of itself."""
    counts = found["counts"]
    assert counts["records"] == sum(counts[n] for n in ("accepted", "duplicates", "skipped", "rejected"))
    assert counts["rejected"] == sum(problem["rejects"] for problem in found["problems"])
    assert counts["skipped"] == sum(problem["detail"].startswith("left out by") for problem in found["problems"])
    if found["outcome"] == "unreadable":
        return
    assert counts["statements"] == len(found["statements"])
    assert counts["accepted"] + counts["duplicates"] == sum(len(s["entries"]) for s in found["statements"])
    for at, statement in enumerate(found["statements"]):
        entries = statement["entries"]
        assert statement["index"] == at
        assert [entry["index"] for entry in entries] == list(range(statement["transactionCount"]))
        days = sorted(entry["bookingDate"] for entry in entries)
        assert (days[:1] or [None], days[-1:] or [None]) == (
            [statement["firstBookingDate"]],
            [statement["lastBookingDate"]],
        )
        for status, totals in statement["totals"].items():
            moved = [entry.get("net") or entry for entry in entries if entry["status"] == status]
            signed = [m["amountMinor"] * (1 if m["direction"] == "credit" else -1) for m in moved]
            assert totals["creditMinor"] - totals["debitMinor"] == sum(signed)
        identities = {(entry["identity"]["value"], entry["identity"]["occurrence"]) for entry in entries}
        assert len(identities) == len(entries)


@requires_samples
def test_lines_say_the_same_as_the_document(parse: Parse) -> None:
    for known in truth():
        path = sample_path(known["file"])
        document = document_of(parse, path)
        status, text = parse(path, "--jsonl")
        lines = [json.loads(line) for line in text.splitlines()]
        kinds: dict[str, list[dict[str, Any]]] = {"entry": [], "problem": [], "statement": [], "file": []}
        for line in lines:
            kinds[line.pop("type")].append(line)

        statements = [{**s, "entries": []} for s in kinds["statement"]]
        for entry in kinds["entry"]:
            statements[entry.pop("statement")]["entries"].append(entry)
        [facts] = kinds["file"]
        assert {**facts, "statements": statements, "problems": kinds["problem"]} == document, known["file"]
        assert status == parse(path)[0]


@requires_samples
def test_nothing_in_a_known_file_is_left_without_continuity_that_its_balances_show(parse: Parse) -> None:
    verdicts = {
        name: [s["checks"]["continuity"] for s in document_of(parse, sample_path(name))["statements"]]
        for name in ("synthetic/two_days.zip", "synthetic/camt053_gap.zip", "mt940/self-provided_raphaelm.sta")
    }
    assert verdicts == {
        "synthetic/two_days.zip": ["first", "ok"],
        "synthetic/camt053_gap.zip": ["first", "gap"],
        "mt940/self-provided_raphaelm.sta": ["first", "ok", "first"],
    }


# The document -----------------------------------------------------------------------------------------------------


def test_an_entry_has_every_field_and_what_it_lacks_is_null(parse: Parse) -> None:
    found = document_of(parse, CAMT)
    [statement] = found["statements"]
    assert (found["format"], found["formatVersion"], found["encoding"]) == ("camt.053", "camt.053.001.08", "utf-8")
    assert (found["dialect"], found["error"], found["outcome"]) == (None, None, "read")
    assert found["file"]["container"] is None
    assert statement["checks"] == {
        "balance": "ok",
        "balanceDifferenceMinor": 0,
        "controlTotals": "not_available",
        "continuity": "first",
    }
    entry = statement["entries"][0]
    assert {"mandateId", "uetr", "checkNumber", "returnReason", "ultimateCounterpartyName"} <= entry.keys()
    assert not {"net", "original", "exchangeRate", "details"} & entry.keys()
    assert entry["charges"] == []
    assert entry["identity"].keys() == {"kind", "value", "occurrence"}


def test_entries_can_be_left_out_and_everything_else_stays(parse: Parse) -> None:
    whole = document_of(parse, CAMT)
    [statement] = whole["statements"]
    assert document_of(parse, CAMT, "--no-entries") == {**whole, "statements": [{**statement, "entries": []}]}
    _, text = parse(CAMT, "--jsonl", "--no-entries")
    assert [json.loads(line)["type"] for line in text.splitlines()] == ["statement", "file"]


def test_rows_of_several_accounts_in_turns_are_a_statement_each(parse: Parse, tmp_path: Path) -> None:
    found = document_of(parse, written(tmp_path, "many.jsonl", records(4_000, accounts=7)))
    assert [s["account"]["id"] for s in found["statements"]] == [f"A{n}" for n in range(7)]
    for statement in found["statements"]:
        numbers = [int(entry["remittance"].split()[1]) for entry in statement["entries"]]
        assert numbers == sorted(numbers)
        assert {f"A{n % 7}" for n in numbers} == {statement["account"]["id"]}
    assert_adds_up(found)


def test_what_a_file_has_twice_is_counted_as_an_upload_would(parse: Parse, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.xml", CAMT.read_bytes())
        archive.writestr("b.xml", CAMT.read_bytes())
    found = document_of(parse, written(tmp_path, "twice.zip", out.getvalue()))
    assert found["file"]["container"] == "zip"
    assert [member["name"] for member in found["file"]["members"]] == ["a.xml", "b.xml"]
    counts = {"statements": 2, "records": 8, "accepted": 4, "duplicates": 4, "skipped": 0, "rejected": 0}
    assert found["counts"] == counts
    assert [s["checks"]["continuity"] for s in found["statements"]] == ["first", "overlap"]
    assert "statement_overlap" in {problem["code"] for problem in found["problems"]}


def test_text_that_no_terminal_can_write_is_written(parse: Parse, tmp_path: Path) -> None:
    record = {"direction": "credit", "amount": "1.00", "currency": "EUR", "bookingDate": "2026-01-02"}
    text = json.dumps([{**record, "remittance": "Müller 漢字 \ud83d"}])
    found = document_of(parse, written(tmp_path, os.fsdecode(b"na\xefve.json"), text))
    assert found["outcome"] == "read"
    assert found["file"]["name"] == "na?ve.json"
    assert "Müller 漢字" in found["statements"][0]["entries"][0]["remittance"]


# What cannot be read ----------------------------------------------------------------------------------------------


def test_a_file_torn_in_the_middle_still_makes_a_whole_document(parse: Parse, tmp_path: Path) -> None:
    path = written(tmp_path, "torn.xml", CAMT.read_bytes()[:-60])
    status, text = parse(path, "--json")
    found = json.loads(text)
    assert (status, found["outcome"]) == (4, "unreadable")
    assert found["error"]["code"] == "unreadable_file"
    assert found["error"]["reason"] == "xml_malformed"
    assert found["error"]["tried"] == [{"format": "camt.053", "reason": "xml_malformed"}]
    lines = [json.loads(line) for line in parse(path, "--jsonl")[1].splitlines()]
    assert lines[-1]["error"] == found["error"]


def test_every_beginning_of_a_file_makes_a_whole_document(parse: Parse, tmp_path: Path) -> None:
    whole = CAMT.read_bytes()
    for end in range(0, len(whole) - 60, 61):
        assert document_of(parse, written(tmp_path, "torn.xml", whole[:end]))["outcome"] == "unreadable"
        assert document_of(parse, written(tmp_path, "torn.gz", gzip.compress(whole)[: end // 8]))["error"] is not None


def test_people_are_told_why_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["parse", str(written(tmp_path, "x.pdf", b"%PDF-1.7\n"))])
    told = capsys.readouterr()
    assert (status, told.out) == (4, "")
    assert told.err.startswith("payrec: x.pdf cannot be read: ")
    assert "unknown_format" in told.err
    assert told.err.count("\n") == 1


def test_what_may_not_be_uploaded_is_not_read(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "UPLOAD_BYTES_MAX", 100)
    status, text = parse(CAMT, "--json")
    found = json.loads(text)
    assert (status, found["outcome"], found["statements"]) == (4, "unreadable", [])
    assert found["error"]["code"] == "payload_too_large"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--currency", "EURO"), "currency"),
        (("--currency", "XYZ"), "currency"),
        (("--format", "word"), "format"),
        (("--account", ""), "account"),
        (("--profile", "nowhere.json"), "nowhere.json"),
    ],
)
def test_a_wrong_option_is_named(options: tuple[str, str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["parse", str(CAMT), "--json", *options]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert word in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "word"),
    [("[]", "profile"), ("{", "profile"), ('{"delimeter": ";"}', "delimeter"), ("{}" + " " * 70_000, "profile")],
)
def test_a_wrong_profile_is_named(text: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["parse", str(CSV), "--profile", str(written(tmp_path, "p.json", text))]) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nothing.csv", "."])
def test_a_file_that_cannot_be_opened_is_a_wrong_command_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["parse", str(tmp_path / name)]) == 2
    assert "cannot be opened" in capsys.readouterr().err


# For people -------------------------------------------------------------------------------------------------------


def test_people_see_balances_and_what_was_wrong(parse: Parse) -> None:
    status, text = parse(CAMT)
    assert status == 0
    [row] = [line for line in text.splitlines() if "168.00" in line]
    assert row.split()[-3:] == ["EUR", "ok", "first"]
    assert "100.00" in row
    status, text = parse(CSV)
    assert status == 3
    assert "1 rejected" in text
    [told] = [line for line in text.splitlines() if "invalid_amount" in line]
    assert told.startswith("error")
    assert "line 6" in told


def test_a_balance_that_differs_stands_out(parse: Parse, tmp_path: Path) -> None:
    path = written(tmp_path, "wrong.xml", CAMT.read_text("utf-8").replace(">168.00<", ">170.00<"))
    status, text = parse(path)
    assert status == 0
    assert "DIFFERS" in text
    assert "balance_mismatch" in text


def test_a_long_list_of_statements_is_cut_and_says_so(parse: Parse, tmp_path: Path) -> None:
    _, text = parse(written(tmp_path, "many.jsonl", records(149, accounts=149)))
    assert "and 49 more statements" in text


# Alone, and whatever the size -------------------------------------------------------------------------------------


def test_it_needs_no_setting_and_loads_no_engine() -> None:
    program = (
        "import sys; from payrec.cli import main; main(sys.argv[1:]); "
        "print(*(m for m in ('polars', 'numpy', 'psycopg', 'fastapi') if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, "parse", str(CAMT), "--json"],
        capture_output=True,
        env={},
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["outcome"] == "read"
    assert done.stderr.split() == []


@pytest.mark.parametrize("shape", [parse_output.JsonDocument, parse_output.JsonLines])
def test_memory_does_not_grow_with_the_file(shape: Any, tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = written(tmp_path, f"{count}.jsonl", records(count, accounts=3))
        wanted = "--json" if shape is parse_output.JsonDocument else "--jsonl"
        arguments = cli._parser().parse_args(["parse", str(path), wanted])
        options = command._options(arguments)

        def work() -> None:
            with path.open("rb") as stream:
                command.write_json(stream, options, arguments, write=lambda _: None)

        return peak_bytes(work)

    peak(1_000)
    small, large = peak(4_000), peak(16_000)
    assert large < 8 * 1024 * 1024
    assert large - small < 2 * 1024 * 1024
