"""Of which periods an account's statements are due: each day, week or month with a business day in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from payrec.domain.business_days import ONE_DAY, IsBusinessDay, due_at

_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """One for which a statement is due."""

    begins_on: date
    ends_on: date
    due_at: datetime
    """By when it should have come, in UTC."""


def due_periods(
    every: str,
    *,
    hours: int,
    since: date,
    now: datetime,
    zone: ZoneInfo,
    is_business_day: IsBusinessDay,
    limit: int,
) -> list[Period]:
    """Return the latest periods whose statements are due, the earliest of them first, at most ``limit``.

    ``every`` is ``day``, ``week`` (from Monday on) or ``month``; a statement may take so many ``hours`` of business
    days after the last business day of its period. Periods that end before ``since`` are not asked for.
    """
    found: list[Period] = []
    for begins_on, ends_on in _backwards(every, now.astimezone(zone).date()):
        if ends_on < since or len(found) == limit:
            break
        last = _last_business_day(begins_on, ends_on, is_business_day)
        if last is None:
            continue
        due = due_at(last, hours, zone=zone, is_business_day=is_business_day)
        if due <= now:
            found.append(Period(begins_on=begins_on, ends_on=ends_on, due_at=due))
    return found[::-1]


def _backwards(every: str, day: date) -> Iterator[tuple[date, date]]:
    """Yield the first and the last day of periods, from that of a day on back."""
    if every == "month":
        begins_on = day.replace(day=1)
        ends_on = (begins_on + timedelta(days=31)).replace(day=1) - ONE_DAY
        while True:
            yield begins_on, ends_on
            ends_on = begins_on - ONE_DAY
            begins_on = ends_on.replace(day=1)
    length = _WEEK if every == "week" else ONE_DAY
    begins_on = day - timedelta(days=day.weekday()) if every == "week" else day
    while True:
        yield begins_on, begins_on + length - ONE_DAY
        begins_on -= length


def _last_business_day(begins_on: date, ends_on: date, is_business_day: IsBusinessDay) -> date | None:
    day = ends_on
    while day >= begins_on:
        if is_business_day(day):
            return day
        day -= ONE_DAY
    return None
