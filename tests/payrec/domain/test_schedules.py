"""Schedules: the next time lies ahead and fits the expression, and one that never comes is refused."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.schedules import ScheduleError, next_after

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
INSTANTS = st.datetimes(datetime(2024, 1, 1), datetime(2032, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - made aware


@given(st.integers(0, 59), st.integers(0, 23), INSTANTS, st.sampled_from(ZONES))
def test_a_daily_schedule_comes_within_a_day_and_a_clock_change(
    minute: int, hour: int, after: datetime, zone: str
) -> None:
    found = next_after(f"{minute} {hour} * * *", after, zone)
    assert timedelta() < found - after <= timedelta(hours=26)
    local = found.astimezone(ZoneInfo(zone))
    offsets = {(local + timedelta(hours=h)).utcoffset() for h in (-4, 0, 4)}
    assert (local.hour, local.minute) == (hour, minute) or len(offsets) > 1


@given(INSTANTS, st.sampled_from(ZONES))
def test_the_times_of_a_schedule_are_steps(after: datetime, zone: str) -> None:
    for _ in range(5):
        found = next_after("*/15 * * * 1-5", after, zone)
        assert found > after
        assert found.astimezone(ZoneInfo(zone)).weekday() < 5
        after = found


def refusal(expression: str, after: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> tuple[str, str, str]:
    """Return code and detail of the error, and its text."""
    with pytest.raises(ScheduleError) as refused:
        next_after(expression, after, "UTC")
    return refused.value.code, refused.value.detail, str(refused.value)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "* * 31 4 *"])
def test_a_schedule_that_never_comes_is_refused(expression: str) -> None:
    assert refusal(expression) == ("schedule_never", "no day matches it", "no day matches it")


def test_a_schedule_that_would_come_after_the_calendar_is_refused() -> None:
    last = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)
    assert refusal("0 0 1 * *", last) == ("schedule_never", "no day matches it", "no day matches it")


def test_a_leap_day_comes() -> None:
    found = next_after("0 0 29 2 *", datetime(2026, 1, 1, tzinfo=UTC), "Europe/Berlin")
    assert found == datetime(2028, 2, 28, 23, tzinfo=UTC)
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "expression",
    ["60 * * * *", "* 24 * * *", "* * 32 * *", "* * * 13 *", "a b c d e"],
)
def test_what_is_no_schedule_is_refused(expression: str) -> None:
    assert refusal(expression) == ("schedule_malformed", "is no cron expression", "is no cron expression")


@pytest.mark.parametrize("expression", ["", "* * * *", "* * * * * *", "@daily"])
def test_fewer_or_more_fields_are_no_schedule(expression: str) -> None:
    detail = "must have five fields: minute, hour, day, month, day of the week"
    assert refusal(expression) == ("schedule_malformed", detail, detail)


@given(st.text("0123456789*/,-LW# MONJAN", max_size=30))
def test_nothing_else_is_ever_raised(expression: str) -> None:
    with suppress(ScheduleError):
        next_after(expression, datetime(2026, 1, 1, tzinfo=UTC), "UTC")
