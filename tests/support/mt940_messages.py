"""Messages of MT940 for tests: a statement from its lines, and the reader over them."""

from __future__ import annotations

import io
from collections.abc import Iterator

from payrec.domain.statements import Entry, Parsed
from payrec.formats.base import Detected, Head, ReadOptions
from payrec.formats.mt940.reader import READER
from support.samples import (
    Collected,
    collect,
)

CLOSING = ":62F:C260102EUR101,"
"""The closing balance, without which a statement is told to be incomplete."""


def head_of(data: bytes, encoding: str = "utf-8") -> Head:
    return Head(data=data, encoding=encoding, encoding_guessed=False, text=data.decode(encoding), complete=True)


def stream(data: bytes, *, currency: str | None = None) -> Iterator[Parsed]:
    options = ReadOptions(currency=currency)
    return READER.read(io.BytesIO(data), head_of(data), Detected("mt940"), options)


def read(text: str, *, currency: str | None = None) -> Collected:
    return collect(stream(text.encode(), currency=currency), format="mt940")


def statement(*lines: str, account: str = "10020030/1234567", opening: str = "C251230EUR100,") -> str:
    return "\r\n".join((":20:X", f":25:{account}", ":28C:7/2", f":60F:{opening}", *lines, ""))


def entry_of(field: str, *more: str) -> Entry:
    found = read(statement(f":61:{field}", *more))
    assert not [p for p in found.problems if p.rejects]
    (entry,) = found.entries[0]
    return entry


def rejection_of(field: str, *more: str) -> str:
    found = read(statement(":61:2601020102C1,NTRFNONREF", f":61:{field}", *more, ":61:2601020102D2,NTRFNONREF"))
    assert [e.amount_minor for e in found.entries[0]] == [100, 200], "the neighbours must survive"
    (problem,) = (p for p in found.problems if p.rejects)
    assert problem.line == 6
    return problem.code
