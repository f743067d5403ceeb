"""Backtests: settings and rules, tried on days that are over. Here they are asked for; workers do them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from payrec.domain.caller import Caller
from payrec.domain.scope import TenantScope, bounded
from payrec.errors import FieldError, ValidationFailedError
from payrec.models.backtests import BacktestCreate
from payrec.models.jobs import JobCreate, JobPublic
from payrec.services.jobs import queue_job
from payrec.services.tenant_settings import check_settings
from payrec.services.validation import validated
from payrec.services.work import Work
from payrec.storage.history import HistoryStore

BACKTEST_DAYS_MAX: Final = 366
"""Days of one backtest."""


class BacktestService:
    """Starts backtests."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def start_job(self, caller: Caller, given: JobCreate) -> JobPublic:
        """Queue a backtest and return its job.

        Raises
        ------
        ValidationFailedError
        AsOfOutOfRangeError
            A day is not over yet, or was before history began.
        RateLimitedError
            As many backtests wait as may.
        """
        wanted = validated(BacktestCreate, given.params, pointer="/params")
        days = (wanted.to - wanted.from_).days + 1
        if not 1 <= days <= BACKTEST_DAYS_MAX:
            detail = f"must be the first of 1 to {BACKTEST_DAYS_MAX} days"
            raise ValidationFailedError.of(FieldError(pointer="/params/from", code="range_invalid", detail=detail))
        params = wanted.model_dump(mode="json", by_alias=True, exclude={"settings"})
        if wanted.settings is not None:
            params["settings"] = wanted.settings.model_dump(mode="json", by_alias=True)
            check_settings(params["settings"], pointer="/params/settings")
        job_id = self._work.ids.new()
        async with self._work.tenant(caller) as unit:
            for instant in (span_of(caller.tenant, wanted.from_)[0], span_of(caller.tenant, wanted.to)[1]):
                await HistoryStore(unit.connection).check(instant)
            public = await queue_job(unit, job_id, "backtest", params)
            unit.answer(202, public, public.headers)
        return public


def span_of(scope: TenantScope, day: date) -> tuple[datetime, datetime]:
    """Return the last instants, to the microsecond, of the tenant's day before and of the day itself."""
    zone, near = ZoneInfo(scope.timezone), bounded(day)
    begins = [datetime.combine(at, time.min, zone).astimezone(UTC) for at in (near, near + timedelta(days=1))]
    return begins[0] - timedelta(microseconds=1), begins[1] - timedelta(microseconds=1)
