"""Camt statements of one account that follow each other, or do not."""

from __future__ import annotations

from datetime import date, timedelta

FIRST_DAY = date(2026, 3, 2)
IBAN = "DE89370400440532013000"

_CODE = "<BkTxCd><Domn><Cd>{domain}</Cd><Fmly><Cd>{family}</Cd><SubFmlyCd>{sub}</SubFmlyCd></Fmly></Domn></BkTxCd>"


def _balance(kind: str, cents: int, on: date) -> str:
    sign = "CRDT" if cents >= 0 else "DBIT"
    return (
        f'<Bal><Tp><CdOrPrtry><Cd>{kind}</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">{abs(cents) / 100:.2f}</Amt>'
        f"<CdtDbtInd>{sign}</CdtDbtInd><Dt><Dt>{on}</Dt></Dt></Bal>"
    )


def camt(
    opening: int,
    closing: int,
    day: int,
    *,
    account: str = IBAN,
    number: int | None = None,
    text: str = "",
    code: str = "",
) -> str:
    """Return one statement with one entry; balances are cents, the day is counted from the second of March 2026.

    ``code`` is the bank's transaction code, its three parts joined by hyphens.
    """
    on = FIRST_DAY + timedelta(days=day)
    moved = closing - opening
    sign = "CRDT" if moved >= 0 else "DBIT"
    names = dict(zip(("domain", "family", "sub"), code.split("-"), strict=True)) if code else {}
    kind = _CODE.format(**names) if code else ""
    sequence = f"<ElctrncSeqNb>{number}</ElctrncSeqNb>" if number is not None else ""
    return (
        f"<Stmt><Id>{text}S{day}-{opening}-{closing}</Id>{sequence}<CreDtTm>{on}T20:00:00</CreDtTm>"
        f"<Acct><Id><IBAN>{account}</IBAN></Id><Ccy>EUR</Ccy></Acct>"
        f"{_balance('OPBD', opening, on)}{_balance('CLBD', closing, on)}"
        f'<Ntry><Amt Ccy="EUR">{abs(moved) / 100:.2f}</Amt><CdtDbtInd>{sign}</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts>'
        f"<BookgDt><Dt>{on}</Dt></BookgDt><AcctSvcrRef>{account[:4]}-{day}-{opening}-{closing}</AcctSvcrRef>{kind}</Ntry></Stmt>"
    )


def message(*statements: str) -> bytes:
    """Return a camt.053 of these statements."""
    head = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>'
    return f"{head}{''.join(statements)}</BkToCstmrStmt></Document>".encode()
