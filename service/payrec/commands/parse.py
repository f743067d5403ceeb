"""``payrec parse``: what is in a bank's file, without a database or a single setting."""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from payrec.commands.terminal import RIGHT, complain, say, table
from payrec.constants import PROFILE_BYTES_MAX, UPLOAD_BYTES_MAX
from payrec.domain.money import format_minor
from payrec.domain.statements import Balance, Entry, Problem, Statement
from payrec.errors import ConfigurationError, PayrecError, ValidationFailedError
from payrec.formats.base import ReadOptions
from payrec.formats.csv.profile import validate_profile
from payrec.models.imports import UploadOptions
from payrec.services.parse_output import JsonDocument, JsonLines
from payrec.services.parse_report import ParseReport, Verdict
from payrec.services.read_options import read_options
from payrec.services.validation import validated

EXIT_REJECTED: Final = 3
EXIT_UNREADABLE: Final = 4

STATEMENTS_SHOWN_MAX: Final = 100
"""Statements in the table; ``--json`` has all of them."""

_CHECKS: Final = {"mismatch": "DIFFERS", "not_available": "-", "gap": "GAP", "overlap": "OVERLAP"}
"""What is wrong stands out; nothing to compare with is no news."""


def run(arguments: argparse.Namespace) -> int:
    """Read one file."""
    options = _options(arguments)
    try:
        stream = arguments.file.open("rb")
    except OSError as error:
        raise ConfigurationError(f"{arguments.file} cannot be opened: {error.strerror}") from None
    with stream:
        if not stream.seekable():
            raise ConfigurationError(f"{arguments.file} cannot be opened: it is a pipe")
        return _parse(stream, options, arguments)


def _parse(stream: io.BufferedReader, options: ReadOptions, arguments: argparse.Namespace) -> int:
    if arguments.json or arguments.jsonl:
        # Bytes, because JSON is UTF-8 whatever the terminal is.
        report = write_json(stream, options, arguments, write=sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
    else:
        report = _report(stream, options, arguments)
        summary = _Summary()
        report.tell(summary)
        if report.error is None:
            say(summary.text)
        else:
            complain(f"{_name(arguments.file)} cannot be read: {_reason(report.error)}")
    if report.error is not None:
        return EXIT_UNREADABLE
    return EXIT_REJECTED if report.rejected else 0


def write_json(
    stream: io.BufferedReader, options: ReadOptions, arguments: argparse.Namespace, *, write: Callable[[bytes], object]
) -> ParseReport:
    """Read a file, writing it piece by piece as it is read; return what became of it."""
    report = _report(stream, options, arguments)
    shape = JsonDocument if arguments.json else JsonLines
    with shape(write, with_entries=not arguments.no_entries) as output:
        report.tell(output)
    return report


def _report(stream: io.BufferedReader, options: ReadOptions, arguments: argparse.Namespace) -> ParseReport:
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return ParseReport(
        stream,
        name=_name(arguments.file),
        size=size,
        # What is refused for its size is not read to its end either.
        sha256=hashlib.file_digest(stream, "sha256").hexdigest() if size <= UPLOAD_BYTES_MAX else None,
        options=options,
        monotonic=time.monotonic,
        size_max=UPLOAD_BYTES_MAX,
    )


def _name(path: Path) -> str:
    """Return the name for people: it may be any bytes, and what UTF-8 cannot say becomes a question mark."""
    return path.name.encode("utf-8", "replace").decode()


def _options(arguments: argparse.Namespace) -> ReadOptions:
    """Return what an upload would be given, checked as there."""
    given = {
        "format": arguments.format,
        "currency": arguments.currency,
        "account": arguments.account,
        "dateOrder": arguments.date_order,
        "profile": _profile(arguments.profile),
    }
    try:
        options = read_options(validated(UploadOptions, {k: v for k, v in given.items() if v is not None}))
        validate_profile(options.profile)
    except ValidationFailedError as error:
        fields = "; ".join(f"{field.pointer.lstrip('/')}: {field.detail}" for field in error.errors)
        raise ConfigurationError(fields) from None
    return options


def _profile(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            text = stream.read(PROFILE_BYTES_MAX + 1).decode()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"{path} cannot be opened, or is not text") from None
    return text


def _reason(error: PayrecError) -> str:
    """Return why, and who has looked at the file."""
    reason = error.members.get("reason", error.code)
    tried = ", ".join(str(t["format"]) for t in error.members.get("tried", ()))
    return f"{error.detail} ({reason})" + (f"; tried: {tried}" if tried else "")


class _Summary:
    """Gathers what a person wants to know at first: the statements with their balances, and what was wrong."""

    def __init__(self) -> None:
        self.text = ""
        self._statements: list[Statement] = []
        self._count = 0
        self._problems: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], Problem] = {}

    def begin(self, statement: Statement) -> None:
        """Keep a statement, as long as there is room in the table."""
        self._count += 1
        if len(self._statements) < STATEMENTS_SHOWN_MAX:
            self._statements.append(statement)

    def entry(self, entry: Entry) -> None:
        """Leave it to the totals."""

    def end(self, statement: Statement) -> None:
        """Nothing: it is known already."""

    def problem(self, problem: Problem) -> None:
        """Count a problem."""
        key = (problem.severity, problem.code)
        self._problems[key] += 1
        self._first.setdefault(key, problem)

    def finish(self, facts: dict[str, Any], verdict: Verdict) -> None:
        """Write the text; there is none for a file that cannot be read."""
        if facts["error"] is not None:
            return
        counts = facts["counts"]
        version = facts["formatVersion"] or ""
        what = version if version.startswith(facts["format"]) else f"{facts['format']} {version}".rstrip()
        inside = f" in {facts['file']['container']}" if facts["file"]["container"] else ""
        told = (
            f"{counts[n]} {n}"
            for n in ("accepted", "duplicates", "skipped", "rejected")
            if counts[n] or n == "accepted"
        )
        statements = _counted(counts["statements"], "statement")
        lines = [
            f"{facts['file']['name']}: {what}, {facts['encoding']}{inside}, {facts['file']['bytes']} bytes",
            f"{_counted(counts['records'], 'record')}: {', '.join(told)}; {statements}",
        ]
        if self._statements:
            titles = ("account", "statement", "from", "to", "opening", "in", "out", "closing", "", "balance", "follows")
            widths: list[int | str] = [34, 20, 0, 0, RIGHT, RIGHT, RIGHT, RIGHT]
            rows = [_row(s, verdict(s.index)) for s in self._statements]
            lines += ["", table(titles, rows, widths=widths)]
        if self._count > len(self._statements):
            lines.append(
                f"and {_counted(self._count - len(self._statements), 'more statement')}: --json has all of them"
            )
        if self._problems:
            lines += ["", table(("", "what", "times", "first"), self._told(), widths=[0, 0, RIGHT], wrapped=True)]
        self.text = "\n".join(lines)

    def _told(self) -> list[tuple[str, str, str, str]]:
        rows = []
        for key, times in sorted(
            self._problems.items(), key=lambda item: ("error", "warning", "info").index(item[0][0])
        ):
            first = self._first[key]
            line = f"line {first.line}: " if first.line is not None else ""
            statement = f"statement {first.statement + 1}: " if not line and first.statement is not None else ""
            rows.append((*key, str(times), f"{line}{statement}{first.detail}"))
        return rows


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _row(statement: Statement, continuity: str) -> tuple[str, ...]:
    currency = statement.currency or ""
    totals = (statement.booked, statement.pending, statement.info)
    days = [statement.from_on or statement.first_booking_on, statement.to_on or statement.last_booking_on]
    return (
        statement.account or "-",
        statement.statement_id or "-",
        *("-" if day is None else day.isoformat() for day in days),
        _balance(statement.balance("opening")),
        *(
            f"{format_minor(minor, currency)} ({count})"
            for minor, count in (
                (sum(t.credit_minor for t in totals), sum(t.credit_count for t in totals)),
                (sum(t.debit_minor for t in totals), sum(t.debit_count for t in totals)),
            )
        ),
        _balance(statement.balance("closing")),
        currency,
        _CHECKS.get(statement.balance_check, statement.balance_check),
        _CHECKS.get(continuity, continuity),
    )


def _balance(balance: Balance | None) -> str:
    return "-" if balance is None else format_minor(balance.signed_minor, balance.currency)
