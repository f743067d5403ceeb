"""Locked periods: which days are open to decisions, and since when a day has been locked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from payrec.domain.states import BEGIN, table
from payrec.errors import FieldError, PeriodLockedError, ValidationFailedError

PERIOD_STATES: Final = table("period", (BEGIN, "lock", "locked"), ("locked", "reopen", "reopened"))
"""What may become of a lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSpan:
    """A lock of a day: from an instant on, until it was reopened if it was."""

    locked_at: datetime
    reopened_at: datetime | None = None


def locked_since(spans: Sequence[LockSpan], at: datetime | None) -> datetime | None:
    """Return since when a day has been locked at an instant without a break, by whichever locks; None if it is open.

    ``at`` is None for the present.
    """
    known = [span for span in spans if at is None or span.locked_at <= at]
    since = min((s.locked_at for s in known if _binds(s, at)), default=None)
    # Another one that was reopened only after this began has locked the day before it.
    while since is not None and (earlier := [s.locked_at for s in known if s.locked_at < since and _binds(s, since)]):
        since = min(earlier)
    return since


def _binds(span: LockSpan, at: datetime | None) -> bool:
    """Tell whether a lock that is there is not reopened at an instant."""
    return span.reopened_at is None or (at is not None and span.reopened_at > at)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDays:
    """The last locked day of each account that has one, and under None that of all accounts."""

    through: Mapping[str | None, date] = field(default_factory=dict)

    def first(self, accounts: Iterable[str | None]) -> date | None:
        """Return the first day that is open for all of these accounts; None if every day is."""
        found = [self.through[account] for account in {None, *accounts} if account in self.through]
        return max(found) + timedelta(days=1) if found else None

    def check(self, on: date, account: str | None) -> None:
        """Raise if a day of an account is locked.

        Raises
        ------
        PeriodLockedError
        """
        first = self.first([account])
        if first is not None and on < first:
            raise PeriodLockedError(firstOpenOn=first.isoformat())

    def day(self, last_on: date | None, given: date | None, accounts: Iterable[str | None]) -> date | None:
        """Return the day from which a decision counts: the one that is given, else ``last_on`` or the first open day.

        ``last_on`` is the day before which it cannot count, None where nothing says one.

        Raises
        ------
        ValidationFailedError
            What it is about happened after the given day.
        PeriodLockedError
            The given day is locked.
        """
        first = self.first(accounts)
        if given is None:
            return last_on if first is None or last_on is None else max(last_on, first)
        if first is not None and given < first:
            raise PeriodLockedError("effectiveOn is in a locked period", firstOpenOn=first.isoformat())
        if last_on is not None and given < last_on:
            detail = "lies before what is decided about"
            raise ValidationFailedError.of(FieldError(pointer="/effectiveOn", code="before_its_lines", detail=detail))
        return given
