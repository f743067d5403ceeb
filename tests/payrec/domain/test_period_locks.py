"""Which days are open to decisions, and since when a day has been locked."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.period_locks import LockSpan, OpenDays, locked_since
from payrec.errors import FieldError, PeriodLockedError, ValidationFailedError

HOURS = 12
DAY_LONG = timedelta(days=1)
BEGIN = datetime(2026, 4, 1, tzinfo=UTC)
DAY = date(2026, 3, 10)
DAYS = st.sampled_from([DAY + timedelta(days=days) for days in range(-2, 3)])
NAMES = st.sampled_from([None, "GIRO", "RESERVE"])


def at(hour: int) -> datetime:
    return BEGIN + timedelta(hours=hour)


@st.composite
def spans(draw: st.DrawFn) -> list[LockSpan]:
    found = []
    for begun in draw(st.lists(st.integers(0, HOURS), max_size=5, unique=True)):
        ended = draw(st.none() | st.integers(begun + 1, HOURS + 1))
        found.append(LockSpan(locked_at=at(begun), reopened_at=None if ended is None else at(ended)))
    return found


@given(spans(), st.none() | st.integers(0, HOURS))
def test_a_day_is_locked_since_the_last_hour_in_which_it_was_open(found: list[LockSpan], asked: int | None) -> None:
    def is_locked(hour: int) -> bool:
        return any(s.locked_at <= at(hour) and (s.reopened_at is None or s.reopened_at > at(hour)) for s in found)

    last = HOURS + 2 if asked is None else asked
    since = None
    for hour in range(last, -1, -1):
        if not is_locked(hour):
            break
        since = at(hour)
    assert locked_since(found, None if asked is None else at(asked)) == since


@given(st.dictionaries(NAMES, DAYS), DAYS | st.none(), DAYS | st.none(), st.sets(NAMES))
def test_a_decision_counts_from_no_locked_day_and_not_before_its_lines(
    through: dict[str | None, date], last_on: date | None, wanted: date | None, accounts: set[str | None]
) -> None:
    first = max((day for name, day in through.items() if name is None or name in accounts), default=None)
    days = OpenDays(through=through)
    if wanted is not None and first is not None and wanted <= first:
        with pytest.raises(PeriodLockedError) as refused:
            days.day(last_on, wanted, accounts)
        assert refused.value.members == {"firstOpenOn": str(first + timedelta(days=1))}
        assert refused.value.detail == "effectiveOn is in a locked period"
    elif wanted is not None and last_on is not None and wanted < last_on:
        with pytest.raises(ValidationFailedError) as early:
            days.day(last_on, wanted, accounts)
        detail = "lies before what is decided about"
        assert early.value.errors == (FieldError(pointer="/effectiveOn", code="before_its_lines", detail=detail),)
    elif wanted is not None or last_on is None:
        assert days.day(last_on, wanted, accounts) == wanted
    else:
        assert days.day(last_on, None, accounts) == (last_on if first is None else max(last_on, first + DAY_LONG))


def test_what_is_said_of_a_day_that_is_locked() -> None:
    days = OpenDays(through={"GIRO": DAY})
    days.check(DAY, "RESERVE")
    days.check(DAY + timedelta(days=1), "GIRO")
    with pytest.raises(PeriodLockedError) as refused:
        days.check(DAY, "GIRO")
    assert refused.value.members == {"firstOpenOn": str(DAY + timedelta(days=1))}


@pytest.mark.parametrize(
    ("last_on", "wanted", "counts_from"),
    [
        (DAY - DAY_LONG, None, DAY + DAY_LONG),
        (DAY + 2 * DAY_LONG, None, DAY + 2 * DAY_LONG),
        (None, None, None),
        (DAY, DAY + DAY_LONG, DAY + DAY_LONG),
        (DAY + DAY_LONG, DAY + DAY_LONG, DAY + DAY_LONG),
        (None, DAY + 2 * DAY_LONG, DAY + 2 * DAY_LONG),
    ],
)
def test_the_day_after_a_lock_is_the_first_from_which_a_decision_counts(
    last_on: date | None, wanted: date | None, counts_from: date | None
) -> None:
    days = OpenDays(through={None: DAY - DAY_LONG, "GIRO": DAY, "RESERVE": DAY + 5 * DAY_LONG})
    assert days.day(last_on, wanted, ["GIRO"]) == counts_from
