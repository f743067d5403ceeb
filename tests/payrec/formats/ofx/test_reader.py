from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest

from payrec.errors import UnreadableFileError
from payrec.formats.base import Detected, ReadOptions
from payrec.formats.ofx.reader import READER
from support.ofx_files import HEADER, codes, entry_of, file_of, head_of, read, rejection_of, statement, transaction


def test_head_of_a_statement() -> None:
    found = read(
        file_of(
            "<SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS><DTSERVER>20260201083000.123[-5:EST]</SONRS>"
            "</SIGNONMSGSRSV1>",
            statement(
                transaction(),
                account="DE89 3704 0044 0532 0130 00",
                tail="<LEDGERBAL><BALAMT>-1,50<DTASOF>20260131120000</LEDGERBAL>"
                "<AVAILBAL><BALAMT> 2 000.00 <DTASOF>20260201</AVAILBAL>",
            ),
        )
    )
    assert codes(found) == []
    (head,) = found.statements
    assert (head.account, head.account_scheme, head.currency) == ("DE89370400440532013000", "iban", "EUR")
    assert (head.created_at, head.from_on, head.to_on) == (
        "2026-02-01T08:30:00-05:00",
        date(2026, 1, 1),
        date(2026, 1, 31),
    )
    assert [(b.type, b.signed_minor, b.on) for b in head.balances] == [
        ("closing", -150, date(2026, 1, 31)),
        ("closing_available", 200000, date(2026, 2, 1)),
    ]
    assert (head.kind, head.balance_check) == ("statement", "not_available")


def test_fields_of_a_transaction() -> None:
    entry = entry_of(
        transaction(
            "-11.76", "X 1", DTAVAIL="20260105", NAME="Müller & Söhne", MEMO="  Inv.  4711 ", CHECKNUM="00319",
            REFNUM="R-9", SRVRTID="S-1",
        )
    )  # fmt: skip
    assert (entry.direction, entry.amount_minor, entry.currency) == ("debit", 1176, "EUR")
    assert (entry.booking_on, entry.value_on) == (date(2026, 1, 2), date(2026, 1, 5))
    assert (entry.counterparty_name, entry.remittance) == ("Müller & Söhne", "Inv. 4711")
    assert (entry.check_number, entry.transaction_id, entry.instruction_id) == ("00319", "R-9", "S-1")
    assert (entry.bank_reference, entry.identity_kind, entry.identity_value) == ("X 1", "bank", "X 1")
    assert (entry.bank_transaction_code, entry.status, entry.line, entry.account) == ("DEBIT", "booked", 9, "123")


@pytest.mark.parametrize("kind", ["CREDIT", "DEBIT", "PAYMENT", "", "?"])
def test_sign_decides_and_not_the_type(kind: str) -> None:
    assert entry_of(transaction("-5", TRNTYPE=kind)).direction == "debit"
    assert entry_of(transaction("+5", TRNTYPE=kind)).direction == "credit"
    assert entry_of(transaction("5", TRNTYPE=kind)).bank_transaction_code == (kind or None)


def as_sgml(text: str) -> str:
    return text


def as_xml(text: str) -> str:
    """Close every field."""
    return re.sub(r"<([A-Z]+)>((?:[^<\n]|<(?![/A-Z]))+)", r"<\1>\2</\1>", text)


def as_lines(text: str) -> str:
    return as_sgml(text).replace("<", "\r\n  \t<").lstrip()


def as_lower_case(text: str) -> str:
    return re.sub(r"</?[A-Z]+>", lambda found: found[0].lower(), text)


def as_one_line(text: str) -> str:
    return text.replace("\n", "")


def as_attributed(text: str) -> str:
    return re.sub(r"<([A-Z]+)>", r'<\1 a="b">', text)


def with_empty_fields(text: str) -> str:
    return text.replace("<MEMO>", "<EXTDNAME/><MEMO></MEMO><REFNUM>\n<MEMO>")


@pytest.mark.parametrize(
    "style", [as_sgml, as_xml, as_lines, as_lower_case, as_one_line, as_attributed, with_empty_fields]
)
def test_any_style_of_tags_reads_the_same(style: Any) -> None:
    rows = [
        transaction("-5.00", "F1", MEMO="a & b", NAME="N"),
        transaction("7.25", "F2", MEMO="R&amp;D &lt;x&gt; &#233;", CHECKNUM="12"),
        transaction("8.00", "F3", MEMO="1 < 2, 3 > 2 & <4>"),
    ]
    tail = "<LEDGERBAL><BALAMT>9<DTASOF>20260131</LEDGERBAL>"
    found = read(HEADER + style(file_of(statement(*rows, tail=tail), statement(kind="CCSTMTRS"), header="")))
    assert codes(found) == []
    assert [s.account for s in found.statements] == ["123", "123"]
    entries = found.entries[0]
    assert [(e.amount_minor, e.direction, e.bank_reference, e.remittance, e.check_number) for e in entries] == [
        (500, "debit", "F1", "a & b", None),
        (725, "credit", "F2", "R&D <x> é", "12"),
        (800, "credit", "F3", "1 < 2, 3 > 2 & <4>", None),
    ]
    assert [b.signed_minor for b in found.statements[0].balances] == [900]


def test_name_of_the_payee_and_the_other_account() -> None:
    payee = "<PAYEE><NAME>Landlord<ADDR1>Street 1<CITY>X<PHONE>1</PAYEE>"
    other = "<BANKACCTTO><BANKID>1<ACCTID>GB82 WEST 1234 5698 7654 32<ACCTTYPE>CHECKING</BANKACCTTO>"
    text = transaction("-5", MEMO="Rent").replace("<MEMO>", payee + other + "<MEMO>")
    for style in (as_sgml, as_xml):
        found = read(HEADER + style(file_of(statement(text), header="")))
        assert codes(found) == []
        entry = found.entries[0][0]
        assert (entry.counterparty_name, entry.remittance) == ("Landlord", "Rent")
        assert (entry.counterparty_account, found.statements[0].account) == ("GB82WEST12345698765432", "123")
    assert entry_of(transaction("-5", EXTDNAME="A long name")).counterparty_name == "A long name"
    assert entry_of(transaction("-5", NAME="N", EXTDNAME="A long name")).counterparty_name == "N"


def test_fields_of_unknown_elements_are_not_the_transactions() -> None:
    extra = "<X.IMAGE><NAME>wrong<MEMO>wrong<TRNAMT>9</X.IMAGE>"
    entry = entry_of(transaction("-5", NAME="N").replace("</STMTTRN>", extra + "<MEMO>M</STMTTRN>"))
    assert (entry.counterparty_name, entry.remittance, entry.amount_minor) == ("N", "M", 500)


def test_field_that_comes_twice_is_the_first_and_an_empty_one_takes_nothing_along() -> None:
    text = transaction("-5").replace("</STMTTRN>", "<MEMO>first<MEMO>second</STMTTRN>")
    assert entry_of(text).remittance == "first"
    text = transaction("-5").replace("</STMTTRN>", "<MEMO>\n<NAME>N<MEMO>M</MEMO></STMTTRN>")
    entry = entry_of(text)
    assert (entry.counterparty_name, entry.remittance) == ("N", "M")


def test_currency_of_the_amount_and_currency_it_was_converted_from() -> None:
    text = transaction("-5").replace("</STMTTRN>", "<ORIGCURRENCY><CURRATE>1.25<CURSYM>GBP</ORIGCURRENCY></STMTTRN>")
    entry = entry_of(text)
    assert (entry.currency, entry.exchange_rate, entry.metadata) == ("EUR", "1.25", {"originalCurrency": "GBP"})
    assert entry.original is None
    found = read(file_of(statement(text.replace("ORIGCURRENCY", "CURRENCY"))))
    assert [e.currency for e in found.entries[0]] == ["GBP"]
    assert codes(found) == ["currency_mismatch"]


def test_currency_comes_from_the_statement_else_the_caller_else_it_is_rejected() -> None:
    for head in ("", "<CURDEF>", "<CURDEF></CURDEF>", "<CURDEF/>"):
        text = file_of(statement(transaction(), head=head, tail="<LEDGERBAL><BALAMT>1<DTASOF>20260101</LEDGERBAL>"))
        found = read(text)
        assert [(p.code, p.rejects) for p in found.problems] == [("missing_currency", True), ("invalid_balance", False)]
        found = read(text, currency="CHF")
        assert (codes(found), found.statements[0].currency) == ([], "CHF")
        assert found.entries[0][0].currency == "CHF"
    found = read(file_of(statement(transaction(), head="<CURDEF>XXQ")), currency="CHF")
    assert (codes(found), found.statements[0].currency) == (["unknown_currency"], None)
    assert entry_of(transaction(), currency="CHF").currency == "EUR"


def test_identity_is_the_banks_unless_it_is_none() -> None:
    for none in ("0", "000", "", "NONREF"):
        assert entry_of(transaction("-5", none)).identity_kind == "fingerprint", none
    same, other = transaction("-5", "SAME"), transaction("-6", "SAME")
    found = read(file_of(statement(same, same, other)))
    assert [(e.identity_kind, e.occurrence) for e in found.entries[0]] == [("bank", 0), ("bank", 1), ("fingerprint", 0)]
    assert codes(found) == ["identity_reused"]


def test_check_number_of_zeros_is_none() -> None:
    assert entry_of(transaction("-5", CHECKNUM="0")).check_number is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (transaction("$120"), "invalid_amount"),
        (transaction(""), "invalid_amount"),
        (transaction("1.2.3"), "invalid_amount"),
        (transaction("1,000"), "invalid_amount"),
        (transaction("--5"), "invalid_amount"),
        (transaction("5.001"), "amount_precision"),
        (transaction(DTPOSTED=""), "missing_date"),
        (transaction(DTPOSTED="20261301"), "invalid_date"),
        (transaction(DTPOSTED="2026-01-02"), "invalid_date"),
        (transaction(DTPOSTED="202601"), "invalid_date"),
        (transaction(DTAVAIL="x"), "invalid_date"),
        ("<STMTTRN></STMTTRN>\n", "missing_date"),
        (transaction() .replace("<FITID>", "<TRNAMT>6<FITID>"), "invalid_entry"),
    ],
)  # fmt: skip
def test_wrong_transaction_costs_itself_alone(text: str, code: str) -> None:
    assert rejection_of(text) == code


def test_days_of_30_360_are_clamped() -> None:
    found = read(file_of(statement(transaction(DTPOSTED="20260230120000[-3:BRT]"))))
    assert found.entries[0][0].booking_on == date(2026, 2, 28)
    assert codes(found) == ["date_clamped"]


def test_date_of_availability_stands_in_and_no_other_does() -> None:
    assert entry_of(transaction(DTPOSTED="", DTAVAIL="20260105")).booking_on == date(2026, 1, 5)
    assert rejection_of(transaction(DTPOSTED="", DTUSER="20260105", DTTRAN="20260105")) == "missing_date"


def test_dates_are_as_written() -> None:
    assert entry_of(transaction(DTPOSTED="20251231235959.999[-12:X]")).booking_on == date(2025, 12, 31)


@pytest.mark.parametrize("balance", ["<BALAMT>", "<BALAMT> \n", "<BALAMT></BALAMT>", "", "<BALAMT>x", "<BALAMT>1.001"])
def test_wrong_balance_is_told_and_never_fatal(balance: str) -> None:
    found = read(file_of(statement(transaction(), tail=f"<LEDGERBAL>{balance}<DTASOF>20260131</LEDGERBAL>")))
    assert [(p.code, p.rejects) for p in found.problems] == [("invalid_balance", False)]
    assert found.statements[0].balances == []
    assert len(found.entries[0]) == 1


def test_balance_with_a_wrong_date_keeps_its_amount() -> None:
    found = read(file_of(statement(tail="<LEDGERBAL><BALAMT>1<DTASOF>x</LEDGERBAL>")))
    assert codes(found) == ["invalid_balance"]
    assert [(b.signed_minor, b.on) for b in found.statements[0].balances] == [(100, None)]


def test_investment_statement_has_its_cash_and_its_trades_are_skipped_by_name() -> None:
    trade = (
        "<BUYSTOCK><INVBUY><INVTRAN><FITID>T1<DTTRADE>20260101</INVTRAN><SECID><UNIQUEID>1</SECID><TOTAL>-99</INVBUY>"
        "<BUYTYPE>BUY</BUYSTOCK>\n"
    )
    text = (
        "<INVSTMTRS><DTASOF>20260131<CURDEF>USD<INVACCTFROM><BROKERID>b<ACCTID>X1</INVACCTFROM>"
        f"<INVTRANLIST><DTSTART>20260101<DTEND>\n{trade}<INVBANKTRAN>{transaction()}<SUBACCTFUND></INVBANKTRAN>"
        f"{trade}<INCOME><TOTAL>1</INCOME></INVTRANLIST><INVPOSLIST><POSSTOCK><UNITS>1</POSSTOCK></INVPOSLIST></INVSTMTRS>"
    )
    for style in (as_sgml, as_xml):
        found = read(HEADER + style(file_of(text, header="")))
        assert [s.rule for s in found.skipped] == ["ofx_investment"] * 3
        assert [(s.account, s.currency) for s in found.statements] == [("X1", "USD")]
        assert [e.amount_minor for e in found.entries[0]] == [500]
        assert codes(found) == []


def test_loans_deletions_and_corrections_are_told() -> None:
    loan = (
        "<LOANSTMTRS><LOANTRANLIST><LOANSTMTTRN><LOANTRNAMT><X>1</LOANTRNAMT></LOANSTMTTRN></LOANTRANLIST></LOANSTMTRS>"
    )
    rows = (
        transaction("-5", "A", CORRECTFITID="Z", CORRECTACTION="REPLACE"),
        transaction("-6", "B", CORRECTFITID="Y", CORRECTACTION="DELETE"),
    )
    found = read(file_of(loan, statement(*rows)))
    assert [(s.rule, s.line) for s in found.skipped] == [("ofx_loan", 8), ("ofx_deletion", 10)]
    assert [e.bank_reference for e in found.entries[0]] == ["A"]
    assert codes(found) == ["ofx_correction"]


def test_pending_transactions() -> None:
    pending = "<STMTTRNP><TRNTYPE>POS<DTTRAN>20260130<TRNAMT>-5<NAME>Shop</STMTTRNP>"
    pending = f"<BANKTRANLISTP><DTASOF>20260131{pending}</BANKTRANLISTP>"
    found = read(file_of(statement(transaction("-1"), tail=pending)))
    assert codes(found) == []
    assert [(e.status, e.booking_on, e.amount_minor) for e in found.entries[0]] == [
        ("booked", date(2026, 1, 2), 100),
        ("pending", date(2026, 1, 30), 500),
    ]


def test_answer_without_a_statement_is_refused() -> None:
    for body in ("", "<STATUS><CODE>2000<SEVERITY>ERROR</STATUS>", transaction()):
        with pytest.raises(UnreadableFileError) as caught:
            read(file_of(body))
        assert caught.value.reason == "no_statement"


def test_error_status_beside_a_statement_is_told() -> None:
    found = read(file_of("<STATUS><CODE>2000<SEVERITY>ERROR</STATUS>\n", statement(transaction())))
    assert [(p.code, p.line) for p in found.problems] == [("ofx_status", 8)]
    assert "2000" in found.problems[0].detail


def test_transaction_outside_a_statement_is_rejected() -> None:
    found = read(file_of(statement(transaction()), transaction("-6")))
    assert [(p.code, p.rejects, p.line) for p in found.problems] == [("entry_outside_statement", True, 11)]


def test_missing_end_tags() -> None:
    first = transaction("-1", "A").replace("</STMTTRN>", "")
    found = read(file_of(statement(first, transaction("-2", "B"), transaction("-3", "C").replace("</STMTTRN>", ""))))
    assert [(e.amount_minor, e.line) for e in found.entries[0]] == [(100, 9), (200, 10), (300, 11)]
    text = file_of(statement(transaction("-1")).replace("</STMTRS>", ""), statement(transaction("-2"), account="4"))
    found = read(text)
    assert [(s.account, len(found.entries[s.index])) for s in found.statements] == [("123", 1), ("4", 1)]
    assert codes(found) == []


def test_lines_of_transactions_that_have_several() -> None:
    found = read(file_of(statement(*[transaction().replace("<", "\n<")] * 3, transaction("x"))))
    assert [e.line for e in found.entries[0]] == [10, 17, 24]
    assert [(p.code, p.line) for p in found.problems] == [("invalid_amount", 30)]


def test_account_of_the_caller_and_account_that_is_too_long() -> None:
    assert read(file_of(statement(account="")), account="77").statements[0].account == "77"
    found = read(file_of(statement(account="1" * 501)))
    assert (codes(found), found.statements[0].account) == (["field_too_long"], None)


def test_detection() -> None:
    def detect(text: str) -> Detected | None:
        return READER.detect(head_of(text.encode()), ReadOptions())

    assert detect(file_of()) == Detected("ofx", "102")
    assert detect("\n\n <OFX></OFX>") == Detected("ofx")
    assert detect('<?xml version="1.0"?>\n<?OFX OFXHEADER="200" VERSION="220" SECURITY="NONE"?><OFX>') == Detected(
        "ofx", "220"
    )
    assert detect("OFXHEADER:100 DATA:OFXSGML VERSION:103 <OFX><VERSION>9") == Detected("ofx", "103")
    assert detect("ofxheader:100\n<ofx>") == Detected("ofx")
    assert detect(" " * 4096 + "<OFX>") is None
    for other in ("", "<OFXX>", "<Document/>", "a;b\n1;2\n", "OFX"):
        assert detect(other) is None, other
    with pytest.raises(UnreadableFileError) as caught:
        detect('OFXHEADER:100\n<!DOCTYPE OFX [<!ENTITY a "b">]><OFX>')
    assert caught.value.reason == "xml_dtd_forbidden"
