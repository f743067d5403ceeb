"""How long a worker waits before it tries again to reach a database that is not there: longer each time."""

from __future__ import annotations

from typing import Final

from payrec.constants.jobs import DATABASE_AWAY_SECONDS_MAX

PAUSE_FIRST: Final = 1.0
"""Seconds after the first attempt that failed: a restart takes no longer."""

PAUSE_GROWTH: Final = 1.5
"""By how much the next pause is longer."""


class Pauses:
    """The pauses between attempts of one kind."""

    def __init__(self) -> None:
        self._next = PAUSE_FIRST

    def after(self, lasted: float) -> float:
        """Return how long to wait after an attempt that lasted so many seconds.

        One that lasted longer than the longest pause has reached the database, or has waited for it long enough: the
        pauses begin anew.
        """
        if lasted > DATABASE_AWAY_SECONDS_MAX:
            self._next = PAUSE_FIRST
        pause = self._next
        self._next = min(pause * PAUSE_GROWTH, DATABASE_AWAY_SECONDS_MAX)
        return pause
