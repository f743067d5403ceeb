"""How much of what was booked in each week is matched by now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta

from payrec.domain.caller import Caller
from payrec.domain.scope import today
from payrec.services.work import Work
from payrec.storage.match_rates import MatchRateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyRate:
    """The incoming transactions that were booked in one week and ask for a match (``service/reports.md``)."""

    begins_on: date
    """Its Monday."""
    asking: int
    matched: int
    """Those of them that are matched whole."""

    @property
    def rate(self) -> float | None:
        """The share of them that is matched, from 0 to 1; None of nothing."""
        return self.matched / self.asking if self.asking else None


class MatchRateService:
    """Tells how matching went over the last weeks."""

    def __init__(self, *, work: Work) -> None:
        self._work = work

    async def weekly(self, caller: Caller, *, weeks: int) -> list[WeeklyRate]:
        """Return the last weeks by when lines were booked, the present one last; one without lines is there too."""
        day = today(caller.tenant, self._work.clock.now())
        monday = day - timedelta(days=day.weekday())
        mondays = [monday - timedelta(weeks=back) for back in reversed(range(weeks))]
        until = monday + timedelta(days=6)
        async with self._work.database.tenant(caller.tenant, readonly=True, snapshot=True) as connection:
            rows = await MatchRateStore(connection).by_day(since=mondays[0], until=until)
        counts: Counter[tuple[str, date]] = Counter()
        for row in rows:
            counts[row["part"], row["day"] - timedelta(days=row["day"].weekday())] += row["count"]
        return [_week(counts, begins_on) for begins_on in mondays]


def _week(counts: Counter[tuple[str, date]], begins_on: date) -> WeeklyRate:
    asking = counts["stated", begins_on] - counts["apart", begins_on]
    return WeeklyRate(begins_on=begins_on, asking=asking, matched=asking - counts["open", begins_on])
