"""When what failed is tried again: later each time, and not together with all else that failed at that moment."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from payrec.constants.jobs import JOB_RETRY_DELAY_FIRST, JOB_RETRY_DELAY_MAX, JOB_RETRY_GROWTH

_STEPS_MAX: Final = 64
"""Enough to come from any first delay to the longest, and no more than ``timedelta`` can hold."""


def retry_delay(attempt: int, *, drawn: float) -> timedelta:
    """Return how long to wait after the ``attempt``-th attempt, the first being 1, has failed.

    The delay grows by ``JOB_RETRY_GROWTH`` up to ``JOB_RETRY_DELAY_MAX``; the upper half of it is random, by ``drawn``
    in 0..1 ("equal jitter").
    """
    delay = JOB_RETRY_DELAY_FIRST
    for _ in range(min(attempt - 1, _STEPS_MAX)):
        delay = min(delay * JOB_RETRY_GROWTH, JOB_RETRY_DELAY_MAX)
    return delay / 2 + delay / 2 * drawn
