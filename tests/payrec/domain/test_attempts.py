"""How often a password may be tried: the rule alone, without a database."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from payrec.constants import TOKEN_ATTEMPT_DELAY_MAX, TOKEN_ATTEMPTS_FORGOTTEN_AFTER, TOKEN_FAILURE_FADES_AFTER
from payrec.domain.attempts import NO_WAIT, AttemptLimit, Attempts, forgiven, less_one, no_attempts, taken_back

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LIMITS = st.integers(1, 70)
GAPS = st.one_of(
    st.timedeltas(timedelta(0), timedelta(seconds=2)),
    st.timedeltas(timedelta(0), timedelta(minutes=20)),
    st.sampled_from([timedelta(0), MINUTE, TOKEN_ATTEMPT_DELAY_MAX, TOKEN_ATTEMPTS_FORGOTTEN_AFTER]),
)
KINDS = (
    *("passed", "refused by the bucket alone", "refused by the delay alone", "refused by both"),
    *("right", "right, not the only failure", "no answer", "no answer, another one since"),
    *("faded by one", "faded by some", "faded to nothing", "forgotten with failures", "delay doubled", "longest delay"),
    *("waited as told for the bucket", "waited as told for the delay"),
)
"""What has to happen for walks to say anything."""

seeds = st.integers(0, 2**32 - 1)
"""Of a walk and of a step: Hypothesis takes the same few of many values again and again, so dice choose."""


def tried(limit: AttemptLimit, known: Attempts, now: datetime, times: int) -> tuple[Attempts, int]:
    """Try at one instant, and tell how many attempts passed."""
    passed = 0
    for _ in range(times):
        if limit.wait(known, now) == NO_WAIT:
            known = limit.begun(known, now)
            passed += 1
    return known, passed


@given(LIMITS, st.integers(0, 200))
def test_at_one_instant_exactly_as_many_pass_as_a_minute_allows(per_minute: int, times: int) -> None:
    _, passed = tried(AttemptLimit(per_minute), no_attempts(START), START, times)
    assert passed == min(per_minute, times)


@given(LIMITS, st.lists(GAPS, max_size=200))
def test_never_more_pass_than_the_bucket_and_its_rate_allow(per_minute: int, gaps: list[timedelta]) -> None:
    limit, known, now = AttemptLimit(per_minute), no_attempts(START), START
    passed: list[datetime] = []
    for gap in gaps:
        now += gap
        if limit.wait(known, now) == NO_WAIT:
            # Attempts that succeed are held to the bucket as well.
            known = forgiven(limit.begun(known, now))
            passed.append(now)
    for first, began in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= per_minute + (passed[last] - began) / limit.interval + 1e-9


@given(LIMITS, st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_delay_grows_with_failures_up_to_its_end(per_minute: int, one: int, other: int) -> None:
    limit = AttemptLimit(per_minute)
    fewer, more = sorted((one, other))
    assert NO_WAIT <= limit.delay(fewer) <= limit.delay(more) <= TOKEN_ATTEMPT_DELAY_MAX
    assert limit.delay(per_minute - 1) == NO_WAIT
    assert limit.delay(per_minute) == limit.interval
    assert limit.delay(per_minute + 1) == 2 * limit.interval
    assert limit.delay(2**31 - 1) == TOKEN_ATTEMPT_DELAY_MAX


@given(LIMITS, st.integers(1, 40))
def test_after_many_failures_the_next_attempt_waits_exactly_the_delay(per_minute: int, further: int) -> None:
    limit = AttemptLimit(per_minute)
    failures = per_minute + further
    known = Attempts(full_at=START, failures=failures, faded_at=START, touched_at=START)
    assert limit.wait(known, START) == limit.delay(failures)
    free_at = START + limit.delay(failures)
    assert limit.wait(known, free_at - timedelta(microseconds=1)) > NO_WAIT
    assert limit.wait(known, free_at) == NO_WAIT


@given(LIMITS, st.integers(0, 1_000), GAPS)
def test_what_is_old_is_forgotten(per_minute: int, failures: int, more: timedelta) -> None:
    limit = AttemptLimit(per_minute)
    known = Attempts(full_at=START, failures=failures, faded_at=START, touched_at=START)
    later = START + TOKEN_ATTEMPTS_FORGOTTEN_AFTER + more
    assert limit.wait(known, later) == NO_WAIT
    assert limit.begun(known, later) == limit.begun(no_attempts(later), later)


@given(LIMITS, st.integers(0, 100))
def test_a_clock_that_is_behind_opens_nothing(per_minute: int, failures: int) -> None:
    limit = AttemptLimit(per_minute)
    known, _ = tried(limit, no_attempts(START), START, per_minute)
    known = Attempts(full_at=known.full_at, failures=failures, faded_at=START, touched_at=START)
    earlier = START - MINUTE
    assert limit.wait(known, earlier) >= limit.wait(known, START) > NO_WAIT
    assert limit.begun(known, earlier).touched_at == START


@given(LIMITS, st.integers(1, 50))
def test_an_attempt_without_an_answer_is_as_if_never_made(per_minute: int, failures: int) -> None:
    limit = AttemptLimit(per_minute)
    before = Attempts(full_at=START, failures=failures, faded_at=START, touched_at=START)
    begun = limit.begun(before, START + MINUTE)
    assert taken_back(begun, begun=begun, before=before) == before
    since = limit.begun(begun, START + MINUTE)
    assert taken_back(since, begun=begun, before=before) == less_one(since)
    assert less_one(since).failures == failures + 1
    assert less_one(no_attempts(START)).failures == 0


def test_an_address_that_many_people_share_is_not_held_back_by_what_they_mistype() -> None:
    limit, known, now = AttemptLimit(60), no_attempts(START), START
    for number in range(24 * 60):  # somebody signs in every minute, and one in fifteen mistypes the password first
        for succeeds in (False, True) if number % 15 == 0 else (True,):
            assert limit.wait(known, now) == NO_WAIT
            known = limit.begun(known, now)
            known = less_one(known) if succeeds else known
        now += MINUTE
    assert known.failures <= 2


@given(LIMITS, st.integers(1, 500), st.integers(0, 3))
def test_time_takes_one_failure_after_the_other(per_minute: int, failures: int, steps: int) -> None:
    limit = AttemptLimit(per_minute)
    known = Attempts(full_at=START, failures=failures, faded_at=START, touched_at=START)
    later = START + steps * TOKEN_FAILURE_FADES_AFTER
    begun = limit.begun(known, later - timedelta(microseconds=1))
    assert begun.failures == max(failures - max(steps - 1, 0), 0) + 1
    assert limit.begun(known, later).failures == max(failures - steps, 0) + 1


class Guessing(RuleBasedStateMachine):
    """Any sequence of attempts at any times, beside a model that counts for itself."""

    limit: AttemptLimit
    known: Attempts
    now: datetime
    met: ClassVar[Counter[str]] = Counter()
    """What has happened in all walks."""

    @initialize(seed=seeds)
    def begins(self, seed: int) -> None:
        self.steps = 0
        dice = self._dice(seed)
        # With few attempts a minute the delay begins sooner, and with many it doubles longer.
        per_minute = dice.choice([1, 2, 3, dice.randint(1, 12), dice.randint(1, 70)])
        self.limit = AttemptLimit(per_minute)
        self.now = START
        self.known = no_attempts(START)
        self.in_a_row = 0
        self.fading = timedelta(0)
        self.last: datetime | None = None
        self.bucket = per_minute * self.limit.interval
        """What is in it, as the time in which that flows in."""

    @rule(seed=seeds)
    def time_passes(self, seed: int) -> None:
        dice = self._dice(seed)
        gaps = [timedelta(0), timedelta(seconds=dice.uniform(0, 2)), timedelta(minutes=dice.uniform(0, 20)), MINUTE]
        longer = [TOKEN_FAILURE_FADES_AFTER, timedelta(minutes=dice.uniform(20, 59)), TOKEN_ATTEMPTS_FORGOTTEN_AFTER]
        self._pass(dice.choice([*gaps, *gaps, *longer]))

    @rule(seed=seeds)
    def wrong(self, seed: int) -> None:
        for _ in range(self._dice(seed).randint(1, 30)):
            self._attempt()

    @rule(seed=seeds)
    def right(self, seed: int) -> None:
        """A username has no failures any more, and an address has one less."""
        if self._attempt():
            self.met["right"] += 1
            self.met["right, not the only failure"] += self.in_a_row > 1
            is_username = self._dice(seed).random() < 0.5
            self.known = forgiven(self.known) if is_username else less_one(self.known)
            self._fail(0 if is_username else self.in_a_row - 1)

    @rule(seed=seeds)
    def no_answer(self, seed: int) -> None:
        before, was = self.known, (self.in_a_row, self.fading, self.last, self.bucket)
        if not self._attempt():
            return
        begun = self.known
        if self._dice(seed).random() < 0.5 and self._attempt():
            self.known = taken_back(self.known, begun=begun, before=before)
            self._fail(self.in_a_row - 1)
            self.met["no answer, another one since"] += 1
        else:
            self.known = taken_back(begun, begun=begun, before=before)
            self.in_a_row, self.fading, self.last, self.bucket = was
            self.met["no answer"] += 1
            assert self.known == before

    @rule(times=st.integers(1, 10), until=st.integers(0, 3))
    def waits_as_it_is_told(self, times: int, until: int) -> None:
        for _ in range(times):
            wait = self.limit.wait(self.known, self.now)
            why = "bucket" if self._lacks_bucket() else "delay"
            self._pass(wait + timedelta(microseconds=until))
            assert self._attempt()
            self.met[f"waited as told for the {why}"] += wait > NO_WAIT

    @invariant()
    def never_waits_longer_than_the_longest_delay(self) -> None:
        if hasattr(self, "known"):
            wait = self.limit.wait(self.known, self.now)
            assert NO_WAIT <= wait <= max(TOKEN_ATTEMPT_DELAY_MAX, MINUTE)

    def _dice(self, seed: int) -> random.Random:
        self.steps += 1
        return random.Random(f"{seed} {self.steps}")  # noqa: S311 - the same each time, no secret

    def _pass(self, gap: timedelta) -> None:
        self.now += gap
        self.bucket = min(self.bucket + gap, self.limit.per_minute * self.limit.interval)
        if self.last is not None and self.now - self.last >= TOKEN_ATTEMPTS_FORGOTTEN_AFTER:
            self.met["forgotten with failures"] += (
                self.in_a_row > TOKEN_ATTEMPTS_FORGOTTEN_AFTER // TOKEN_FAILURE_FADES_AFTER
            )
            self.in_a_row, self.last = 0, None
        self.fading += gap
        faded = min(self.fading // TOKEN_FAILURE_FADES_AFTER, self.in_a_row)
        self.fading -= faded * TOKEN_FAILURE_FADES_AFTER
        self._fail(self.in_a_row - faded)
        if faded:
            self.met[
                "faded to nothing" if not self.in_a_row else "faded by one" if faded == 1 else "faded by some"
            ] += 1

    def _fail(self, in_a_row: int) -> None:
        """Set how many failed in a row: of none there is nothing for time to take."""
        self.in_a_row = in_a_row
        if not in_a_row:
            self.fading = timedelta(0)

    def _lacks_bucket(self) -> bool:
        return self.bucket < self.limit.interval

    def _attempt(self) -> bool:
        delay = self.limit.delay(self.in_a_row)
        delayed = self.last is not None and self.now - self.last < delay
        self.met["delay doubled"] += delayed and self.limit.interval < delay < TOKEN_ATTEMPT_DELAY_MAX
        self.met["longest delay"] += delayed and delay == TOKEN_ATTEMPT_DELAY_MAX
        empty = self._lacks_bucket()
        assert (self.limit.wait(self.known, self.now) > NO_WAIT) is (delayed or empty)
        if delayed or empty:
            by = "both" if delayed and empty else "the delay alone" if delayed else "the bucket alone"
            self.met[f"refused by {by}"] += 1
            return False
        self.known = self.limit.begun(self.known, self.now)
        self.bucket -= self.limit.interval
        self.in_a_row += 1
        self.last = self.now
        self.met["passed"] += 1
        assert self.known.failures == self.in_a_row
        return True


def test_any_sequence_of_attempts_is_held_to_the_bucket_and_to_the_delay() -> None:
    Guessing.met.clear()
    run_state_machine_as_test(Guessing)
    assert (+Guessing.met).keys() >= set(KINDS)


@pytest.mark.parametrize(("per_minute", "days"), [(10, 1), (1, 1), (60, 1)])
def test_a_day_of_guessing_as_fast_as_allowed_is_about_a_hundred_guesses(per_minute: int, days: int) -> None:
    limit, known, now, guesses = AttemptLimit(per_minute), no_attempts(START), START, 0
    while now < START + timedelta(days=days):
        now += limit.wait(known, now)
        known = limit.begun(known, now)
        guesses += 1
    assert guesses <= per_minute + 12 + 96 * days
