"""Days that statements speak of are counted once, and a gap lies between what closed and what opens."""

from __future__ import annotations

from datetime import date, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.continuity import Continuity
from payrec.domain.statement_timelines import TimelineStatement, covered_day_count, gaps_of

FIRST = date(2026, 3, 2)
DAYS = 40


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


spans = st.lists(st.tuples(st.integers(-10, DAYS), st.integers(0, 20)).map(lambda s: (day(s[0]), day(s[0] + s[1]))))


@given(spans, st.integers(0, DAYS), st.integers(0, DAYS))
def test_a_day_is_counted_once_however_many_statements_speak_of_it(
    found: list[tuple[date, date]], begin: int, length: int
) -> None:
    since, until = day(begin), day(begin + length)
    days = {day(n) for n in range(begin, begin + length + 1)}
    covered = {d for d in days if any(first <= d <= last for first, last in found)}
    assert covered_day_count(found, since, until) == len(covered)


def statement(begins: int, ends: int, continuity: Continuity, expected: int | None = None) -> TimelineStatement:
    return TimelineStatement(
        import_id=UUID(int=1),
        begins_on=day(begins),
        ends_on=day(ends),
        opening_minor=500,
        closing_minor=700,
        entry_count=1,
        balance_check="ok",
        continuity=continuity,
        expected_opening_minor=None if expected is None else 400,
        expected_on=None if expected is None else day(expected),
    )


def test_a_gap_is_between_the_day_that_closed_and_the_day_that_opens() -> None:
    found = gaps_of([statement(0, 1, "first"), statement(5, 6, "gap", 1), statement(7, 8, "ok")])
    assert [(gap.begins_on, gap.ends_on, gap.difference_minor) for gap in found] == [(day(2), day(4), 100)]
    assert [gap.import_id for gap in found] == [UUID(int=1)]


def test_a_gap_without_a_day_between_is_the_first_day_of_the_later_statement() -> None:
    [gap] = gaps_of([statement(2, 2, "gap", 1)])
    assert (gap.begins_on, gap.ends_on) == (day(2), day(2))


def test_of_an_unknown_balance_no_difference_is_told() -> None:
    [gap] = gaps_of([statement(2, 2, "gap")])
    assert gap.difference_minor is None
