"""By when statements are due: business days alone count, and nothing is due twice, early, or not at all."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.business_days import due_at, is_weekday
from payrec.domain.statement_periods import Period, due_periods

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/St_Johns"]).map(ZoneInfo)
FRIDAY = date(2026, 3, 27)


def told(every: str, hours: int, since: date, now: datetime) -> list[tuple[str, str]]:
    found = due_periods(every, hours=hours, since=since, now=now, zone=BERLIN, is_business_day=is_weekday, limit=100)
    return [(str(period.begins_on), str(period.ends_on)) for period in found]


def test_hours_are_those_of_business_days() -> None:
    for hours, due in (
        (0, datetime(2026, 3, 27, 23, tzinfo=UTC)),
        # Monday counts from its first hour on; clocks are put forward on the Sunday before it.
        (1, datetime(2026, 3, 29, 23, tzinfo=UTC)),
        (24, datetime(2026, 3, 30, 22, tzinfo=UTC)),
        (5 * 24, datetime(2026, 4, 3, 22, tzinfo=UTC)),
        (5 * 24 + 6, datetime(2026, 4, 6, 4, tzinfo=UTC)),
    ):
        found = due_at(FRIDAY, hours, zone=BERLIN, is_business_day=is_weekday)
        assert found == due, hours
        assert found.tzinfo is UTC


def test_a_period_is_a_day_a_week_or_a_month() -> None:
    now = datetime(2026, 4, 2, 12, tzinfo=UTC)
    assert told("day", 24, date(2026, 3, 26), now) == [
        ("2026-03-26", "2026-03-26"), ("2026-03-27", "2026-03-27"), ("2026-03-30", "2026-03-30"),
        ("2026-03-31", "2026-03-31"),
    ]  # fmt: skip
    assert told("week", 24, date(2026, 3, 18), now) == [("2026-03-16", "2026-03-22"), ("2026-03-23", "2026-03-29")]
    assert told("month", 24, date(2026, 2, 28), now) == [("2026-02-01", "2026-02-28"), ("2026-03-01", "2026-03-31")]
    assert told("month", 24, date(2026, 3, 15), now) == [("2026-03-01", "2026-03-31")]
    assert told("month", 48, date(2026, 3, 31), now) == []


def test_a_week_or_month_that_ends_with_free_days_is_due_before_they_are_over() -> None:
    # The last two days of May are a weekend.
    evening = datetime(2026, 5, 29, 22, tzinfo=UTC)
    for every, begins_on in (("week", "2026-05-25"), ("month", "2026-05-01")):
        assert told(every, 0, date(2026, 5, 31), evening) == [(begins_on, "2026-05-31")]
        assert told(every, 0, date(2026, 5, 31), evening - timedelta(microseconds=1)) == []


@given(
    every=st.sampled_from(["day", "week", "month"]),
    hours=st.integers(0, 744),
    since=st.dates(date(2026, 1, 1), date(2026, 6, 30)),
    now=st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001 - naive bounds
    later=st.timedeltas(timedelta(), timedelta(days=20)),
    zone=ZONES,
    holidays=st.sets(st.dates(date(2026, 1, 1), date(2026, 12, 31)), max_size=40),
)
def test_what_is_due_stays_due_and_is_told_in_order(
    every: str, hours: int, since: date, now: datetime, later: timedelta, zone: ZoneInfo, holidays: set[date]
) -> None:
    def is_business_day(day: date) -> bool:
        return is_weekday(day) and day not in holidays

    def due(at: datetime, limit: int = 1_000) -> list[Period]:
        return due_periods(
            every, hours=hours, since=since, now=at, zone=zone, is_business_day=is_business_day, limit=limit
        )

    found = due(now)
    assert due(now + later)[: len(found)] == found
    assert due(now, 3) == found[-3:]
    assert all(before.ends_on < after.begins_on and before.due_at <= after.due_at for before, after in pairwise(found))
    for period in found:
        assert period.ends_on >= since
        assert period.due_at <= now
        assert period in due(period.due_at)
        assert period not in due(period.due_at - timedelta(microseconds=1))
        days = [period.begins_on + timedelta(days=n) for n in range((period.ends_on - period.begins_on).days + 1)]
        last = max(day for day in days if is_business_day(day))
        at = period.due_at.astimezone(zone)
        between = [last + timedelta(days=n) for n in range(1, (at.date() - last).days)]
        assert 24 * sum(map(is_business_day, between)) + at.hour == hours
        assert at.date() > last
