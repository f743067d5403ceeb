"""Tables of payment service providers that no reader of theirs knows: gross, net, tax, kinds of rows and states."""

from __future__ import annotations

from typing import Any

import pytest

from payrec.errors import UnreadableFileError
from support.csv_files import entries, read, reason, rejected, signed, skipped

SUMUP = """\
Email,Date,Transaction ID,Transaction Type,Status,Description,Total,Net,Tax Amount,Fee,Payout,Payout Date
a@example.com,2026-01-02 10:11:00,TAAA1,Sale,Successful,Coffee,11.90,10.00,1.90,0.20,11.70,2026-01-05
a@example.com,2026-01-02 10:12:00,TAAA2,Sale,Failed,Coffee,23.80,20.00,3.80,0.00,0.00,
a@example.com,2026-01-03 10:12:00,TAAA3,Refund,Successful,Coffee,-11.90,-10.00,-1.90,0.00,-11.90,2026-01-05
"""
SUMUP_GERMAN = """\
E-Mail;Datum;Status;Beschreibung;Betrag inkl. MwSt.;Netto;Steuerbetrag;Gebühr
a@example.com;02.01.2026 10:11;Erfolgreich;Kaffee;11,90;10,00;1,90;0,20
"""
KINDS = """\
Date,Type,Amount,Currency,Reference
2026-01-02,SALE,100.00,EUR,INV-77
2026-01-02,FEE,6.25,EUR,INV-77
2026-01-04,Refund_Deduction,10.00,EUR,INV-77
2026-01-06,PAYOUT,83.75,EUR,P1
"""
KLARNA = """\
"payout_date","total_settlement_amount","currency_code","total_fee_amount","payment_reference"
"2026-01-06T00:00:00Z","83.75","EUR","6.25","K1"

"type","capture_id","sale_date","amount","currency_code","merchant_reference1","merchant_reference2","detailed_type"
"SALE","c1","2026-01-02","100.00","EUR","INV-77","","PURCHASE"
"FEE","c1","2026-01-02","6.25","EUR","INV-77","","PURCHASE_FEE_PERCENTAGE"
"RETURN","c1","2026-01-02","10.00","EUR","INV-77","","PURCHASE_RETURN"
"""


def answered(text: str, **options: Any) -> list[dict[str, Any]]:
    """Return the values that the refusal offers."""
    with pytest.raises(UnreadableFileError) as refused:
        read(text, **options)
    assert refused.value.question is not None
    return [alternative.value for alternative in refused.value.question.alternatives]


@pytest.mark.parametrize(("text", "wanted"), [(SUMUP, [1190, -1190]), (SUMUP_GERMAN, [1190])])
def test_a_net_of_tax_is_not_what_reached_the_account(text: str, wanted: list[int]) -> None:
    found = entries(text, currency="EUR")
    assert signed(found) == wanted
    assert [(entry.net, entry.charges) for entry in found] == [(None, [])] * len(found)


def test_a_net_of_tax_alone_is_no_amount() -> None:
    row = "2026-01-02,Coffee,10.00,1.90,EUR\n"
    text = f"Date,Description,Net,Tax Amount,Currency\n{row}{row}"
    assert reason(text) == "csv_no_header"


def test_a_net_of_the_fee_is_one_beside_a_tax_too() -> None:
    text = """\
Date,Description,Total,Tax,Fee,Net,Currency
2026-01-02,Coffee,11.90,1.90,0.20,11.70,EUR
2026-01-03,Coffee,-11.90,-1.90,0.00,-11.90,EUR
"""
    sale, refund = entries(text)
    assert (signed([sale, refund]), refund.net) == ([1190, -1190], None)
    assert sale.net is not None
    assert (sale.net.amount_minor, [charge.amount_minor for charge in sale.charges]) == (1170, [20])


@pytest.mark.parametrize("row", ["100.00,2.00,0.40,97.60", "100.00,-2.00,-0.40,97.60", "100.00,2.00,,97.60"])
def test_a_net_of_the_fee_and_its_tax_is_one_too(row: str) -> None:
    row = f"2026-01-02,Sale,{row},EUR\n"
    [entry] = entries(f"Date,Description,Amount,Fee,VAT,Net,Currency\n{row}")
    assert entry.net is not None
    assert (entry.amount_minor, entry.net.amount_minor) == (10_000, 9_760)


@pytest.mark.parametrize("heading", ["Processing fee", "transaction_fees", "Fee,Total fee", "Fee amount"])
def test_a_fee_under_other_headings_is_a_charge(heading: str) -> None:
    fee = "2.00,2.30" if "," in heading else "2.30"
    [entry] = entries(f"Date,Description,Amount,{heading},Net,Currency\n2026-01-02,Sale,100.00,{fee},97.70,EUR\n")
    assert [charge.amount_minor for charge in entry.charges] == [230]


@pytest.mark.parametrize("garbled", ["9" * 5000, "²", "-"], ids=["long", "no digit", "none"])
def test_a_garbled_cell_is_no_evidence_of_a_tax(garbled: str) -> None:
    header, row = "Date,Description,Amount,Fee,VAT,Net,Currency\n", "2026-01-02,Sale,100.00,2.00,0.40,97.60,EUR\n"
    text = f"{header}{row}{row}2026-01-02,Sale,{garbled},{garbled},{garbled},{garbled},EUR\n"
    assert [entry.net.amount_minor for entry in entries(text) if entry.net] == [9_760, 9_760]
    assert rejected(text) == [("invalid_amount", 4)]


def test_a_net_amount_is_none_of_gross() -> None:
    [entry] = entries("Date,Description,Amount,Fee,Net Amount,Currency\n2026-01-02,Sale,100.00,2.00,98.00,EUR\n")
    assert entry.net is not None
    assert (entry.amount_minor, entry.net.amount_minor) == (10_000, 9_800)
    [alone] = entries("Date,Description,Fee,Net Amount,Currency\n2026-01-02,Sale,2.00,98.00,EUR\n")
    assert (alone.amount_minor, alone.net) == (9_800, None)


def test_a_gross_without_a_sign_goes_the_way_of_its_net() -> None:
    text = """\
Date,Type,Gross,Fee,Net,Currency
2026-01-02,Sale,100.00,2.00,98.00,EUR
2026-01-03,Refund,20.00,0.00,-20.00,EUR
2026-01-03,Chargeback,20.00,15.00,-35.00,EUR
2026-01-04,Sale of less than its fee,0.05,0.13,-0.08,EUR
"""
    found = entries(text)
    assert signed(found) == [10_000, -2_000, -2_000, 5]
    nets = [entry.net or entry for entry in found]
    assert [(n.amount_minor, n.direction) for n in nets] == [
        (9_800, "credit"),
        (2_000, "debit"),
        (3_500, "debit"),
        (8, "debit"),
    ]
    charges = [(c.amount_minor, c.direction) for entry in found for c in entry.charges]
    assert charges == [(200, "debit"), (1_500, "debit"), (13, "debit")]


def test_fees_and_refunds_without_a_sign_are_asked_about() -> None:
    assert reason(KINDS) == "csv_ambiguous_sign"
    every, without_payouts, as_is = answered(KINDS)
    assert signed(entries(KINDS, profile=every)) == [10_000, -625, -1_000, -8_375]
    assert signed(entries(KINDS, profile=without_payouts)) == [10_000, -625, -1_000, 8_375]
    assert signed(entries(KINDS, profile=as_is)) == [10_000, 625, 1_000, 8_375]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(KINDS.replace(",6.25", ",-6.25"), id="an amount has a sign"),
        pytest.param(KINDS.replace("Type", "Text"), id="no kinds"),
        pytest.param(KINDS.replace("Currency", "Currency,Balance").replace(",EUR", ",EUR,1.00"), id="a balance"),
        pytest.param("".join(KINDS.splitlines(keepends=True)[:2]), id="sales alone"),
    ],
)
def test_nothing_is_asked_where_there_is_no_doubt(text: str) -> None:
    assert signed(entries(text))[0] == 10_000


def test_headings_with_a_number_are_headings() -> None:
    header = answered(KLARNA)[0]
    assert header["headerRow"] == 4
    sides = answered(KLARNA, profile=header)[0]
    found = entries(KLARNA, profile=header | sides)
    assert signed(found) == [10_000, -625, -1_000]
    assert {entry.remittance for entry in found} == {"INV-77"}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ("paid_out", "booked"),
        ("confirmed", "booked"),
        ("pending_submission", "pending"),
        ("submitted", "pending"),
        ("awaiting capture", "pending"),
        ("requires_payment_method", None),
        ("customer_approval_denied", None),
        ("bounced", None),
        ("Uncaptured", None),
        ("unsuccessful", None),
    ],
)
@pytest.mark.parametrize("heading", ["Status", "Transaction Status", "Payment status"])
def test_what_providers_say_of_a_payment_that_moved_nothing(heading: str, status: str, wanted: str | None) -> None:
    text = f"Date,Description,Amount,Currency,{heading}\n2026-01-02,a,1.00,EUR,{status}\n2026-01-03,b,2.00,EUR,paid\n"
    states = [entry.status for entry in entries(text)]
    assert states == [*([wanted] if wanted else []), "booked"]
    assert skipped(text) == ([] if wanted else [("csv_not_done_row", 2)])


AMAZON = """\
settlement-id;deposit-date;total-amount;currency;transaction-type;order-id;amount-type;amount;posted-date
1;2026-01-17;86.50;EUR;;;;;
1;;;;Order;302-1;Principal;100.00;2026-01-03
1;;;;Order;302-1;Commission;-13.50;2026-01-03
1;;;;Refund;302-2;Principal;-20.00;2026-01-04
1;;;;Refund;302-2;Commission;20.00;2026-01-04
""".replace(";", "\t")


def test_a_total_of_many_rows_is_not_the_amount_of_one() -> None:
    """It was, so that no row had an amount."""
    found = entries(AMAZON, currency="EUR")
    assert signed(found) == [10_000, -1_350, -2_000, 2_000]
    assert found[0].remittance is not None
    assert "302-1" in found[0].remittance
    assert rejected(AMAZON, currency="EUR") == [("missing_date", 2)]
    # Where each row has a total, that is what moved, the fee included.
    total = (
        "Date;Description;Amount;Total amount;Currency\n2026-01-02;a;10.00;10.50;EUR\n2026-01-03;b;20.00;20.50;EUR\n"
    )
    assert signed(entries(total)) == [1_050, 2_050]


def test_a_currency_that_only_the_first_row_has_is_asked_for() -> None:
    with pytest.raises(UnreadableFileError) as refused:
        read(AMAZON.replace("EUR", "SEK"))
    assert (refused.value.reason, refused.value.question and refused.value.question.option) == (
        "csv_no_currency",
        "currency",
    )
    assert refused.value.question is not None
    assert [alternative.value for alternative in refused.value.question.alternatives][:2] == ["SEK", "EUR"]
    # Rows without an amount need none.
    filled = "Date;Text;Amount;Currency\n2026-01-02;a;1.00;EUR\n" + "2026-01-03;b;;\n" * 5
    assert signed(entries(filled)) == [100]
