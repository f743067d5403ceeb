"""Every reader against its own file cut off at every byte, and damaged: right, or told, or refused."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import date

import pytest

from payrec.domain.statements import Entry, Parsed, Problem
from payrec.errors import UnreadableFileError
from payrec.formats.base import ReadOptions
from payrec.formats.registry import READERS, parse
from support.bai2_files import file_of as bai2
from support.camt import balance, document, ntry
from support.fuzzing import attempt, mutations
from support.memory import peak_bytes
from support.mt940_messages import statement as mt940
from support.ofx_files import file_of as ofx
from support.ofx_files import statement as ofx_statement
from support.ofx_files import transaction
from support.xlsx_files import DATE, table, workbook


@dataclass(frozen=True, slots=True)
class Small:
    """A small file that is read without a finding."""

    family: str
    """The reader's name."""
    data: bytes
    pieces: tuple[bytes, ...]
    """What means something in the format: put in at random places."""
    ends: tuple[bytes, ...] = ()
    """What is behind a record, in a format whose files have no end: one that ends there can be a whole one."""


_DAY = (date(2026, 1, 2) - date(1899, 12, 30)).days
_STRIPE = "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,description\n"
_ADYEN = (
    "Merchant Account,Psp Reference,Merchant Reference,Creation Date,Type,Modification Reference,Gross Currency,"
    "Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC),Batch Number\n"
)
_PAYPAL = (
    '"RH",2026/01/03 04:00:00 +0100,"A","M",011\n"FH",01\n'
    '"SH",2026/01/02 00:00:00 +0100,2026/01/02 23:59:59 +0100,"M",""\n'
    '"CH","Transaction ID","Invoice ID","PayPal Reference ID","PayPal Reference ID Type","Transaction Event Code",'
    '"Transaction Initiation Date","Transaction Completion Date","Transaction Debit or Credit",'
    '"Gross Transaction Amount","Gross Transaction Currency","Fee Debit or Credit","Fee Amount","Fee Currency"\n'
)


def _paypal(number: int, minor: int) -> str:
    at = "2026/01/02 10:00:00 +0100"
    return f'"SB","T{number}","INV","","","T0006",{at},{at},"CR",{minor},"EUR","",,""\n'


def _record(minor: int) -> str:
    money = {"direction": "credit", "amountMinor": minor, "currency": "EUR", "bookingDate": "2026-01-02"}
    return json.dumps({"externalId": f"X{minor}", **money})


_CSV_PIECES = (b'"', b";", b",", b"\n", b"\r", b"\0", b"\xff", b'="', b"9" * 30)
_JSON_PIECES = (b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\u0000", b"\xff", b"[" * 20, b"9" * 30)
FILES = {
    "camt": Small(
        "camt",
        document(
            ntry("<NtryRef>1</NtryRef>", "10.00") + ntry("", "4.56", "DBIT"),
            balance("OPBD", "100.00") + balance("CLBD", "105.44"),
        ),
        (b"<Ntry>", b"</Ntry>", b"<Amt>", b"</", b">", b"&amp;", b"&x;", b"<!--", b"<![CDATA[", b"\xff", b"9" * 30),
    ),
    "mt940": Small(
        "mt940",
        mt940(
            ":61:2601020102C12,50NTRFNONREF//B1", ":86:Invoice 7", ":61:2601030103D2,NCHG", ":86:Fee",
            ":62F:C260103EUR110,50", "-",
        ).encode(),
        (b"\n:61:", b"\n:86:", b"\n:20:", b"\n:62F:", b"\n-\n", b"{4:", b"?20", b"/EREF/", b"\xff", b"\r", b"9" * 30),
    ),
    "bai2": Small(
        "bai2",
        bai2("16,142,100,,,,A/", "88,B/", "16,475,30,Z,,,C/").encode(),
        (b"/", b",", b"\n88,", b"\n16,", b"\n03,", b"\n49,", b"\r", b"\xff", b"D,99,", b"9" * 30),
    ),
    "ofx": Small(
        "ofx",
        ofx(ofx_statement(transaction("-12.34", "A"), transaction("56.78", "B"))).encode(),
        (b"<", b">", b"</STMTTRN>", b"<STMTTRN>", b"</STMTRS>", b"<LEDGERBAL>", b"&#", b"\xff", b"9" * 30),
    ),
    "csv": Small(
        "csv",
        b"Date;Text;Currency;Amount\n2026-01-02;Invoice 7;EUR;12.50\n2026-01-03;Fee;EUR;-2.25\n",
        _CSV_PIECES,
        (b"\n",),
    ),
    "xlsx": Small(
        "xlsx",
        workbook(table(((_DAY, DATE), "a", 12.5, "EUR"), ((_DAY, DATE), "b", -2.25, "EUR"))),
        (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\0" * 8, b"\xff" * 8),
    ),
    "json": Small("json", f"[{_record(1250)}, {_record(225)}]".encode(), _JSON_PIECES),
    "json lines": Small("json", f"{_record(1250)}\n{_record(225)}\n".encode(), (*_JSON_PIECES, b"\n"), (b"}", b"}\n")),
    "stripe": Small(
        "psp",
        (_STRIPE + "txn_1,2026-01-02 10:00:00,eur,100.00,1.75,98.25,charge,A\n"
         "txn_2,2026-01-02 11:00:00,eur,46.30,0.95,45.35,charge,B\n").encode(),
        _CSV_PIECES,
        (b"\n",),
    ),
    "adyen": Small(
        "psp",
        (_ADYEN + "A,P1,INV-1,2026-01-02 10:00:00,Settled,M1,EUR,,100.00,EUR,,98.60,1.40,7\n"
         "A,P2,INV-2,2026-01-02 11:00:00,Settled,M2,EUR,,50.00,EUR,,49.20,0.80,7\n").encode(),
        _CSV_PIECES,
        (b"\n",),
    ),
    "paypal": Small(
        "psp",
        (_PAYPAL + _paypal(1, 10000) + _paypal(2, 2050)
         + '"SF","EUR",12050,0,0,0\n"SC",2\n"RF","EUR",12050,0,0,0\n"RC",2\n"FF",2\n').encode(),
        _CSV_PIECES,
    ),
}  # fmt: skip
EACH = pytest.mark.parametrize("small", FILES.values(), ids=list(FILES))


def read(data: bytes) -> tuple[list[tuple[object, ...]], list[Parsed]]:
    """Return what each entry says of money, and all items."""
    items = list(parse(io.BytesIO(data), name="x", options=ReadOptions(), monotonic=lambda: 0.0))
    money = [
        (i.direction, i.amount_minor, i.currency, i.booking_on, i.value_on, i.status, i.net, tuple(map(str, i.charges)))
        for i in items
        if isinstance(i, Entry)
    ]
    return money, items


def findings(items: list[Parsed]) -> list[str]:
    return [item.code for item in items if isinstance(item, Problem)]


def test_every_reader_has_a_file() -> None:
    assert {small.family for small in FILES.values()} == {reader.name for reader in READERS}


@EACH
def test_a_file_that_is_cut_off_is_refused_or_says_so(small: Small) -> None:
    """No amount is ever another one in silence, and no record is missing in silence.

    What no reader can know is that whole lines are missing at the end of a table, which has no end.
    """
    whole, items = read(small.data)
    assert (len(whole), findings(items)) == (2, [])
    refused = 0
    for length in range(len(small.data)):
        torn = small.data[:length]
        try:
            money, items = read(torn)
        except UnreadableFileError:
            refused += 1
            continue
        is_missing_lines = money == whole[: len(money)] and bool(small.ends) and torn.endswith(small.ends)
        if money != whole and not is_missing_lines:
            assert findings(items), (length, torn[-60:], money)
    assert refused


@EACH
def test_a_damaged_file_is_read_or_refused(small: Small) -> None:
    for mutated in mutations(small.data, seed=small.family, count=300, pieces=list(small.pieces)):
        attempt(mutated, ReadOptions())


@EACH
def test_damage_does_not_cost_memory(small: Small) -> None:
    attempt(small.data, ReadOptions())
    for mutated in mutations(small.data, seed="memory", count=20, pieces=list(small.pieces)):
        assert peak_bytes(lambda data=mutated: attempt(data, ReadOptions())) < 4 * 1024 * 1024  # type: ignore[misc]
