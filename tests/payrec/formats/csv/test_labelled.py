"""Rows whose text or name is a word for a balance: whoever pays writes that, so amounts and balances decide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.statements import Problem, StatementEnd
from payrec.formats.csv.words import CLOSING_WORDS, OPENING_WORDS, TURNOVER_WORDS
from support.csv_files import HEADER, entries, read, rejected, signed, skipped

BALANCED = "Date;Amount;Balance;Currency;Account;Counterparty;Text\n"
OWN = "DE89370400440532013000"
LABELS = sorted(OPENING_WORDS | CLOSING_WORDS | TURNOVER_WORDS)


def balanced(rows: list[tuple[int, int, str, str]], *, newest_first: bool = False) -> str:
    lines = [
        f"2026-11-{n + 1:02};{m / 100:.2f};{b / 100:.2f};EUR;{OWN};{w};{t}\n" for n, (m, b, w, t) in enumerate(rows)
    ]
    return BALANCED + "".join(reversed(lines) if newest_first else lines)


@pytest.mark.parametrize(
    ("name", "text"), [("Evil Ltd", "Anfangssaldo"), ("Closing balance", "inv 9"), ("", "Turnover")]
)
def test_a_row_that_moves_the_balance_is_a_payment_whatever_its_text_says(name: str, text: str) -> None:
    rows = [(500, 10500, "Anna", "inv 1"), (-5025, 5475, name, text), (100, 5575, "Bob", "inv 2")]
    for newest_first in (False, True):
        table = balanced(rows, newest_first=newest_first)
        assert sorted(signed(entries(table))) == [-5025, 100, 500]
        assert (skipped(table), rejected(table)) == ([], [])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**6), st.booleans(), st.sampled_from([*LABELS, "rent"]), st.sampled_from(["", "Al"])
        ),
        min_size=2,
        max_size=8,
    ),
    st.booleans(),
)
def test_no_payment_is_lost_to_its_text(rows: list[tuple[int, bool, str, str]], newest_first: bool) -> None:  # noqa: FBT001  # drawn
    balance, made = 10**7 + 3, []
    for minor, is_out, text, name in rows:
        moved = -minor if is_out else minor
        balance += moved
        made.append((moved, balance, name, text))
    found = entries(balanced([(1, 10**7 + 3, "Eve", "first"), *made], newest_first=newest_first))
    assert sorted(signed(found)) == sorted([1, *(moved for moved, *_ in made)])


def test_a_row_whose_amount_is_the_balance_or_that_has_none_is_the_balance() -> None:
    table = BALANCED + (
        f"2026-11-01;100.00;100.00;EUR;{OWN};;Opening balance\n2026-11-02;5.00;105.00;EUR;{OWN};Anna;inv 1\n"
        f"2026-11-02;;105.00;EUR;{OWN};;Closing balance\n"
    )
    assert (signed(entries(table)), skipped(table)) == ([500], [("csv_balance_row", 2), ("csv_balance_row", 4)])
    statement = next(i.statement for i in read(table)[0] if isinstance(i, StatementEnd))
    assert [b.signed_minor for b in statement.balances if b.type == "interim"] == [10000, 10500]


def test_what_may_be_either_is_rejected_and_told() -> None:
    table = BALANCED + (
        f"2026-11-01;100.00;100.00;EUR;{OWN};Anna;Opening balance\n2026-11-02;5.00;105.00;EUR;{OWN};Anna;inv 1\n"
        f"2026-11-03;7.00;500.00;EUR;{OWN};;Saldovortrag\n"
    )
    assert rejected(table) == [("ambiguous_balance_row", 2), ("ambiguous_balance_row", 4)]


def test_without_a_balance_column_an_account_makes_a_payment_and_a_name_a_doubt() -> None:
    table = (
        "Date;Amount;Currency;Own account;Counterparty name;Counterparty IBAN;Text\n"
        f"2026-11-01;10.00;EUR;{OWN};;;Opening balance\n"
        f"2026-11-02;-2.00;EUR;{OWN};Eve;FR7630006000011234567890189;Endsaldo\n"
        f"2026-11-03;-3.00;EUR;{OWN};Eve;;Endsaldo\n2026-11-03;-4.00;EUR;{OWN};Endsaldo;;inv 2\n"
    )
    assert signed(entries(table)) == [-200]
    assert skipped(table) == [("csv_balance_row", 2)]
    assert rejected(table) == [("ambiguous_balance_row", 4), ("ambiguous_balance_row", 5)]


def test_a_balance_between_payments_is_told_unless_they_lead_to_it() -> None:
    table = HEADER + (
        "2026-11-01;Opening balance;10.00;EUR\n2026-11-02;a;1.50;EUR\n2026-11-02;S A L D O;11.50;EUR\n"
        "2026-11-03;b;2.00;EUR\n2026-11-03;Saldo final;7.00;EUR\n2026-11-04;c;1.00;EUR\n"
        "2026-11-04;Saldo final;14.50;EUR\n"
    )
    assert [(i.code, i.line) for i in read(table)[0] if isinstance(i, Problem)] == [("ambiguous_balance_row", 6)]
    assert [line for _, line in skipped(table)] == [2, 4, 6, 8]


def test_a_labelled_row_that_is_wrong_is_rejected_where_it_is_a_payment() -> None:
    table = BALANCED + (
        f"2026-11-01;1..2;5.00;EUR;{OWN};Anna;Opening balance\n2026-11-02;1..2;5.00;EUR;{OWN};Total;petrol\n"
        f"2026-11-02;5.00;10.00;EUR;{OWN};Bob;inv 1\n;15.00;;EUR;{OWN};;Total\n"
    )
    assert rejected(table) == [("invalid_amount", 2), ("invalid_amount", 3)]
    assert skipped(table) == [("csv_balance_row", 5)]


def test_an_own_account_that_is_called_otherwise_makes_no_payment_of_a_balance() -> None:
    """Its column is then the counterparty's, the same in every row: what all rows say tells none from a balance."""
    table = (
        "Account No;Date;Beneficiary;Details;Amount;Currency\n"
        f"{OWN};2026-10-01;;Opening balance;10374.04;EUR\n{OWN};2026-10-01;Bolt;Shopping;-15.31;EUR\n"
        f"{OWN};2026-10-06;;Turnover;-15.31;EUR\n{OWN};2026-10-06;;Closing balance;10358.73;EUR\n"
    )
    for account in (None, "our bank"):
        assert signed(entries(table, account=account)) == [-1531]
        assert skipped(table, account=account) == [("csv_balance_row", line) for line in (2, 4, 5)]
