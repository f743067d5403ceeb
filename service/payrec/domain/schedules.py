"""When a data source is due: cron expressions in the tenant's time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError


class ScheduleError(ValueError):
    """No schedule; ``code`` says why, and the text says it to people."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def next_after(expression: str, after: datetime, timezone: str) -> datetime:
    """Return the first instant behind ``after`` (in UTC) at which a cron expression of five fields is due.

    An hour that a clock change leaves out is made up for, and one that comes twice counts once (as Debian's cron does).

    Raises
    ------
    ScheduleError
        It is no such expression, or no day will ever match it.
    """
    fields = expression.split()
    if len(fields) != 5:
        raise ScheduleError("schedule_malformed", "must have five fields: minute, hour, day, month, day of the week")
    start = after.astimezone(ZoneInfo(timezone))
    try:
        found = next(CronSim(expression, start))
    except CronSimError:
        if _is_readable(" ".join([*fields[:3], "*", fields[4]]), start) and _is_readable(f"* * * {fields[3]} *", start):
            raise ScheduleError("schedule_never", "no day matches it") from None
        raise ScheduleError("schedule_malformed", "is no cron expression") from None
    except (StopIteration, OverflowError):
        raise ScheduleError("schedule_never", "no day matches it") from None
    return found.astimezone(UTC)


def _is_readable(expression: str, start: datetime) -> bool:
    try:
        CronSim(expression, start)
    except CronSimError:
        return False
    return True
