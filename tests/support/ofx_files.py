"""OFX files for tests: a statement from its transactions, and the reader over them."""

from __future__ import annotations

import io
from typing import Any

from payrec.domain.statements import Entry
from payrec.formats.base import Head, ReadOptions
from payrec.formats.registry import parse
from support.samples import Collected, collect

HEADER = "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nENCODING:USASCII\nCHARSET:1252\n\n"


def head_of(data: bytes, encoding: str = "utf-8") -> Head:
    text = data.decode(encoding, errors="replace")
    return Head(data=data, encoding=encoding, encoding_guessed=False, text=text, complete=True)


def transaction(amount: str = "-5.00", fitid: str = "F1", **fields: str) -> str:
    """Return a transaction on a line of its own, tags without end tags."""
    own = {"TRNTYPE": "DEBIT", "DTPOSTED": "20260102", "TRNAMT": amount, "FITID": fitid, **fields}
    return "<STMTTRN>" + "".join(f"<{name}>{value}" for name, value in own.items()) + "</STMTTRN>\n"


def statement(
    *transactions: str, kind: str = "STMTRS", head: str = "<CURDEF>EUR", account: str = "123", tail: str = ""
) -> str:
    return (
        f"<{kind}>{head}<BANKACCTFROM><BANKID>9<ACCTID>{account}</BANKACCTFROM><BANKTRANLIST><DTSTART>20260101"
        f"<DTEND>20260131\n{''.join(transactions)}</BANKTRANLIST>{tail}</{kind}>\n"
    )


def file_of(*statements: str, header: str = HEADER) -> str:
    return f"{header}<OFX>\n{''.join(statements)}</OFX>\n"


def read(text: str, **options: Any) -> Collected:
    """Read the file as every caller does."""
    result = parse(io.BytesIO(text.encode()), name="x", options=ReadOptions(**options), monotonic=lambda: 0.0)
    collected = collect(result, format="ofx")
    assert result.file.format == "ofx"
    collected.version = result.file.version
    return collected


def codes(found: Collected) -> list[str]:
    return [problem.code for problem in found.problems]


def entry_of(text: str, **options: Any) -> Entry:
    found = read(file_of(statement(text)), **options)
    assert codes(found) == []
    (entry,) = found.entries[0]
    return entry


def rejection_of(text: str, **options: Any) -> str:
    """Return why the transaction is rejected; its neighbours must survive."""
    before, after = transaction("-1.00", "before"), transaction("2.00", "after")
    found = read(file_of(statement(before, text, after)), **options)
    assert [(e.direction, e.amount_minor) for e in found.entries[0]] == [("debit", 100), ("credit", 200)]
    (problem,) = (p for p in found.problems if p.rejects)
    assert (problem.line, problem.statement) == (10, 0)
    return problem.code
