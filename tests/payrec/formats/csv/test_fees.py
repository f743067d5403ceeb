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
