"""Details of one line of an MT940 statement, read by themselves."""

from __future__ import annotations

from typing import Any

from payrec.domain.statements import Direction, Entry
from payrec.formats.mt940.details import read_details


def details(*lines: str, ns: tuple[str, ...] = (), direction: Direction = "credit") -> Entry:
    """Return an entry with what lines of field 86, and of field NS, say of it."""
    entry = Entry(direction=direction, currency="EUR", bank_transaction_code="NTRF")
    read_details(entry, list(lines), list(ns), size=sum(map(len, lines + ns)))
    return entry


def assert_fields(entry: Entry, **wanted: Any) -> None:
    """Compare fields of an entry."""
    assert {name: getattr(entry, name) for name in wanted} == wanted
