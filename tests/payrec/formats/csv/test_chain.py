"""The running balance of a table: a row that is missing or was changed is told, a day's balance is no gap."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.statements import Problem, Statement, StatementEnd
from support.csv_files import read

Row = tuple[date, int, "int | None"]
"""Day, amount and balance."""

FIRST = date(2026, 3, 1)
AMOUNTS = [500, -1234, 99, 4207, -318, 77]


def made(amounts: list[int], opening: int = 10000, per_day: int = 1) -> list[Row]:
    rows: list[Row] = []
    for n, minor in enumerate(amounts):
        opening += minor
        rows.append((FIRST + timedelta(days=n // per_day), minor, opening))
    return rows


def table(rows: list[Row], *, account: str = "A1") -> str:
    lines = (f"{on};{account};t;{m / 100:.2f};{'' if b is None else f'{b / 100:.2f}'};EUR\n" for on, m, b in rows)
    return "Date;Own account;Text;Amount;Balance;Currency\n" + "".join(lines)


def told(text: str, **options: object) -> tuple[Statement, list[int | None]]:
    items, _ = read(text, **options)  # type: ignore[arg-type]  # options of a file
    lines = [i.line for i in items if isinstance(i, Problem) and i.code == "balance_mismatch" and i.line]
    return next(i.statement for i in items if isinstance(i, StatementEnd)), lines


def ends(statement: Statement) -> tuple[int | None, int | None]:
    opening, closing = statement.balance("opening"), statement.balance("closing")
    return opening and opening.signed_minor, closing and closing.signed_minor


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("per_day", [1, 2, 6])
def test_rows_that_follow_are_proved_in_either_order(step: int, per_day: int) -> None:
    statement, lines = told(table(made(AMOUNTS, per_day=per_day)[::step]))
    assert (ends(statement), statement.balance_check, lines) == ((10000, 10000 + sum(AMOUNTS)), "ok", [])


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_a_row_that_is_missing_is_told_where_it_was(step: int, missing: int) -> None:
    rows = made(AMOUNTS)[::step]
    gone = rows.pop(missing)
    statement, lines = told(table(rows))
    assert (statement.balance_check, statement.balance_difference_minor) == ("mismatch", gone[1])
    assert lines == [missing + 2]


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("changed", [1, 2, 3, 4])
def test_an_amount_and_a_balance_that_were_changed_are_told(step: int, changed: int) -> None:
    rows = made(AMOUNTS)[::step]
    on, minor, balance = rows[changed]
    assert balance is not None
    statement, lines = told(table([*rows[:changed], (on, minor + 7, balance), *rows[changed + 1 :]]))
    assert (statement.balance_check, statement.balance_difference_minor) == ("mismatch", -7)
    assert len(lines) == 1
    statement, lines = told(table([*rows[:changed], (on, minor, balance + 7), *rows[changed + 1 :]]))
    assert len(lines) == 1


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("blank", [False, True])
def test_a_balance_of_the_days_end_alone_is_no_gap(*, step: int, blank: bool) -> None:
    rows = made([*AMOUNTS, 250, -30, 811, 46], per_day=2)
    of_days = {on: balance for on, _, balance in rows}
    last = {on: n for n, (on, *_) in enumerate(rows)}
    days = [(on, m, None if blank and last[on] != n else of_days[on]) for n, (on, m, _) in enumerate(rows)]
    single = made([5, 6, 7], opening=rows[-1][2] or 0)
    alone = [(on + timedelta(days=20), m, b) for on, m, b in single]
    statement, lines = told(table([*days, *alone][::step]))
    assert (lines, statement.balance_check) == ([], "ok")
    assert ends(statement) == (10000, 10000 + sum(m for _, m, _ in [*days, *alone]))


@pytest.mark.parametrize("step", [1, -1])
def test_a_day_that_is_missing_between_balances_of_days_is_told(step: int) -> None:
    rows = made([*AMOUNTS, 250, -30, 811, 46, 12, 31], per_day=2)
    of_days = {on: balance for on, _, balance in rows}
    gone = FIRST + timedelta(days=2)
    days = [(on, minor, of_days[on]) for on, minor, _ in rows if on != gone][::step]
    statement, lines = told(table(days))
    assert (statement.balance_check, len(lines)) == ("mismatch", 1)


def test_a_column_that_is_no_running_balance_proves_nothing() -> None:
    for balances in ([5000] * 6, [1, 7, 3, 9, 4, 8], [None] * 6):
        rows = [(on, m, b) for (on, m, _), b in zip(made(AMOUNTS), balances, strict=True)]
        statement, lines = told(table(rows))
        assert (ends(statement), statement.balance_check, lines) == ((None, None), "not_available", [])


def test_two_rows_prove_nothing() -> None:
    assert told(table(made([5, 7])))[0].balance_check == "not_available"


def test_rows_of_a_day_in_another_order_are_no_gap() -> None:
    rows = made(AMOUNTS)
    rows[2], rows[3] = rows[3], rows[2]
    statement, lines = told(table(rows))
    assert (statement.balance_check, lines) == ("ok", [])


def test_accounts_in_turns_have_a_chain_each() -> None:
    one, other = (table(made(AMOUNTS, opening), account=a).splitlines() for a, opening in (("A1", 0), ("A2", -700)))
    mixed = [one[0], *(line for pair in zip(one[1:], other[1:], strict=True) for line in pair)]
    del mixed[6]
    items, _ = read("\n".join(mixed) + "\n")
    found = [i.statement for i in items if isinstance(i, StatementEnd)]
    assert [s.balance_check for s in found] == ["ok", "mismatch"]
    assert [(i.statement, i.line) for i in items if isinstance(i, Problem) and i.line] == [(1, 8)]


def test_a_pending_row_is_no_gap() -> None:
    lines = table(made(AMOUNTS)).splitlines()
    lines.insert(3, "Pending;A1;t;-9.00;83.66;EUR")
    lines.append("Pending;A1;t;-9.00;1.00;EUR")
    assert told("\n".join(lines) + "\n")[1] == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(10**6), 10**6).filter(bool), min_size=5, max_size=12),
    st.integers(-(10**6), 10**6),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_whole_table_is_always_proved(amounts: list[int], opening: int, per_day: int, newest: bool) -> None:  # noqa: FBT001  # drawn
    statement, lines = told(table(made(amounts, opening, per_day)[:: -1 if newest else 1]), profile={"sign": "as_is"})
    assert (ends(statement), statement.balance_check, lines) == ((opening, opening + sum(amounts)), "ok", [])
