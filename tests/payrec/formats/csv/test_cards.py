"""Tables of payment cards: purchases without a sign, payments with a minus, and how one is known."""

from __future__ import annotations

import pytest

from support.csv_files import entries, reason, signed

DISCOVER = """\
Trans. Date,Post Date,Description,Amount,Category
01/15/2026,01/16/2026,SHOP,45.60,Merchandise
01/16/2026,01/16/2026,PAYMENT - THANK YOU,-100.00,Payments and Credits
01/17/2026,01/18/2026,FUEL,10.00,Gas
"""
APPLE = """\
Transaction Date,Clearing Date,Description,Merchant,Category,Type,Amount (USD),Purchased By
01/15/2026,01/16/2026,SHOP,Shop,Shopping,Purchase,45.60,Ann
01/16/2026,01/16/2026,ACH DEPOSIT,Ach,Payment,Payment,-100.00,Ann
"""
CHASE = """\
Transaction Date,Post Date,Description,Category,Type,Amount,Memo
01/15/2026,01/16/2026,SHOP,Shopping,Sale,-45.60,
01/16/2026,01/16/2026,Payment Thank You,,Payment,100.00,
"""
CITI = """\
Status,Date,Description,Debit,Credit,Member Name
Cleared,01/15/2026,SHOP,45.60,,ANN
Cleared,01/16/2026,PAYMENT THANK YOU,,-100.00,ANN
Cleared,01/17/2026,REFUND,,-5.00,ANN
"""


@pytest.mark.parametrize("text", [DISCOVER, APPLE])
def test_a_card_is_known_by_the_two_dates_of_its_purchases(text: str) -> None:
    """Its purchases were money in."""
    assert reason(text, currency="USD") == "csv_ambiguous_sign"
    found = signed(entries(text, currency="USD", profile={"sign": "inverted"}))
    assert found == [-4560, 10_000, -1000][: len(found)]


def test_a_purchase_that_is_negative_says_the_sign() -> None:
    assert signed(entries(CHASE, currency="USD")) == [-4560, 10_000]
    assert reason(CHASE.replace("-45.60", "45.60"), currency="USD") == "csv_ambiguous_sign"
    # Without its kind it is only one of two amounts.
    assert reason(CHASE.replace("Sale", "Fuel"), currency="USD") == "csv_ambiguous_sign"


def test_credits_that_all_have_a_minus_are_money_in() -> None:
    assert signed(entries(CITI, currency="USD")) == [-4560, 10_000, 500]
    header, purchase, payment, refund = CITI.splitlines(keepends=True)
    assert signed(entries(header + purchase + payment, currency="USD")) == [-4560, 10_000]
    # What a card's statement has one of may be a correction in that of a bank, but two are none.
    bank = CITI.replace(",Member Name", "").replace(",ANN", "")
    assert signed(entries(bank, currency="USD")) == [-4560, 10_000, 500]
    assert signed(entries(bank.replace(refund.replace(",ANN", ""), ""), currency="USD")) == [-4560, -10_000]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("Cleared,01/18/2026,CREDIT,,7.00,ANN\n", id="a credit without a minus"),
        pytest.param("Cleared,01/18/2026,SHOP,-7.00,,ANN\n", id="a debit with one"),
    ],
)
def test_a_credit_with_a_minus_is_money_out_where_the_table_has_both(other: str) -> None:
    assert signed(entries(CITI + other, currency="USD"))[1:3] == [-10_000, -500]


def test_the_profile_says_that_a_minus_is_one() -> None:
    assert signed(entries(CITI, currency="USD", profile={"sign": "as_is"})) == [-4560, -10_000, -500]


def test_a_file_whose_credits_turn_out_to_be_of_both_kinds_is_refused() -> None:
    late = "Cleared,01/18/2026,CREDIT,,7.00,ANN\n"
    many = CITI + CITI.splitlines(keepends=True)[1] * 3_000
    assert len(entries(many, currency="USD")) == 3_003
    assert reason(many + late, currency="USD") == "csv_ambiguous_sign"
    assert signed(entries(many + late, currency="USD", profile={"sign": "as_is"}))[-1] == 700
