"""Settlement reports: what the payer paid, what the provider kept, and what moved, row by row."""

from __future__ import annotations

import csv
import io
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.incoming_transactions import identity_of
from payrec.domain.statements import Entry, Money, Problem, StatementEnd
from payrec.formats.base import ReadOptions
from support.csv_files import entries, read, reason, rejected, signed, skipped
from support.fuzzing import attempt

STRIPE = (
    "automatic_payout_id,balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net,reporting_category,"
    "source_id,payment_intent_id,description,customer_name,payment_metadata[order_id]\n"
)
ADYEN = (
    "Company Account,Merchant Account,Psp Reference,Merchant Reference,Creation Date,Type,Modification Reference,"
    "Gross Currency,Gross Debit (GC),Gross Credit (GC),Exchange Rate,Net Currency,Net Debit (NC),Net Credit (NC),"
    "Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC),Modification Merchant Reference,Batch Number\n"
)
SECTION = '"SH",2026/01/02 00:00:00 +0100,2026/01/02 23:59:59 +0100,"M1",""\n'
COLUMNS = (
    '"CH","Transaction ID","Invoice ID","PayPal Reference ID","Transaction Event Code","Transaction Initiation Date",'
    '"Transaction Completion Date","Transaction Debit or Credit","Gross Transaction Amount",'
    '"Gross Transaction Currency","Fee Debit or Credit","Fee Amount","Fee Currency","Custom Field"\n'
)
TRR = COLUMNS.replace('"Custom Field"', '"Custom Field","Transactional Status"')


def stripe(*rows: str) -> str:
    return STRIPE + "".join(f"po_1,{row}\n" for row in rows)


def adyen(*rows: str) -> str:
    return ADYEN + "".join(f"C,Shop,{row},7\n" for row in rows)


def body(number: int, side: str, amount: str, currency: str, fee: str = '"",,""', more: str = "") -> str:
    """Return a line of PayPal's reports."""
    on = "2026/01/02 10:00:00 +0100"
    return f'"SB","T{number}","INV-{number}","","T0006",{on},{on},"{side}",{amount},"{currency}",{fee},"c"{more}\n'


def net(entry: Entry) -> int:
    assert entry.net is not None
    return entry.net.amount_minor if entry.net.direction == "credit" else -entry.net.amount_minor


# Stripe -------------------------------------------------------------------------------------------------------------


def test_a_stripe_charge_has_gross_net_fee_references_and_its_payout() -> None:
    text = stripe(
        "txn_1,2026-01-02 23:59:59,2026-01-05 00:00:00,eur,100.00,1.75,98.25,charge,ch_1,pi_1,Order,Ada,O-77",
        "txn_2,2026-01-05 00:00:00,2026-01-05 00:00:00,eur,-98.25,0,-98.25,payout,po_1,,STRIPE PAYOUT,,",
    )
    charge, payout = entries(text)
    assert (charge.amount_minor, charge.direction, charge.currency, net(charge)) == (10_000, "credit", "EUR", 9825)
    assert charge.charges == [Money(175, "EUR", "debit")]
    assert (charge.bank_transaction_code, charge.external_id, charge.identity_kind) == ("charge", "txn_1", "bank")
    assert (charge.bank_reference, charge.end_to_end_id) == ("ch_1", "pi_1")
    assert (charge.remittance, charge.counterparty_name) == ("Order\nO-77", "Ada")
    assert charge.metadata == {"payment_metadata[order_id]": "O-77"}
    assert (charge.booking_on, charge.value_on) == (date(2026, 1, 2), date(2026, 1, 5))
    assert charge.batch is not None
    assert payout.batch is not None
    assert charge.batch.group_key == payout.batch.group_key == "po_1"
    assert net(charge) + net(payout) == 0
    assert payout.end_to_end_id == "po_1"


def test_stripe_currencies_by_their_minor_unit_are_statements_of_their_own() -> None:
    row = "txn_{0},2026-01-02,2026-01-05,{1},{2},0,{2},charge,ch_{0},,,,"
    items, result = read(
        stripe(row.format(1, "jpy", "1200"), row.format(2, "kwd", "1.234"), row.format(3, "jpy", "-1"))
    )
    assert [(s.statement.currency, s.statement.kind) for s in items if isinstance(s, StatementEnd)] == [
        ("JPY", "settlement"),
        ("KWD", "settlement"),
    ]
    assert signed([i for i in items if isinstance(i, Entry)]) == [1200, 1234, -1]
    assert result.file.format == "stripe"
    assert rejected(stripe(row.format(1, "jpy", "1.5"), row.format(2, "xxx", "1"))) == [
        ("amount_precision", 2),
        ("invalid_entry", 3),
    ]


def test_a_row_without_gross_moves_its_net() -> None:
    found = entries(stripe("txn_1,2026-01-02,2026-01-05,eur,0.00,5.00,-5.00,fee,,,Fees,,"))
    assert (signed(found), net(found[0]), found[0].charges) == ([-500], -500, [])


def test_gross_less_fee_is_net_or_it_is_told() -> None:
    items, _ = read(stripe("txn_1,2026-01-02,2026-01-05,eur,100.00,1.75,98.00,charge,ch_1,,,,"))
    assert [(i.code, i.line) for i in items if isinstance(i, Problem)] == [("control_total_mismatch", 2)]


def test_stripe_columns_vary_and_their_order_too() -> None:
    text = "net,fee,gross,balance_transaction_id,created\n98.25,1.75,100.00,txn_1,2026-01-02 10:00\n"
    assert rejected(text) == [("invalid_entry", 2)]
    found = entries(text, currency="eur")
    assert (found[0].amount_minor, net(found[0]), found[0].booking_on) == (10_000, 9825, date(2026, 1, 2))


def test_what_the_customer_saw_in_another_currency() -> None:
    header = "balance_transaction_id,created,currency,gross,fee,net,customer_facing_amount,customer_facing_currency\n"
    rows = [
        "txn_1,2026-01-02,eur,46.30,0,46.30,50.00,usd",
        "txn_2,2026-01-02,eur,1,0,1,1,eur",
        "txn_3,2026-01-02,eur,1,0,1,x,usd",
    ]
    found = entries(header + "\n".join(rows) + "\n")
    assert [e.original for e in found] == [Money(5000, "USD"), None, None]


def test_a_row_of_another_width_is_rejected_alone() -> None:
    good = "txn_1,2026-01-02,2026-01-05,eur,1,0,1,charge,ch_1,,,,"
    text = stripe(good, good + ",x", good + ",,", good[:-2]) + " ,,\n"
    assert rejected(text) == [("invalid_entry", 3), ("invalid_entry", 5)]
    assert skipped(text) == [("csv_blank_row", 6)]
    assert [e.occurrence for e in entries(text)] == [0, 1]


def test_an_id_that_comes_again_with_another_amount_is_told() -> None:
    row = "txn_1,2026-01-02,2026-01-05,eur,{0},0,{0},charge,ch_1,,,,"
    items, _ = read(stripe(row.format(1), row.format(2)))
    assert [i.code for i in items if isinstance(i, Problem)] == ["identity_reused"]
    assert [e.identity_kind for e in items if isinstance(e, Entry)] == ["bank", "fingerprint"]


# Adyen --------------------------------------------------------------------------------------------------------------


def test_an_adyen_payment_in_the_payers_currency_nets_in_the_merchants() -> None:
    found = entries(
        adyen(
            "PSP1,INV-1,2026-01-02 10:00:00,Settled,MOD1,USD,,50.00,0.92,EUR,,45.20,0.30,0.10,0.25,0.15,INV-1",
            "PSP1,INV-1,2026-01-03 10:00:00,Refunded,MOD2,USD,20.00,,0.92,EUR,18.40,,,,,,INV-1-R",
            ",,2026-01-04 10:00:00,Fee,Fees January,,,,,EUR,0.10,,,,,,",
            ",,2026-01-05 10:00:00,MerchantPayout,TX1,,,,,EUR,26.70,,,,,,",
        )
    )
    settled, refund, fee, payout = found
    assert (settled.amount_minor, settled.currency, net(settled)) == (5000, "USD", 4520)
    assert [c.amount_minor for c in settled.charges] == [30, 10, 25, 15]
    assert {c.currency for c in settled.charges} == {"EUR"}
    assert (settled.exchange_rate, settled.account, settled.end_to_end_id) == ("0.92", "Shop", "INV-1")
    assert (settled.bank_reference, settled.transaction_id) == ("MOD1", "PSP1")
    assert settled.external_id == "PSP1/MOD1/Settled/7"
    assert (refund.direction, refund.amount_minor, net(refund), refund.remittance) == ("debit", 2000, -1840, "INV-1-R")
    assert (fee.amount_minor, fee.currency, net(fee), fee.bank_transaction_code) == (10, "EUR", -10, "Fee")
    assert (fee.remittance, fee.identity_value, fee.external_id) == ("Fees January", "Shop/Fees January/Fee/7", None)
    assert payout.bank_transaction_code == "MerchantPayout"
    assert sum(map(net, found)) == 0
    assert {e.batch.group_key for e in found if e.batch} == {"batch 7, Shop"}


def test_the_net_of_a_settled_payment_can_be_negative() -> None:
    (found,) = entries(adyen("PSP1,I,2026-01-02,Settled,MOD1,EUR,,0.05,1,EUR,0.08,,0.13,,,,I"))
    assert (found.direction, found.amount_minor, net(found)) == ("credit", 5, -8)
    assert found.net is not None
    assert found.net.direction == "debit"


def test_a_booking_date_goes_before_a_creation_date() -> None:
    text = adyen("PSP1,I,2026-01-02,Settled,MOD1,EUR,,1.00,1,EUR,,1.00,,,,,I")
    text = text.replace("Batch Number", "Batch Number,Booking Date").replace(",7\n", ",7,2026-01-09 01:02:03\n")
    assert [e.booking_on for e in entries(text)] == [date(2026, 1, 9)]


def test_an_adyen_row_without_amount_or_currency_is_rejected_alone() -> None:
    text = adyen(
        "PSP1,I,2026-01-02,Settled,MOD1,EUR,,1.00,1,EUR,,,,,,,I",
        "PSP1,I,2026-01-02,Settled,MOD1,EUR,,1.00,1,,,1.00,,,,,I",
        "PSP1,I,2026-01-02,Settled,MOD1,EUR,,x,1,EUR,,1.00,,,,,I",
        "PSP1,I,,Settled,MOD1,EUR,,1.00,1,EUR,,1.00,,,,,I",
        "PSP1,I,2026-01-02,Settled,MOD1,EUR,,1.00,1,EUR,,1.00,,,,,I",
    )
    assert rejected(text) == [("invalid_amount", 2), ("invalid_entry", 3), ("invalid_amount", 4), ("missing_date", 5)]
    assert len(entries(text)) == 1


def test_a_fee_of_every_merchant_account_is_one_of_its_own_and_so_is_one_that_comes_twice() -> None:
    row = ",,2026-01-30,Fee,Transaction Fees January,,,,,EUR,0.10,,,,,,"
    text = adyen(row, row)
    text += text.removeprefix(ADYEN).replace("C,Shop,", "C,Store,")
    found = entries(text)
    assert [(e.account, e.occurrence) for e in found] == [(name, n) for name in ("Shop", "Store") for n in (0, 1)]
    assert len({identity_of(e) for e in found}) == 4
    assert [identity_of(e) for e in entries(text)] == [identity_of(e) for e in found]
    shops = (entries(adyen(row).replace("Shop", name), account="ADYEN") for name in ("Shop", "Store"))
    assert len({identity_of(fee) for [fee] in shops}) == 2


def test_rows_without_any_reference_are_told_by_their_content() -> None:
    rows = [",,2026-01-04,Fee,,,,,,EUR,0.10,,,,,,", ",,2026-01-04,Fee,,,,,,EUR,0.20,,,,,,"]
    assert [e.identity_kind for e in entries(adyen(*rows))] == ["fingerprint", "fingerprint"]


# PayPal -------------------------------------------------------------------------------------------------------------


def test_paypal_amounts_are_minor_units_whose_sides_stand_beside_them() -> None:
    text = (
        SECTION
        + COLUMNS
        + body(1, "CR", "10000", "EUR", '"DR",285,"EUR"')
        + body(2, "DR", "2000", "EUR", '"CR",10,"EUR"')
    )
    found = entries(text)
    assert (signed(found), [net(e) for e in found]) == ([10_000, -2000], [9715, -1990])
    assert [e.charges for e in found] == [[Money(285, "EUR", "debit")], [Money(10, "EUR", "credit")]]
    first = found[0]
    assert (first.account, first.external_id, first.end_to_end_id, first.remittance) == ("M1", "T1/T0006", "INV-1", "c")
    assert (first.booking_on, first.bank_transaction_code) == (date(2026, 1, 2), "T0006")
    assert first.batch is not None
    assert first.batch.group_key == "M1 2026/01/02 00:00:00 +0100"


def test_paypal_decimals_are_those_of_the_currency_or_of_the_profile() -> None:
    text = SECTION + COLUMNS + body(1, "CR", "1200", "JPY") + body(2, "CR", "1234", "KWD") + body(3, "CR", "5", "EUR")
    assert signed(entries(text)) == [1200, 1234, 5]
    assert signed(entries(text, profile={"impliedDecimals": 2})) == [12, 12_340, 5]
    odd = SECTION + COLUMNS + body(1, "CR", "1250", "JPY")
    assert rejected(odd) == []
    assert rejected(odd, profile={"impliedDecimals": 2}) == [("amount_precision", 3)]


def test_a_paypal_line_with_point_sign_or_without_side_is_rejected_alone() -> None:
    text = SECTION + COLUMNS + "".join(
        (
            body(1, "CR", "1.50", "EUR"),
            body(2, "CR", "-150", "EUR"),
            body(3, "", "150", "EUR"),
            body(4, "CR", "150", "EUR", '"",5,"EUR"'),
            body(5, "CR", "150", "XXX"),
            body(6, "CR", "150", "EUR", more=',"x"'),
            '"SB","T7"\n',
            '"ZZ","?"\n',
            body(8, "CR", "150", "EUR"),
        )
    )  # fmt: skip
    assert rejected(text) == [
        ("invalid_amount", 3),
        ("invalid_amount", 4),
        ("missing_direction", 5),
        ("missing_direction", 6),
        ("invalid_entry", 7),
        ("invalid_entry", 8),
        ("invalid_entry", 9),
        ("invalid_entry", 10),
    ]
    assert signed(entries(text)) == [150]


def test_a_fee_in_another_currency_is_a_charge_and_no_part_of_the_net() -> None:
    (found,) = entries(SECTION + COLUMNS + body(1, "CR", "1000", "EUR", '"DR",30,"USD"'))
    assert (net(found), found.charges) == (1000, [Money(30, "USD", "debit")])


def test_paypal_status_says_what_is_pending_and_what_never_was() -> None:
    lines = [body(n, "CR", "100", "EUR", more=f',"{state}"') for n, state in enumerate("SPDVX", start=1)]
    text = SECTION + TRR + "".join(lines)
    assert [(e.status, e.external_id) for e in entries(text)] == [("booked", "T1/T0006"), ("pending", "T2/T0006")]
    assert skipped(text) == [("paypal_denied", 5), ("paypal_voided", 6)]
    assert rejected(text) == [("invalid_entry", 7)]
    assert read(text)[1].file.format == "paypal_trr"


def test_sections_have_their_account_period_and_columns() -> None:
    other = SECTION.replace("M1", "M2").replace("01/02", "01/03")
    moved = COLUMNS.replace('"Custom Field"', '"Bank Reference ID"').replace('"CH",', '"CH","Store ID",')
    text = (
        SECTION
        + COLUMNS
        + body(1, "CR", "100", "EUR")
        + other
        + moved
        + body(2, "CR", "200", "EUR").replace('"SB",', '"SB","s",')
    )
    found = entries(text)
    assert [(e.account, e.amount_minor, e.remittance) for e in found] == [("M1", 100, "c"), ("M2", 200, "c")]
    assert len({e.batch.group_key for e in found if e.batch}) == 2
    assert reason(SECTION + COLUMNS + body(1, "CR", "1", "EUR") + '"CH","Transaction ID"\n') == "csv_column_missing"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('"SF","EUR",300,100,0,20', None),
        ('"SF","EUR",301,100,0,20', "control_total_mismatch"),
        ('"SF","EUR",300,100,0,0', "control_total_mismatch"),
        ('"RF","EUR",300,100,0,21', "control_total_mismatch"),
        ('"SF","USD",0,0,0,0', None),
        ('"SF","USD",5,0,0,0', "control_total_mismatch"),
        ('"SF","EUR",x,1,1,1', None),
        ('"SF","EUR"', None),
        ('"SC",2', None),
        ('"SC",3', "control_total_mismatch"),
        ('"RC",1', "control_total_mismatch"),
        ('"FF",4', "control_total_mismatch"),
        ('"FF",', None),
    ],
)
def test_the_sums_and_counts_of_a_paypal_report_are_compared(line: str, code: str | None) -> None:
    text = SECTION + COLUMNS + body(1, "CR", "300", "EUR", '"DR",20,"EUR"') + body(2, "DR", "100", "EUR") + line + "\n"
    items, _ = read(text)
    assert [i.code for i in items if isinstance(i, Problem)] == ([code] if code else [])
    (end,) = [i.statement for i in items if isinstance(i, StatementEnd)]
    if line.startswith('"SF","EUR",3'):
        assert end.control_totals_check == ("mismatch" if code else "ok")
    else:
        assert end.control_totals_check == "not_available"


# Detection ----------------------------------------------------------------------------------------------------------


def test_a_named_format_must_be_the_reports() -> None:
    text = stripe("txn_1,2026-01-02,2026-01-05,eur,1,0,1,charge,ch_1,,,,")
    assert signed(entries(text, format="stripe")) == [100]
    assert reason(text, format="adyen") == "unknown_format"
    assert signed(entries(text, profile={"format": "stripe"})) == [100]


def test_a_profile_for_a_table_has_the_report_read_as_it_says() -> None:
    text = stripe("txn_1,2026-01-02,2026-01-05,eur,1,0.25,0.75,charge,ch_1,,,,")
    (found,) = entries(
        text, profile={"columns": {"bookingDate": "created_utc", "amount": "net", "currency": "currency"}}
    )
    assert (found.amount_minor, found.net) == (75, None)


def test_the_profile_sets_account_metadata_and_delimiter() -> None:
    text = stripe("txn_1,2026-01-02,2026-01-05,eur,1,0,1,charge,ch_1,,,Ada,").replace(",", ";")
    (found,) = entries(text, profile={"account": "acct_1", "metadata": ["source_id"], "delimiter": ";"})
    assert (found.account, found.metadata) == ("acct_1", {"source_id": "ch_1"})
    assert reason(text, profile={"metadata": ["other"]}) == "csv_column_missing"
    assert [e.account for e in entries(text, account="Mine")] == ["Mine"]


def test_lines_above_the_header_are_no_records_and_it_is_looked_for_in_vain_further_down() -> None:
    row = "txn_1,2026-01-02,2026-01-05,eur,1,0,1,charge,ch_1,,,,"
    items, result = read("Balance report\n\n" + stripe(row))
    assert [e.line for e in items if isinstance(e, Entry)] == [4]
    assert result.file.counts.records == 1
    assert reason("x\n" * 41 + stripe(row)) == "unknown_format"
    assert reason(STRIPE.replace("\n", ",x" * 600 + "\n")) == "csv_too_many_columns"


# Whatever is written ------------------------------------------------------------------------------------------------

CENTS = st.integers(-(10**9), 10**9)


def money(minor: int) -> str:
    return f"{'-' if minor < 0 else ''}{abs(minor) // 100}.{abs(minor) % 100:02}"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CENTS, st.integers(0, 10**6), st.text(max_size=10)), min_size=1, max_size=6))
def test_gross_and_net_are_read_back_exactly(rows: list[tuple[int, int, str]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for n, (gross, fee, text) in enumerate(rows):
        name = "".join(c for c in text if c.isprintable())
        sums = [money(gross), money(fee), money(gross - fee)]
        writer.writerow([f"txn_{n}", "2026-01-02", "2026-01-02", "eur", *sums, "charge", "ch", "", name, "", ""])
    found = entries(stripe(*out.getvalue().splitlines()))
    assert [net(e) for e in found] == [gross - fee for gross, fee, _ in rows]
    assert signed(found) == [gross or gross - fee for gross, fee, _ in rows]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([STRIPE, ADYEN, SECTION + COLUMNS, SECTION + TRR]), st.binary(max_size=300))
def test_any_bytes_below_a_header_are_read_or_refused(header: str, data: bytes) -> None:
    attempt(header.encode() + data, ReadOptions())


CELLS: Any = st.sampled_from(
    ["SB", "SH", "SF", "SC", "CH", "CR", "DR", "1", "-1", "1.5", "EUR", "eur", "", "2026-01-02", '"']
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([STRIPE, ADYEN, SECTION + COLUMNS, SECTION + TRR]),
    st.lists(st.lists(CELLS, max_size=22), max_size=5),
)
def test_any_cells_below_a_header_are_read_or_refused(header: str, rows: list[list[str]]) -> None:
    attempt((header + "\n".join(",".join(row) for row in rows)).encode(), ReadOptions())
