"""A hostile file of every format that is read: in each of its texts is what a browser would run, or turn round."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from xml.sax.saxutils import escape

from payrec.domain.statements import Entry, Statement, StatementEnd
from payrec.formats.base import ReadOptions
from payrec.formats.camt.paths import DETAIL_PATHS, ENTRY_PATHS, MESSAGES, STATEMENT_PATHS
from payrec.formats.csv.profile import COLUMN_ROLES
from payrec.formats.json.records import _TEXTS as JSON_TEXTS
from payrec.formats.registry import parse
from support import bai2_files, xlsx_files
from support.hostile_texts import LONG, RUNS, SHORT, TAG, hostile


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileFile:
    """A file that is accepted whole, and what is said of it where it is uploaded."""

    name: str
    content: bytes
    options: dict[str, str] = field(default_factory=dict)
    """Fields of the form beside the file."""


# camt: whatever text its tree of paths wants is hostile, so that a new path is as well. ------------------------------

_PLAIN: Final = {
    "amount": "10.00",
    "transaction": "10.00",
    "instructed": "9.00",
    "total": "1.00",
    "direction": "CRDT",
    "reversal": "false",
    "status": "BOOK",
    "booking": "2026-03-04",
    "value": "2026-03-04",
    "from": "2026-03-04",
    "to": "2026-03-04",
    "created": "2026-03-04T20:00:00",
    "currency": "EUR",
    "batch_count": "1",
    "rate": SHORT,
    **{f"{which}_{what}": "1" for which in ("all", "credit", "debit") for what in ("count", "sum")},
}
"""Keys of camt's paths whose text has to be something else."""


def _camt(message: str) -> HostileFile:
    kind = {"camt.052": "Rpt", "camt.053": "Stmt", "camt.054": "Ntfctn"}[message]
    entry = {path: key for path, key in ENTRY_PATHS.items() if path != "Sts"}
    below = _elements(_texts(message, entry), {"NtryDtls/TxDtls": _elements(_texts(message, DETAIL_PATHS))})
    inside = _elements(_texts(message, STATEMENT_PATHS), {"Ntry": below})
    root = next(name for name, said in MESSAGES.items() if said == message)
    space = f"urn:iso:std:iso:20022:tech:xsd:{message}.001.08"
    text = f'<Document xmlns="{space}"><{root}><{kind}>{inside}</{kind}></{root}></Document>'
    return HostileFile(name=f"{message}.xml", content=text.encode())


def _texts(message: str, paths: dict[str, str]) -> dict[str, str]:
    """Return the text at each path; of several that mean one thing the first."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for path, key in paths.items():
        name = key.rstrip("*$")
        if name not in seen:
            seen.add(name)
            found[path] = _PLAIN.get(name, hostile(f"{message} {name}"))
    return found


def _elements(texts: dict[str, str], made: dict[str, str] | None = None) -> str:
    """Return elements nested by their paths; ``made`` are elements whose inside there is already."""
    tree: dict[str, Any] = {}
    inner = {path: escape(text) for path, text in texts.items()} | (made or {})
    for path, text in inner.items():
        *way, last = path.split("/")
        at = tree
        for name in way:
            at = at.setdefault(name, {})
        at[last] = text
    return _nested(tree)


def _nested(tree: dict[str, Any]) -> str:
    parts = []
    for name, inside in tree.items():
        attribute = ' Ccy="EUR"' if name == "Amt" and isinstance(inside, str) else ""
        text = inside if isinstance(inside, str) else _nested(inside)
        parts.append(f"<{name}{attribute}>{text}</{name}>")
    return "".join(parts)


# Messages of lines ---------------------------------------------------------------------------------------------------


def _mt(*, interim: bool) -> HostileFile:
    """Return a message whose four entries have the four structures of field 86."""

    kind = "mt942" if interim else "mt940"

    def said(name: str) -> str:
        return hostile(f"{kind} {name}", without="/?\n")

    german = "".join(
        f"?{key}{text}"
        for key, text in {
            "00": said("booking text"),
            "10": SHORT,
            "20": f"EREF+{said('end_to_end_id')}",
            "21": f"MREF+{said('mandate_id')}",
            "22": f"KREF+{said('instruction_id')}",
            "23": f"CRED+{said('creditorId')}",
            "24": f"ABWA+{said('ultimate_counterparty_name')}",
            "25": f"SVWZ+{said('remittance')}",
            "30": said("counterparty_bic"),
            "31": said("counterparty_account"),
            "32": said("counterparty_name"),
        }.items()
    )
    slashes = "".join(
        f"/{key}/{text}"
        for key, text in {
            "EREF": said("end_to_end_id"),
            "ORDP": f"/NAME/{said('counterparty_name')}/IBAN/{said('counterparty_account')}/BIC/{said('bic')}",
            "REMI": f"USTD//{said('remittance')}",
            "PREF": said("payment_information_id"),
            "CDTRREF": said("structured_reference"),
            "PURP": f"CD/{said('purpose_code')}",
            "RTRN": said("return_reason"),
            "TRTP": said("bookingText"),
        }.items()
    )
    notes = "\r\n".join(f"{key}{said(name)}" for key, name in (("01", "remittance"), ("15", "name"), ("34", "account")))
    lines = [
        f":20:{SHORT}",
        f":25:{said('account')}",
        f":28C:{SHORT}",
        *((":34F:EUR0,", ":13D:2603041000+0100") if interim else (":60F:C260303EUR100,",)),
        f":61:2603040304C1,NTRF{SHORT}//{SHORT}\r\n{said('supplementaryDetails')}",
        f":86:166{german}",
        f":61:2603040304C2,NTRF{SHORT}//{SHORT}",
        f":86:{slashes}",
        f":61:2603040304C3,NTRF{SHORT}//{SHORT}",
        f":NS:{notes}",
        f":61:2603040304C4,NTRF{SHORT}//{SHORT}",
        f":86:{hostile('remittance')}",
        *(() if interim else (":62F:C260304EUR110,",)),
        "-",
        "",
    ]
    return HostileFile(name=f"{kind}.sta", content="\r\n".join(lines).encode())


def _bai2() -> HostileFile:
    def said(name: str) -> str:
        return hostile(name, without="/,")

    record = f"16,142,1000,,{said('bank_reference')},{said('end_to_end_id')},{said('remittance')}/"
    account, trailers = f"03,{said('account')},EUR,,,,/", (f"49,{SHORT},{SHORT}/", "98,,,/", "99,,,/")
    text = bai2_files.file_of(record, account=account, trailers=trailers)
    return HostileFile(name="bai2.txt", content=text.encode())


def _ofx() -> HostileFile:
    def said(name: str) -> str:
        return escape(hostile(name))

    own = {
        "TRNTYPE": SHORT,
        "DTPOSTED": "20260304",
        "TRNAMT": "12.00",
        "FITID": said("external_id"),
        "CHECKNUM": said("check_number"),
        "REFNUM": said("bank_reference"),
        "NAME": said("counterparty_name"),
        "MEMO": said("remittance"),
    }
    fields = "".join(f"<{name}>{escape(text) if text is SHORT else text}" for name, text in own.items())
    beneficiary = f"<BANKACCTTO><BANKID>{said('counterparty_bic')}<ACCTID>{said('counterparty_account')}</BANKACCTTO>"
    text = (
        "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nENCODING:UTF-8\nCHARSET:NONE\n\n<OFX>\n<STMTRS><CURDEF>EUR"
        f"<BANKACCTFROM><BANKID>{said('account_bic')}<ACCTID>{said('account')}</BANKACCTFROM><BANKTRANLIST>\n"
        f"<STMTTRN>{fields}{beneficiary}</STMTTRN>\n</BANKTRANLIST></STMTRS>\n</OFX>\n"
    )
    return HostileFile(name="ofx.ofx", content=text.encode())


# Records and tables --------------------------------------------------------------------------------------------------


def _record(kind: str, **more: Any) -> dict[str, Any]:
    texts = {name: hostile(f"{kind} {name}") for name in JSON_TEXTS}
    plain = {"direction": "credit", "amount": "14.00", "currency": "EUR", "bookingDate": "2026-03-04"}
    own = {"account": hostile("account"), "groupKey": hostile("groupKey"), "metadata": {SHORT: hostile("metadata")}}
    return plain | texts | own | more


def _json(*, lines: bool) -> HostileFile:
    kind = "jsonl" if lines else "json"
    longest = {
        name: (hostile(f"longest {kind} {name}") + "x" * LONG)[: min(limit, LONG)]
        for name, (_, _, limit) in JSON_TEXTS.items()
    }
    records = [_record(kind), _record(kind, **longest)]
    separator = "\n" if lines else ",\n"
    text = separator.join(json.dumps(record) for record in records)
    return HostileFile(name=f"list.{kind}", content=(text if lines else f"[{text}]").encode())


_ROLE_CELLS: Final = {
    "bookingDate": "2026-03-04",
    "valueDate": "2026-03-04",
    "amount": "15.00",
    "currency": "EUR",
    "balance": "15.00",
    "originalCurrency": "USD",
}
_ROLES_LEFT_OUT: Final = frozenset({"debit", "credit", "payerName", "payeeName", "originalAmount", "net", "fee"})
"""Other ways to say what another column says."""


def _columns(kind: str) -> dict[str, str]:
    """Return the cell of each role that a table's column can have."""
    roles = (role for role in COLUMN_ROLES if role not in _ROLES_LEFT_OUT)
    return {role: _ROLE_CELLS.get(role, hostile(f"{kind} {role}")) for role in roles}


def _table_options() -> dict[str, str]:
    columns = {role: _heading(role) for role in _columns("")}
    return {"profile": json.dumps({"columns": columns, "metadata": [_heading("metadata")]})}


def _heading(role: str) -> str:
    return f"{role} {SHORT}<img src=x onerror={RUNS}>"


def _rows(kind: str) -> list[list[str]]:
    cells = _columns(kind)
    return [
        [*(_heading(role) for role in (*cells, "metadata"))],
        [*cells.values(), hostile("kept")],
    ]


def _csv() -> HostileFile:
    return HostileFile(name="table.csv", content=_separated(_rows("csv")), options=_table_options())


def _xlsx() -> HostileFile:
    heading, *rows = _rows("xlsx")
    content = xlsx_files.workbook(xlsx_files.table(*rows, headings=heading))
    return HostileFile(name="book.xlsx", content=content, options=_table_options())


def _separated(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def _stripe() -> HostileFile:
    cells = {
        "automatic_payout_id": hostile("group_key"),
        "balance_transaction_id": hostile("external_id"),
        "created_utc": "2026-03-04 10:00:00",
        "currency": "eur",
        "gross": "16.00",
        "fee": "0",
        "net": "16.00",
        "reporting_category": hostile("bank_transaction_code"),
        "source_id": hostile("bank_reference"),
        "payment_intent_id": hostile("end_to_end_id"),
        "charge_id": hostile("transaction_id"),
        "description": hostile("remittance"),
        "customer_name": hostile("counterparty_name"),
        f"payment_metadata[{SHORT}]": hostile("metadata"),
    }
    return HostileFile(name="stripe.csv", content=_separated([[*cells], [*cells.values()]]))


def _adyen() -> HostileFile:
    cells = {
        "Merchant Account": hostile("account"),
        "Psp Reference": hostile("transaction_id"),
        "Merchant Reference": hostile("end_to_end_id"),
        "Creation Date": "2026-03-04 10:00:00",
        "Type": SHORT,
        "Modification Reference": hostile("bank_reference"),
        "Gross Currency": "USD",
        "Gross Debit (GC)": "",
        "Gross Credit (GC)": "20.00",
        "Exchange Rate": SHORT,
        "Net Currency": "EUR",
        "Net Debit (NC)": "",
        "Net Credit (NC)": "17.00",
        "Modification Merchant Reference": hostile("remittance"),
        "Batch Number": SHORT,
    }
    return HostileFile(name="adyen.csv", content=_separated([[*cells], [*cells.values()]]))


def _paypal(report: str) -> HostileFile:
    on = "2026/03/04 10:00:00 +0100"
    cells = {
        "Transaction ID": hostile(f"{report} bank_reference"),
        "Invoice ID": hostile("end_to_end_id"),
        "PayPal Reference ID": hostile("transaction_id"),
        "Transaction Event Code": hostile("bank_transaction_code"),
        "Transaction Initiation Date": on,
        "Transaction Completion Date": on,
        "Transaction Debit or Credit": "CR",
        "Gross Transaction Amount": "1800",
        "Gross Transaction Currency": "EUR",
        "Fee Debit or Credit": "",
        "Fee Amount": "",
        "Fee Currency": "",
        "Custom Field": hostile("remittance"),
        "Consumer Business Name": hostile("counterparty_name"),
    }
    if report == "paypal_trr":
        cells["Transactional Status"] = "S"
    section = ["SH", "2026/03/04 00:00:00 +0100", "2026/03/04 23:59:59 +0100", hostile(f"{report} account"), ""]
    rows = [section, ["CH", *cells], ["SB", *cells.values()]]
    return HostileFile(name=f"{report}.csv", content=_separated(rows))


FILES: Final[dict[str, Callable[[], HostileFile]]] = {
    "camt.052": lambda: _camt("camt.052"),
    "camt.053": lambda: _camt("camt.053"),
    "camt.054": lambda: _camt("camt.054"),
    "ofx": _ofx,
    "bai2": _bai2,
    "mt940": lambda: _mt(interim=False),
    "mt942": lambda: _mt(interim=True),
    "json": lambda: _json(lines=False),
    "jsonl": lambda: _json(lines=True),
    "stripe": _stripe,
    "adyen": _adyen,
    "paypal_stl": lambda: _paypal("paypal_stl"),
    "paypal_trr": lambda: _paypal("paypal_trr"),
    "xlsx": _xlsx,
    "csv": _csv,
}
"""By the name of the format as reading tells it."""


def read_fields(file: HostileFile) -> tuple[str, set[str], list[str]]:
    """Return the format that a file is read as, which texts of statement and entry are hostile, and its problems."""
    options = ReadOptions(profile=json.loads(file.options.get("profile", "{}")))
    result = parse(io.BytesIO(file.content), name=file.name, options=options, monotonic=lambda: 0.0)
    found: set[str] = set()
    for item in result:
        if isinstance(item, Entry | StatementEnd):
            part = item.statement if isinstance(item, StatementEnd) else item
            assert isinstance(part, Entry | Statement)
            found |= {name for name, text in _texts_of(part) if TAG in text.lower()}
    assert result.file.format is not None
    return result.file.format, found, [f"{p.code}: {p.detail}" for p in result.file.problems if p.rejects]


def text_fields() -> set[str]:
    """Return the names of all texts of a statement and of an entry that a file can fill."""
    return {
        f"{part.__name__}.{one.name}"
        for part in (Statement, Entry)
        for one in dataclasses.fields(part)
        if one.type in ("str", "str | None", "dict[str, str]")
    }


def _texts_of(part: Entry | Statement) -> Iterator[tuple[str, str]]:
    for one in dataclasses.fields(part):
        value = getattr(part, one.name)
        values = [*value.keys(), *value.values()] if isinstance(value, dict) else [value]
        for text in values:
            if isinstance(text, str):
                yield f"{type(part).__name__}.{one.name}", text
