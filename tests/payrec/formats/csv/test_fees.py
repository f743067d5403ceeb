"""A column of fees beside that of amounts: the running balance says whether the one includes the other."""

from __future__ import annotations

from typing import Any

import pytest

from payrec.domain.statements import Problem, StatementEnd
from support.csv_files import entries, read, rejected, signed

HEADER = "Completed Date,Description,Amount,Fee,Currency,Balance\n"
ROWS = (
    "2026-03-02,Jones,1000.00,0.00,EUR,1000.00\n",
    "2026-03-03,Energy,-85.00,0.20,EUR,914.80\n",
    "2026-03-04,Abroad,-100.00,-1.50,EUR,813.30\n",
    "2026-03-05,Smith,50.00,,EUR,863.30\n",
)
MOVED = [100_000, -8_520, -10_150, 5_000]


def moved(found: list[Any]) -> list[int]:
    """Return what each entry moved, money in positive."""
    nets = [e.net or e for e in found]
    return [n.amount_minor if n.direction == "credit" else -n.amount_minor for n in nets]


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
def test_a_fee_that_moves_the_balance_besides_is_a_charge(order: int) -> None:
    text = HEADER + "".join(ROWS[::order])
    found = entries(text)[::order]
    assert signed(found) == [100_000, -8_500, -10_000, 5_000]
    assert moved(found) == MOVED
    charges = [[(c.amount_minor, c.currency, c.direction) for c in e.charges] for e in found]
    assert charges == [[], [(20, "EUR", "debit")], [(150, "EUR", "debit")], []]
    items, _ = read(text)
    assert not [item for item in items if isinstance(item, Problem)]
    [end] = [item for item in items if isinstance(item, StatementEnd)]
    assert [(balance.type, balance.amount_minor) for balance in end.statement.balances] == [
        ("opening", 0),
        ("closing", 86_330),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEADER + ROWS[0] + "2026-03-03,Energy,-85.20,0.20,EUR,914.80\n", id="included"),
        pytest.param(HEADER + ROWS[0] + "2026-03-03,Energy,-85.20,0.20,EUR,\n", id="nothing tells"),
        pytest.param("Date,Description,Amount,Fee,Currency\n2026-03-03,Energy,-85.20,0.20,EUR\n", id="no balance"),
    ],
)
def test_a_fee_that_the_amount_may_include_is_left_out(text: str) -> None:
    found = entries(text)[-1]
    assert (signed([found]), found.net, found.charges) == ([-8_520], None, [])


def test_a_fee_that_cannot_be_read_is_no_fee_of_nothing() -> None:
    text = HEADER + "".join(ROWS) + "2026-03-06,Fuel,-10.00,some,EUR,853.00\n"
    assert rejected(text) == [("invalid_amount", 6)]


NETS = "Date,Description,Gross,Fee,Net,Currency"


@pytest.mark.parametrize("sign", ["", "-"], ids=["fees without sign", "fees with a sign"])
def test_the_net_says_whether_a_fee_was_kept_or_given_back(sign: str) -> None:
    given_back = "" if sign else "-"
    text = f"""{NETS}
2026-03-02,Sale,100.00,{sign}2.00,98.00,EUR
2026-03-03,Refund,-20.00,{sign}0.50,-20.50,EUR
2026-03-04,Refund,-10.00,{given_back}0.25,-9.75,EUR
2026-03-05,Billed apart,50.00,{sign}1.00,50.00,EUR
"""
    found = entries(text)
    assert (signed(found), moved(found)) == ([10_000, -2_000, -1_000, 5_000], [9_800, -2_050, -975, 5_000])
    charges = [(c.amount_minor, c.direction) for e in found for c in e.charges]
    assert charges == [(200, "debit"), (50, "debit"), (25, "credit"), (100, "debit")]


@pytest.mark.parametrize("sign", ["", "-"], ids=["net without sign", "net with a sign"])
def test_a_net_goes_the_way_that_a_mark_says(sign: str) -> None:
    text = f"""{NETS},D/C
2026-03-02,Sale,100.00,2.00,98.00,EUR,C
2026-03-03,Refund,20.00,0.00,{sign}20.00,EUR,D
2026-03-04,Refund,20.00,0.50,{sign}20.50,EUR,D
2026-03-05,Sale of less than its fee,0.05,0.13,-0.08,EUR,C
"""
    found = entries(text)
    assert (signed(found), moved(found)) == ([10_000, -2_000, -2_000, 5], [9_800, -2_000, -2_050, -8])


@pytest.mark.parametrize("sign", ["", "-"], ids=["net without sign", "net with a sign"])
def test_a_net_goes_the_way_of_its_debit_or_credit(sign: str) -> None:
    columns = {"bookingDate": "Date", "debit": "Out", "credit": "In", "net": "Net", "fee": "Fee"}
    text = f"""Date,Out,In,Fee,Net
2026-03-02,,100.00,2.00,98.00
2026-03-03,20.00,,0.50,{sign}20.50
"""
    found = entries(text, profile={"columns": columns, "currency": "EUR"})
    assert (signed(found), moved(found)) == ([10_000, -2_000], [9_800, -2_050])


def test_a_profile_that_turns_amounts_turns_their_nets() -> None:
    text = f"{NETS}\n2026-03-02,Sale,-100.00,2.00,-98.00,EUR\n2026-03-03,Refund,20.00,0.00,20.00,EUR\n"
    found = entries(text, profile={"sign": "inverted"})
    assert (signed(found), moved(found)) == ([10_000, -2_000], [9_800, -2_000])


def test_a_row_without_gross_moves_its_net() -> None:
    text = f"{NETS}\n2026-03-02,Sale,100.00,2.00,98.00,EUR\n2026-03-03,Monthly fee,0.00,-5.00,-5.00,EUR\n"
    items, _ = read(text)
    found = entries(text)
    assert (signed(found), moved(found), found[1].charges) == ([10_000, -500], [9_800, -500], [])
    [end] = [item for item in items if isinstance(item, StatementEnd)]
    assert (end.statement.booked.credit_minor, end.statement.booked.debit_minor) == (9_800, 500)
