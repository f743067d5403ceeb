"""Which days the statements of an account speak of, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal
from uuid import UUID

from payrec.domain.business_days import ONE_DAY
from payrec.domain.continuity import Continuity
from payrec.domain.statement_periods import Period


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStatement:
    """One statement, by the days that it speaks of."""

    import_id: UUID
    begins_on: date
    ends_on: date
    """Not before ``begins_on``."""
    opening_minor: int | None
    closing_minor: int | None
    entry_count: int
    balance_check: Literal["ok", "mismatch", "not_available"]
    continuity: Continuity | None
    expected_opening_minor: int | None
    """What the statement before it closed with, where there is a gap or an overlap."""
    expected_on: date | None
    """The day on which that one closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineGap:
    """The days between two statements of which the later one does not begin where the earlier one ended."""

    begins_on: date
    ends_on: date
    """Not before ``begins_on``: where no day lies between the two, it is the first day of the later one."""
    closed_minor: int | None
    """What the earlier one closed with."""
    opened_minor: int | None
    """What the later one opens with."""
    import_id: UUID
    """Where the later one is."""

    @property
    def difference_minor(self) -> int | None:
        """What was moved in between, as far as both balances are known."""
        if self.closed_minor is None or self.opened_minor is None:
            return None
        return self.opened_minor - self.closed_minor


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The statements of one account from one day to another, the earliest first."""

    account_id: UUID
    since: date
    until: date
    statements: Sequence[TimelineStatement]
    gaps: Sequence[TimelineGap]
    missing: Sequence[Period]
    """Periods of which a statement is due and has not come."""
    latest_on: date | None
    """The day until which the account has statements, whether in these days or not."""
    is_cut: bool
    """There are more statements than are told here, and these are the earliest."""

    @property
    def day_count(self) -> int:
        """How many days it is of."""
        return (self.until - self.since).days + 1

    @property
    def covered_day_count(self) -> int:
        """How many of the days some statement speaks of."""
        return covered_day_count(((s.begins_on, s.ends_on) for s in self.statements), self.since, self.until)


def gaps_of(statements: Iterable[TimelineStatement]) -> list[TimelineGap]:
    """Return what lies before those statements that were judged to have a gap before them."""
    found = []
    for statement in statements:
        if statement.continuity != "gap":
            continue
        begins_on = statement.begins_on if statement.expected_on is None else statement.expected_on + ONE_DAY
        gap = TimelineGap(
            begins_on=begins_on,
            ends_on=max(begins_on, statement.begins_on - ONE_DAY),
            closed_minor=statement.expected_opening_minor,
            opened_minor=statement.opening_minor,
            import_id=statement.import_id,
        )
        found.append(gap)
    return found


def covered_day_count(spans: Iterable[tuple[date, date]], since: date, until: date) -> int:
    """Return how many days from one to another are in at least one span; both ends of a span belong to it."""
    count = 0
    next_on = since
    for begins_on, ends_on in sorted(spans):
        first, last = max(begins_on, next_on), min(ends_on, until)
        if first <= last:
            count += (last - first).days + 1
            next_on = last + ONE_DAY
    return count
