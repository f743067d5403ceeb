"""How often a password may be tried: a pure rule over what is known of one username's, or one address's, attempts.

Two conditions hold together. A bucket lets ``limit`` attempts a minute pass, that many at once at most (the generic
cell rate algorithm, ITU-T I.371, annex A, as virtual scheduling). And after ``limit`` failures in a row the least time
to the next attempt doubles with each further one, from a ``limit``-th of a minute to ``TOKEN_ATTEMPT_DELAY_MAX``.

Time takes one failure every ``TOKEN_FAILURE_FADES_AFTER``: an address that many people share is not held back for good
by what they mistype, and who guesses gains nothing by going on.

An attempt counts as a failure from its beginning, so that any number of attempts at once count before the first of
them has an answer. A refused attempt leaves everything as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from payrec.constants import (
    TOKEN_ATTEMPT_DELAY_MAX,
    TOKEN_ATTEMPTS_FORGOTTEN_AFTER,
    TOKEN_FAILURE_FADES_AFTER,
)

NO_WAIT: Final = timedelta(0)
"""The attempt may be made."""

_MINUTE: Final = timedelta(minutes=1)
_DOUBLINGS_MAX: Final = 32
"""Enough to come from any first delay to the longest, and no more than ``timedelta`` can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """What is known of the attempts for one username, or from one address."""

    full_at: datetime
    """When the bucket is full again (the theoretical arrival time of the algorithm)."""
    failures: int
    """Attempts that failed, or have no answer yet, since the last one that succeeded, less those that time took."""
    faded_at: datetime
    """Up to when time has taken failures."""
    touched_at: datetime
    """When the last attempt began."""


def no_attempts(now: datetime) -> Attempts:
    """Return what is known of a username or address that was not heard of."""
    return Attempts(full_at=now, failures=0, faded_at=now, touched_at=now)


@dataclass(frozen=True, slots=True)
class AttemptLimit:
    """The rule for ``per_minute`` attempts a minute, at least 1."""

    per_minute: int

    @property
    def interval(self) -> timedelta:
        """The time in which one attempt becomes free again."""
        return _MINUTE / self.per_minute

    def delay(self, failures: int) -> timedelta:
        """Return the least time from the last attempt to the next one after so many failures in a row."""
        if failures < self.per_minute:
            return NO_WAIT
        doublings = min(failures - self.per_minute, _DOUBLINGS_MAX)
        return min(self.interval * (1 << doublings), TOKEN_ATTEMPT_DELAY_MAX)

    def wait(self, known: Attempts, now: datetime) -> timedelta:
        """Return how long it takes until an attempt may be made; ``NO_WAIT`` when it may be made now."""
        known = _remembered(known, now)
        bucket_at = known.full_at - self.interval * (self.per_minute - 1)
        delay_at = known.touched_at + self.delay(known.failures)
        return max(bucket_at - now, delay_at - now, NO_WAIT)

    def begun(self, known: Attempts, now: datetime) -> Attempts:
        """Return what is known once an attempt has begun, which had not to wait."""
        known = _remembered(known, now)
        return Attempts(
            full_at=max(known.full_at, now) + self.interval,
            failures=known.failures + 1,
            faded_at=known.faded_at,
            touched_at=max(known.touched_at, now),
        )


def forgiven(known: Attempts) -> Attempts:
    """Return what is known of a username once its password was right: nothing has failed."""
    return replace(known, failures=0)


def less_one(known: Attempts) -> Attempts:
    """Return what is known of an address once an attempt from it succeeded: that one has not failed."""
    return replace(known, failures=max(known.failures - 1, 0))


def taken_back(known: Attempts, *, begun: Attempts, before: Attempts) -> Attempts:
    """Return what is known once an attempt turned out to be none.

    When no other one has begun since, that is what was known before it; otherwise there is one failure less.
    """
    return before if known == begun else less_one(known)


def _remembered(known: Attempts, now: datetime) -> Attempts:
    """Return what is left of what was known."""
    if now - known.touched_at >= TOKEN_ATTEMPTS_FORGOTTEN_AFTER:
        return no_attempts(now)
    faded = max((now - known.faded_at) // TOKEN_FAILURE_FADES_AFTER, 0)
    if faded >= known.failures:
        return replace(known, failures=0, faded_at=max(now, known.faded_at))
    return replace(known, failures=known.failures - faded, faded_at=known.faded_at + faded * TOKEN_FAILURE_FADES_AFTER)
