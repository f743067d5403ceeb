"""Stripe's balance history: the rows of the itemised reports under the headings of the dashboard."""

from __future__ import annotations

from payrec.domain.statements import Money
from support.csv_files import entries, read, rejected, signed

HEADER = (
    "id,Type,Source,Amount,Fee,Destination Platform Fee,Destination Platform Fee Currency,Net,Currency,Created (UTC),"
    "Available On (UTC),Description,Customer Facing Amount,Customer Facing Currency,Transfer,Transfer Date (UTC),"
    "Transfer Group,order_id (metadata)\n"
)
ROWS = (
    'txn_1,charge,ch_1,"1,100.00",1.75,,,"1,098.25",eur,2026-01-02 23:59,2026-01-05,Order,1200.00,usd,po_1,,,O-77\n',
    "txn_2,refund,re_1,-100.00,-0.50,,,-99.50,eur,2026-01-03 10:00,2026-01-05 00:00,Refund,-100.00,eur,po_1,,,\n",
    "txn_3,stripe_fee,,-2.00,0.00,,,-2.00,eur,2026-01-04 10:00,2026-01-05 00:00,Radar,,,po_1,,,\n",
    "txn_4,payout,po_1,-996.75,0.00,,,-996.75,eur,2026-01-06 00:00,2026-01-06 00:00,STRIPE PAYOUT,,,po_1,,,\n",
)


def test_the_balance_history_has_gross_net_fee_and_payout() -> None:
    items, result = read(HEADER + "".join(ROWS))
    assert result.file.format == "stripe"
    assert not result.file.problems
    found = entries(HEADER + "".join(ROWS))
    assert signed(found) == [110_000, -10_000, -200, -99_675]
    nets = [e.net.amount_minor if e.net.direction == "credit" else -e.net.amount_minor for e in found if e.net]
    assert nets == [109_825, -9_950, -200, -99_675]
    assert sum(nets) == 0
    assert [e.external_id for e in found] == ["txn_1", "txn_2", "txn_3", "txn_4"]
    assert {e.batch.group_key for e in found if e.batch} == {"po_1"}
    charge, refund, *_ = found
    assert (charge.charges, refund.charges) == ([Money(175, "EUR", "debit")], [Money(50, "EUR", "credit")])
    assert (charge.original, refund.original) == (Money(120_000, "USD"), None)
    assert (charge.bank_transaction_code, charge.bank_reference, charge.remittance) == ("charge", "ch_1", "Order\nO-77")
    assert charge.metadata == {"order_id (metadata)": "O-77"}
    assert len(items) == len(found) + 2  # the statement and its end


def test_the_same_row_of_history_and_report_is_the_same_transaction() -> None:
    report = "balance_transaction_id,created_utc,currency,gross,fee,net\ntxn_2,2026-01-03,eur,-100.00,-0.50,-99.50\n"
    [reported] = entries(report)
    listed = entries(HEADER + "".join(ROWS))[1]
    assert (listed.identity_value, listed.account, listed.currency, listed.booking_on) == (
        reported.identity_value,
        reported.account,
        reported.currency,
        reported.booking_on,
    )


def test_amounts_with_a_decimal_comma_are_rejected_and_not_taken_for_more() -> None:
    text = HEADER + ROWS[2].replace("-2.00,0.00,,,-2.00", '"-2,00","0,00",,,"-2,00"')
    assert rejected(text) == [("invalid_amount", 2)]
