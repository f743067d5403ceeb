"""Small camt messages to read, and reading them as every caller does."""

from __future__ import annotations

import io
from typing import Any

import pytest

from payrec.domain.statements import Entry
from payrec.errors import UnreadableFileError
from payrec.formats.base import ReadOptions
from payrec.formats.registry import parse
from support.samples import Collected, collect

HEAD = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>'
TAIL = "</BkToCstmrStmt></Document>"
ACCOUNT = "<Acct><Id><IBAN>DE89370400440532013000</IBAN></Id><Ccy>EUR</Ccy></Acct>"
DATES = "<BookgDt><Dt>2026-01-02</Dt></BookgDt>"


def document(inside: str, head: str = "") -> bytes:
    return f"{HEAD}<Stmt><Id>S</Id>{ACCOUNT}{head}{inside}</Stmt>{TAIL}".encode()


def ntry(inside: str = "", amount: str = "10.00", direction: str = "CRDT", currency: str = "EUR") -> str:
    return f'<Ntry><Amt Ccy="{currency}">{amount}</Amt><CdtDbtInd>{direction}</CdtDbtInd>{DATES}{inside}</Ntry>'


def details(*parts: str) -> str:
    return f"<NtryDtls>{''.join(f'<TxDtls>{part}</TxDtls>' for part in parts)}</NtryDtls>"


def balance(kind: str, amount: str, direction: str = "CRDT") -> str:
    indicator = f"<CdtDbtInd>{direction}</CdtDbtInd>" if direction else ""
    code = f"<Tp><CdOrPrtry><Cd>{kind}</Cd></CdOrPrtry></Tp>"
    return f'<Bal>{code}<Amt Ccy="EUR">{amount}</Amt>{indicator}<Dt><Dt>2026-01-02</Dt></Dt></Bal>'


def read(data: bytes, **options: Any) -> Collected:
    result = parse(io.BytesIO(data), name="f", options=ReadOptions(**options), monotonic=lambda: 0.0)
    items = list(result)
    counts = result.file.counts
    assert counts.records == counts.accepted + counts.skipped + counts.rejected
    return collect(items, format=result.file.format or "", version=result.file.version)


def codes(collected: Collected) -> list[str]:
    return [p.code for p in collected.problems]


def one(inside: str, **options: Any) -> Entry:
    collected = read(document(inside), **options)
    (entry,) = collected.entries[0]
    return entry


def reason_of(data: bytes) -> str:
    with pytest.raises(UnreadableFileError) as raised:
        read(data)
    return raised.value.reason


def part(amount: str, reference: str = "", direction: str = "CRDT", currency: str = "EUR") -> str:
    refs = f"<Refs><AcctSvcrRef>{reference}</AcctSvcrRef></Refs>" if reference else ""
    return f'{refs}<Amt Ccy="{currency}">{amount}</Amt><CdtDbtInd>{direction}</CdtDbtInd>'
