"""Which jobs a worker takes at once: the rule alone, over everything that may be asked of it in any order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from payrec.constants.jobs import JOB_BYTES_FIXED
from payrec.constants.sources import SYNC_BYTES_HELD
from payrec.jobs.admission import CALLED_KEPT_SECONDS, PROCESS_BYTES, TURN_KEPT_SECONDS, Admission, Asked
from payrec.services.job_sizes import JobSize, Lane

MIB = 1024 * 1024
MEMORY = 4096 * MIB
TENANTS = 6
RUN_OF_400_000 = 64 * MIB + 800_000 * 1_000
SIZES = [100 * MIB, 500 * MIB, RUN_OF_400_000, 2 * MEMORY]
KINDS = (
    *(f"{lane}: {told}" for lane in Lane for told in ("began", "share", "places", "behind another")),
    *("large: memory", "larger than everything, alone"),
    *("called", "called with others", "came when called", "did not come when called", "came again and began"),
    *("was forgotten", "asked for another job", "overtook who waits for its tenant"),
)
"""What has to happen for walks to say anything."""
PLACES = {Lane.LARGE: 4, Lane.SMALL: 4, Lane.REMOTE: 8}
SHARE = 2
"""Of a tenant, in any lane."""

seeds = st.integers(0, 2**32 - 1)
"""Of a step: Hypothesis takes the same few of many values again and again, so dice choose."""


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make(memory: int = MEMORY, places: int = 8) -> tuple[Admission, Clock]:
    clock = Clock()
    return Admission(memory_bytes=memory, places=places, monotonic=clock), clock


def asked(tenant: int, memory: int = 100 * MIB, *, environment: int = 0, kind: str = "match") -> Asked:
    lane = {JOB_BYTES_FIXED: Lane.SMALL, SYNC_BYTES_HELD: Lane.REMOTE}.get(memory, Lane.LARGE)
    size = JobSize(memory_bytes=memory, lane=lane)
    return Asked(tenant_id=UUID(int=tenant), environment_id=UUID(int=tenant * 10 + environment), kind=kind, size=size)


def small(tenant: int, **more: int) -> Asked:
    return asked(tenant, JOB_BYTES_FIXED, **more)


def remote(tenant: int, **more: int) -> Asked:
    return asked(tenant, SYNC_BYTES_HELD, **more)


def test_six_large_runs_at_once_run_three_at_a_time_and_small_ones_pass() -> None:
    admission, _ = make()
    runs = [asked(n, RUN_OF_400_000) for n in range(6)]
    begun = [run for run in runs if admission.admit(run)]
    assert begun == runs[:3]
    assert admission.admit(small(7))
    assert admission.held("match") == 3
    ended = 0
    while begun:
        called = admission.release(begun.pop(0))
        ended += 1
        begun += [run for run in called if admission.admit(run)]
    assert ended == 6


def test_a_run_larger_than_everything_runs_alone_and_is_not_overtaken_for_ever() -> None:
    admission, _ = make()
    first, huge, late = asked(1), asked(2, 2 * MEMORY), asked(3)
    assert admission.admit(first)
    assert not admission.admit(huge)
    # There is memory for this one, but somebody waits for it.
    assert not admission.admit(late)
    assert admission.admit(small(4))
    assert admission.release(first) == [huge]
    assert admission.admit(huge)
    assert not admission.admit(late)
    assert admission.release(huge) == [late]
    assert admission.admit(late)


def test_slow_servers_of_four_tenants_hold_up_no_run_and_nobody_else_s_sync_before_that() -> None:
    admission, _ = make()
    slow = [remote(tenant, environment=n) for tenant in range(4) for n in range(SHARE)]
    assert all(admission.admit(one) for one in slow[:-1])
    assert admission.admit(remote(9))
    assert not admission.admit(slow[-1])
    assert admission.admit(asked(8))
    assert admission.admit(small(8))
    assert admission.admitted_bytes() == asked(8).size.memory_bytes


def test_a_tenant_leaves_places_to_the_others_whatever_it_asks_for() -> None:
    for make_one in (asked, small, remote):
        admission, _ = make()
        mine = [make_one(1, environment=n) for n in range(6)]
        assert [admission.admit(one) for one in mine] == [True, True, False, False, False, False]
        # It waits for itself alone: nobody stands behind it.
        assert admission.admit(make_one(2))
        assert admission.admit(make_one(3))


def test_of_jobs_that_may_have_killed_workers_one_runs_at_a_time_and_holds_up_nobody_else() -> None:
    admission, _ = make()
    first, second, third = (replace(one, is_suspect=True) for one in (small(1), asked(2), remote(3)))
    assert admission.admit(first)
    assert not admission.admit(second)
    assert not admission.admit(third)
    assert all(admission.admit(one) for one in (small(4), asked(5), remote(6)))
    assert admission.release(first) == [second]
    assert admission.admit(second)
    assert not admission.admit(third)
    assert admission.release(second) == [third]


def test_a_turn_is_kept_for_a_time_because_the_job_may_be_done_elsewhere() -> None:
    admission, clock = make()
    huge, late = asked(2, 2 * MEMORY), asked(3)
    assert admission.admit(first := asked(1))
    assert not admission.admit(huge)
    clock.seconds = TURN_KEPT_SECONDS - 1
    assert not admission.admit(late)
    assert admission.release(first) == [huge]
    # It was called and has not come.
    clock.seconds += CALLED_KEPT_SECONDS
    assert admission.admit(late)
    assert admission.held("match") == 0


@pytest.mark.parametrize("memory", [0, PROCESS_BYTES, MEMORY])
@pytest.mark.parametrize("places", [0, 1, 2, 8, 100])
def test_there_is_room_for_one_large_and_one_small_job_however_little_there_is(memory: int, places: int) -> None:
    admission, _ = make(memory, places)
    assert admission.admit(asked(1, 2 * MEMORY))
    assert admission.admit(small(1))
    assert admission.admit(remote(1))


class AnyOrder(RuleBasedStateMachine):
    """Workers ask, end and come again in any order, at any time, beside a list of who waits."""

    met: ClassVar[Counter[str]] = Counter()
    """What has happened in all walks."""

    def __init__(self) -> None:
        super().__init__()
        self.admission, self.clock = make()
        self.running: list[Asked] = []
        self.waiting: dict[tuple[UUID, str], tuple[Asked, float]] = {}
        """Who was turned away, in turn, and until when it has its turn."""
        self.called: set[tuple[UUID, str]] = set()
        """Who was told to come, and has not come."""
        self.steps = 0

    @rule(seed=seeds)
    def ask(self, seed: int) -> None:
        """Some come or come again; what is to be done has become more or less meanwhile, perhaps."""
        dice = self._dice(seed)
        for _ in range(dice.randint(1, 6)):
            memory = dice.choice([*[JOB_BYTES_FIXED] * 4, *[SYNC_BYTES_HELD] * 8, *SIZES])
            one = asked(dice.randint(1, TENANTS), memory, environment=dice.randint(0, 3))
            if self.waiting and dice.random() < 0.4:
                one, _ = dice.choice(list(self.waiting.values()))
            self._ask(one)

    @precondition(lambda self: self.running)
    @rule(seed=seeds)
    def end(self, seed: int) -> None:
        dice = self._dice(seed)
        called = self.admission.release(self.running.pop(dice.randrange(len(self.running))))
        self._forget()
        # All who can begin together.
        assert called == [one for one, _ in self.waiting.values() if self._why_not(one) is None]
        self.met["called"] += bool(called)
        self.met["called with others"] += len(called) > 1
        for one in called:
            until = self.waiting[one.key][1]
            self.waiting[one.key] = one, min(until, self.clock.seconds + CALLED_KEPT_SECONDS)
            self.called.add(one.key)
        if dice.random() < 0.5:
            if called:
                # Now and then until they are forgotten, because they were called.
                self.clock.seconds += dice.choice([0, CALLED_KEPT_SECONDS])
            return
        for one in called:
            # Who is called finds room, if nobody comes between.
            assert self._ask(one)
            self.met["came when called"] += 1

    @rule(seconds=st.sampled_from([1.0, CALLED_KEPT_SECONDS, TURN_KEPT_SECONDS - 1, TURN_KEPT_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @invariant()
    def memory_is_never_given_away_twice(self) -> None:
        large, *others = self._memory()
        assert len(large) <= 1 or sum(large) <= self.admission.budget_bytes
        assert self.admission.admitted_bytes() == sum(large)
        assert all(len(some) <= places for some, places in zip([large, *others], PLACES.values(), strict=True))
        everything = sum(large) + sum(map(sum, others)) + PROCESS_BYTES
        assert len(large) <= 1 or everything <= MEMORY * 0.8

    @invariant()
    def no_tenant_has_all_the_places(self) -> None:
        had = Counter((one.tenant_id, one.size.lane) for one in self.running)
        assert all(count <= SHARE for count in had.values())

    def teardown(self) -> None:
        """Everybody who waits gets through, if all end and come again."""
        waiting = {
            one.key: one for t in range(1, 5) for n, m in enumerate(SIZES, 5) for one in [asked(t, m, environment=n)]
        }
        done: set[tuple[UUID, str]] = set()
        for _ in range(20 * len(waiting)):
            for one in waiting.values():
                if one.key not in done and self.admission.admit(one):
                    self.running.append(one)
                    done.add(one.key)
            if self.running:
                self.admission.release(self.running.pop(0))
            self.clock.seconds += 1
        assert done == set(waiting)

    def _memory(self) -> list[list[int]]:
        """Return what the running jobs take, lane by lane."""
        return [[one.size.memory_bytes for one in self.running if one.size.lane is lane] for lane in PLACES]

    def _dice(self, seed: int) -> random.Random:
        """Return what chooses in a step: Hypothesis takes the same few of many values again and again."""
        self.steps += 1
        return random.Random(f"{seed} {self.steps}")  # noqa: S311 - the same each time, no secret

    def _forget(self, *, but: Asked | None = None) -> None:
        """Leave out who has not come in time."""
        for key, (_, until) in list(self.waiting.items()):
            if until <= self.clock.seconds and (but is None or key != but.key):
                self.met["did not come when called" if key in self.called else "was forgotten"] += 1
                self.called.discard(key)
                del self.waiting[key]

    def _ask(self, one: Asked) -> bool:
        """Ask, and look that who is turned away is so for a reason, and who is not overtakes nobody."""
        self._forget(but=one)
        before = self.waiting.get(one.key)
        self.called.discard(one.key)
        self.met["asked for another job"] += before is not None and before[0] != one
        # Who is in the list already keeps its place there.
        self.waiting[one.key] = one, self.clock.seconds + TURN_KEPT_SECONDS
        why = self._why_not(one)
        assert self.admission.admit(one) is (why is None), why
        self.met[f"{one.size.lane}: {why or 'began'}"] += 1
        if why is None:
            self.met["came again and began"] += before is not None
            self.met["larger than everything, alone"] += one.size.memory_bytes > self.admission.budget_bytes
            del self.waiting[one.key]
            self.running.append(one)
        assert self.admission.held("match") == len(self.waiting)
        return why is None

    def _why_not(self, one: Asked) -> str | None:
        """Return why somebody has to wait, after all have begun who are before it and can; None when it need not."""
        lane = one.size.lane
        begun = [other for other in self.running if other.size.lane is lane]
        overtakes = False
        for other in [asked for asked, _ in self.waiting.values() if asked.size.lane is lane]:
            why = self._lacks(other, begun)
            if other.key == one.key:
                self.met["overtook who waits for its tenant"] += why is None and overtakes
                return why
            if why is None:
                begun.append(other)
            elif why == "share":
                overtakes = True
            else:
                return "behind another"
        raise AssertionError

    def _lacks(self, one: Asked, begun: list[Asked]) -> str | None:
        """Return what there is too little of for a job beside those of its kind."""
        if sum(other.tenant_id == one.tenant_id for other in begun) >= SHARE:
            return "share"
        if len(begun) >= PLACES[one.size.lane]:
            return "places"
        needed = sum(other.size.memory_bytes for other in [*begun, one])
        is_large = bool(begun) and one.size.lane is Lane.LARGE
        return "memory" if is_large and needed > self.admission.budget_bytes else None


def test_any_order_gives_everybody_its_turn() -> None:
    AnyOrder.met.clear()
    run_state_machine_as_test(AnyOrder)
    assert (+AnyOrder.met).keys() >= set(KINDS)
