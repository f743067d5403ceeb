"""Sample files of banks with their known content, kept outside this repository.

``PAYREC_SAMPLES`` names the folder with ``truth.json``; without it a folder beside the checkout is looked at.
Tests that need the files carry ``requires_samples``.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from payrec.domain.statements import Entry, Parsed, Problem, Skipped, Statement, StatementEnd
from payrec.formats.base import ReadOptions

_ENTRY_FIELDS = {
    "index": "index",
    "status": "status",
    "direction": "direction",
    "amountMinor": "amount_minor",
    "currency": "currency",
    "reversal": "reversal",
    "bookingDate": "booking_on",
    "valueDate": "value_on",
    "bankReference": "bank_reference",
    "entryReference": "entry_reference",
    "endToEndId": "end_to_end_id",
    "transactionId": "transaction_id",
    "mandateId": "mandate_id",
    "remittance": "remittance",
    "counterpartyName": "counterparty_name",
    "counterpartyAccount": "counterparty_account",
    "counterpartyBic": "counterparty_bic",
    "structuredReference": "structured_reference",
}
"""Names of the truth to names of ``Entry``."""


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


def sample(name: str) -> bytes:
    """Return the bytes of one file, by its path in the folder."""
    folder = samples_dir()
    if folder is None:
        pytest.skip("sample files not found: set PAYREC_SAMPLES to a folder with truth.json")
    return (folder / name).read_bytes()


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


def assert_truth(entry: dict[str, Any], collected: Collected) -> None:
    """Compare a file that is read with what is known of it; None in the truth is not compared."""
    assert entry["outcome"] == "read"
    found: dict[str, Any] = {
        "format": collected.format,
        "formatVersion": collected.version,
        "rejected": sum(p.rejects for p in collected.problems),
        "skipped": len(collected.skipped),
        "statements": [_statement(s, collected) for s in collected.statements],
    }
    for key in ("format", "formatVersion", "rejected", "skipped"):
        if entry.get(key) is not None:
            assert found[key] == entry[key], key
    assert len(found["statements"]) == len(entry["statements"])
    for known, statement in zip(entry["statements"], found["statements"], strict=True):
        for key, value in known.items():
            if key == "problems":
                assert set(value) <= set(statement[key]), key
            elif key == "entries":
                _assert_entries(value, statement[key])
            elif value is not None:
                assert statement[key] == value, (key, known["statementId"])


def _statement(statement: Statement, collected: Collected) -> dict[str, Any]:
    """Put a statement into the words of the truth."""
    all_totals = (statement.booked, statement.pending, statement.info)
    opening, closing = statement.balance("opening"), statement.balance("closing")
    return {
        "account": statement.account,
        "currency": statement.currency,
        "statementId": statement.statement_id,
        "entryCount": statement.entry_count,
        "transactionCount": statement.transaction_count,
        "pendingCount": statement.pending.credit_count + statement.pending.debit_count,
        "creditMinor": sum(t.credit_minor for t in all_totals),
        "debitMinor": sum(t.debit_minor for t in all_totals),
        "openingMinor": opening.signed_minor if opening else None,
        "closingMinor": closing.signed_minor if closing else None,
        "balanceCheck": statement.balance_check,
        "firstBookingDate": _text(statement.first_booking_on),
        "lastBookingDate": _text(statement.last_booking_on),
        # A problem that names no statement is about the file, and every statement of it may have caused it.
        "problems": [p.code for p in collected.problems if p.statement in (statement.index, None)],
        "entries": collected.entries[statement.index],
    }


def _assert_entries(known: list[dict[str, Any]], entries: list[Entry]) -> None:
    by_index = {entry.index: entry for entry in entries}
    for wanted in known:
        entry = by_index[wanted["index"]]
        for key, value in wanted.items():
            assert _text(getattr(entry, _ENTRY_FIELDS[key])) == value, (key, wanted["index"])


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
