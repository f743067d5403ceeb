"""Sample files of banks with their known content, kept outside this repository.

``PAYREC_SAMPLES`` names the folder with ``truth.json``; without it a folder beside the checkout is looked at.
Tests that need the files carry ``requires_samples``.
"""

from __future__ import annotations

import calendar
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from payrec.domain.statements import Entry, Parsed, Problem, Skipped, Statement, StatementEnd
from payrec.formats.base import ReadOptions


def samples_dir() -> Path | None:
    """Return the folder with ``truth.json``, None when there is none."""
    named = os.environ.get("PAYREC_SAMPLES")
    folder = Path(named) if named else Path(__file__).parents[2] / ".." / "shared" / "samples"
    return folder.resolve() if (folder / "truth.json").is_file() else None


def truth() -> list[dict[str, Any]]:
    """Return what is known of each file; nothing without the files."""
    folder = samples_dir()
    if folder is None:
        return []
    files: list[dict[str, Any]] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))["files"]
    return files


def truth_of(*prefixes: str) -> list[dict[str, Any]]:
    """Return the truth of the files whose path begins with one of the prefixes (``mt940/``, ``synthetic/csv_``)."""
    return [entry for entry in truth() if entry["file"].startswith(prefixes)]


def sample_path(name: str) -> Path:
    """Return where one file is, by its path in the folder."""
    folder = samples_dir()
    if folder is None:
        pytest.skip("sample files not found: set PAYREC_SAMPLES to a folder with truth.json")
    return folder / name


def sample(name: str) -> bytes:
    """Return the bytes of one file."""
    return sample_path(name).read_bytes()


requires_samples = pytest.mark.skipif(
    samples_dir() is None, reason="sample files not found: set PAYREC_SAMPLES to a folder with truth.json"
)


def options_of(entry: dict[str, Any]) -> ReadOptions:
    """Return the options without which the file must be refused."""
    words = iter((entry.get("args") or "").split())
    given = dict(zip(words, words, strict=True))
    return ReadOptions(
        format=given.get("--format", "auto"),
        currency=given.get("--currency"),
        account=given.get("--account"),
        date_order=given.get("--date-order"),  # type: ignore[arg-type]  # the truth is trusted to be one of three
        profile=entry.get("profile") or {},
    )


@dataclass
class Collected:
    """All that a reader, wrapped by the accounting, yielded."""

    format: str
    version: str | None
    statements: list[Statement] = field(default_factory=list)
    entries: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """Entries by the ``index`` of their statement."""
    problems: list[Problem] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def collect(items: Iterable[Parsed], *, format: str, version: str | None = None) -> Collected:  # noqa: A002  # the field's name
    """Gather a stream; every statement must have been announced and ended."""
    collected = Collected(format, version)
    announced: list[Statement] = []
    for item in items:
        match item:
            case Statement():
                announced.append(item)
            case StatementEnd():
                collected.statements.append(item.statement)
            case Entry():
                collected.entries[item.statement].append(item)
            case Problem():
                collected.problems.append(item)
            case Skipped():
                collected.skipped.append(item)
    assert {id(s) for s in announced} == {id(s) for s in collected.statements}
    collected.statements.sort(key=lambda s: s.index)
    return collected


def parse_sample(entry: dict[str, Any]) -> Collected:
    """Read the file through the registry, as every caller does."""
    import io  # noqa: PLC0415  # only here are the readers needed, and they may be absent

    from payrec.formats.registry import parse  # noqa: PLC0415  # same

    result = parse(
        io.BytesIO(sample(entry["file"])), name=entry["file"], options=options_of(entry), monotonic=lambda: 0.0
    )
    items = list(result)
    assert result.file.format is not None
    collected = collect(items, format=result.file.format, version=result.file.version)
    counts = result.file.counts
    assert counts.records == counts.accepted + counts.skipped + counts.rejected
    assert counts.accepted == sum(map(len, collected.entries.values()))
    assert counts.statements == len(collected.statements)
    return collected


def assert_truth(known: dict[str, Any], found: dict[str, Any]) -> None:
    """Compare the document of a file with what is known of it; None in the truth is not compared."""
    assert found["outcome"] == known["outcome"]
    if known["outcome"] == "unreadable":
        assert found["error"]["reason"] == known["reason"]
        return
    counts = found["counts"]
    for key, value in (*((n, found[n]) for n in ("format", "formatVersion")), *counts.items()):
        if key in known and key != "statements" and known[key] is not None:
            assert value == known[key], key
    assert len(found["statements"]) == len(known["statements"])
    for wanted, statement in zip(known["statements"], found["statements"], strict=True):
        told = _in_words_of_the_truth(statement, found["problems"])
        for key, value in _in_calendar(wanted).items():
            if key == "problems":
                assert set(value) <= set(told[key]), key
            elif key == "entries":
                _assert_entries(value, statement["entries"])
            elif value is not None:
                assert told[key] == value, (key, wanted["statementId"])


def _in_words_of_the_truth(statement: dict[str, Any], problems: list[dict[str, Any]]) -> dict[str, Any]:
    totals = statement["totals"].values()
    signed = {
        balance["type"]: balance["amountMinor"] * (1 if balance["direction"] == "credit" else -1)
        for balance in reversed(statement["balances"])
    }
    pending = statement["totals"]["pending"]
    return {
        **statement,
        "account": statement["account"]["id"],
        "pendingCount": pending["creditCount"] + pending["debitCount"],
        "creditMinor": sum(t["creditMinor"] for t in totals),
        "debitMinor": sum(t["debitMinor"] for t in totals),
        "openingMinor": signed.get("opening"),
        "closingMinor": signed.get("closing"),
        "balanceCheck": statement["checks"]["balance"],
        # A problem that names no statement is about the file, and every statement of it may have caused it.
        "problems": [p["code"] for p in problems if p.get("statement") in (statement["index"], None)],
    }


def _in_calendar(known: dict[str, Any]) -> dict[str, Any]:
    """Return what is known, with the last of the month for days that the calendar does not have; that is told."""
    found = {**known, "problems": [*known.get("problems", ())]}
    for key in ("firstBookingDate", "lastBookingDate"):
        if found.get(key) is not None:
            year, month, day = map(int, found[key].split("-"))
            if day > (last := calendar.monthrange(year, month)[1]):
                found[key] = f"{year:04}-{month:02}-{last:02}"
                found["problems"].append("date_clamped")
    return found


def _assert_entries(known: list[dict[str, Any]], entries: list[dict[str, Any]]) -> None:
    for wanted in known:
        entry = entries[wanted["index"]]
        for key, value in wanted.items():
            assert entry[key] == value, (key, wanted["index"])
