"""Charts as numbers: where each bar begins and how long it is. Templates draw them, with the figures beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from payrec.models.reports import AgeingLine, ExceptionLine, Figure
from payrec.services.match_rates import WeeklyRate

LENGTH: Final = 1_000
"""Units of the longest bar."""

BUCKETS: Final = ("not_due", "days1_to30", "days31_to60", "days61_to90", "over90_days", "no_due_date")
"""Ages, in the order in which they are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: what it is of, and its length from 0 to LENGTH."""

    key: str
    length: int
    figure: Figure | None = None
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One week: its place from the left, and its height from 0 to LENGTH; None where nothing asked for a match."""

    week: WeeklyRate
    height: int | None


def ageing_chart(line: AgeingLine) -> list[Bar]:
    """Return the open amounts of a currency and direction by age; the largest is the longest."""
    figures: Sequence[Figure] = [getattr(line.buckets, bucket) for bucket in BUCKETS]
    largest = max(figure.amount_minor for figure in figures)
    return [
        Bar(key=bucket, length=_share(figure.amount_minor, largest), figure=figure)
        for bucket, figure in zip(BUCKETS, figures, strict=True)
    ]


def weekly_chart(weeks: Iterable[WeeklyRate]) -> list[Column]:
    """Return the match rate of each week."""
    return [Column(week=week, height=_share(week.matched, week.asking) if week.asking else None) for week in weeks]


def reasons_chart(lines: Iterable[ExceptionLine]) -> list[Bar]:
    """Return how many transactions each reason keeps open, in all currencies and on both sides, the most first."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts[line.reason_code or "none"] += line.open.count
    largest = max(counts.values(), default=0)
    ordered = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
    return [Bar(key=reason, length=_share(count, largest), count=count) for reason, count in ordered]


def _share(part: int, whole: int) -> int:
    """Return a length; what is not nothing is never drawn as nothing."""
    return max(part * LENGTH // whole, 1 if part else 0) if whole else 0
