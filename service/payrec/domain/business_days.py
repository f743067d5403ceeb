"""On which days banks and bookkeepers work, and what is due some hours of them later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

IsBusinessDay = Callable[[date], bool]
"""Tells whether a day is one."""

ONE_DAY: Final = timedelta(days=1)
_HOURS: Final = 24
_SATURDAY: Final = 5


def shifted(day: date, days: int) -> date:
    """Return the day so many days later, or earlier; at the ends of the calendar, the last one there is."""
    return date.fromordinal(min(max(day.toordinal() + days, date.min.toordinal()), date.max.toordinal()))


def is_weekday(day: date) -> bool:
    """Tell whether a day is one from Monday to Friday."""
    return day.weekday() < _SATURDAY


def due_at(after: date, hours: int, *, zone: ZoneInfo, is_business_day: IsBusinessDay) -> datetime:
    """Return the instant so many hours of business days after the end of a day, in UTC.

    Each business day counts as 24 hours, whatever a change of clocks makes of it.
    """
    day, left = after + ONE_DAY, hours
    while left > 0:
        if is_business_day(day):
            if left <= _HOURS:
                break
            left -= _HOURS
        day += ONE_DAY
    return (datetime.combine(day, time(), zone) + timedelta(hours=left)).astimezone(UTC)
