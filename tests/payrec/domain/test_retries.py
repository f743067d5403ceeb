"""When what failed is tried again: the rule alone."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from payrec.constants.jobs import JOB_ATTEMPTS_MAX, JOB_RETRY_DELAY_FIRST, JOB_RETRY_DELAY_MAX
from payrec.domain.retries import retry_delay

ATTEMPTS = st.integers(1, 10_000)
DRAWN = st.floats(0, 1)


@given(ATTEMPTS, DRAWN)
def test_the_wait_is_never_over_at_once_and_has_an_end(attempt: int, drawn: float) -> None:
    assert JOB_RETRY_DELAY_FIRST / 2 <= retry_delay(attempt, drawn=drawn) <= JOB_RETRY_DELAY_MAX


@given(ATTEMPTS, DRAWN)
def test_the_next_wait_is_not_shorter(attempt: int, drawn: float) -> None:
    assert retry_delay(attempt, drawn=drawn) <= retry_delay(attempt + 1, drawn=drawn)


@given(ATTEMPTS, DRAWN, DRAWN)
def test_what_failed_together_is_spread_over_half_of_the_wait(attempt: int, one: float, other: float) -> None:
    early, late = sorted((one, other))
    assert retry_delay(attempt, drawn=early) <= retry_delay(attempt, drawn=late)
    assert retry_delay(attempt, drawn=0) * 2 == retry_delay(attempt, drawn=1)


def test_all_attempts_take_minutes_not_hours() -> None:
    waits = [retry_delay(attempt, drawn=1) for attempt in range(1, JOB_ATTEMPTS_MAX)]
    assert waits == [timedelta(seconds=s) for s in (2, 8, 32, 128)]
