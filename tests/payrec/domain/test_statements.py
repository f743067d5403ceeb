"""What a statement counts of its entries."""

from __future__ import annotations

from payrec.domain.statements import Balance, Statement, Totals


def test_entries_are_counted_and_summed_by_their_direction() -> None:
    totals = Totals()
    totals.add("credit", 100)
    assert totals == Totals(credit_count=1, credit_minor=100)
    totals.add("debit", 7)
    totals.add("credit", 20)
    totals.add("debit", 5)
    totals.add("credit", 0)
    assert totals == Totals(credit_count=3, credit_minor=120, debit_count=2, debit_minor=12)


def test_the_first_balance_of_its_kind_counts_and_an_overdraft_is_negative() -> None:
    balances = [
        Balance("closing", 5, "EUR", "credit"),
        Balance("opening", 7, "EUR", "debit"),
        Balance("opening", 9, "EUR", "credit"),
    ]
    statement = Statement(0, balances=balances)
    assert statement.balance("opening") is balances[1]
    assert statement.balance("interim") is None
    assert [balance.signed_minor for balance in balances] == [5, -7, 9]
