"""Which jobs a worker takes at once: the rule alone, over everything that may be asked of it in any order."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from payrec.constants.jobs import JOB_BYTES_FIXED
from payrec.jobs.admission import CALLED_KEPT_SECONDS, PROCESS_BYTES, TURN_KEPT_SECONDS, Admission, Asked
from payrec.services.job_sizes import JobSize

MIB = 1024 * 1024
MEMORY = 4096 * MIB
TENANTS = 4
RUN_OF_400_000 = 64 * MIB + 800_000 * 1_000
SIZES = [100 * MIB, 500 * MIB, RUN_OF_400_000, 2 * MEMORY]


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make(memory: int = MEMORY, places: int = 8) -> tuple[Admission, Clock]:
    clock = Clock()
    return Admission(memory_bytes=memory, places=places, monotonic=clock), clock


def asked(tenant: int, memory: int = 100 * MIB, *, environment: int = 0, kind: str = "match") -> Asked:
    size = JobSize(memory_bytes=memory, is_small=memory == JOB_BYTES_FIXED)
    return Asked(tenant_id=UUID(int=tenant), environment_id=UUID(int=tenant * 10 + environment), kind=kind, size=size)


def small(tenant: int, **more: int) -> Asked:
    return asked(tenant, JOB_BYTES_FIXED, **more)


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


def test_a_tenant_leaves_places_to_the_others_whatever_it_asks_for() -> None:
    for make_one in (asked, small):
        admission, _ = make()
        mine = [make_one(1, environment=n) for n in range(6)]
        assert [admission.admit(one) for one in mine] == [True, True, False, False, False, False]
        # It waits for itself alone: nobody stands behind it.
        assert admission.admit(make_one(2))
        assert admission.admit(make_one(3))


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


class AnyOrder(RuleBasedStateMachine):
    """Workers ask, end and come again in any order, at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.admission, self.clock = make()
        self.running: list[Asked] = []

    @rule(tenant=st.integers(1, TENANTS), environment=st.integers(0, 3), memory=st.sampled_from([64 * MIB, *SIZES]))
    def ask(self, tenant: int, environment: int, memory: int) -> None:
        one = asked(tenant, memory, environment=environment)
        if self.admission.admit(one):
            self.running.append(one)

    @rule(place=st.integers(0, 7))
    def end(self, place: int) -> None:
        if self.running:
            called = self.admission.release(self.running.pop(place % len(self.running)))
            # Who is called finds room, if nobody comes between.
            for one in called:
                assert self.admission.admit(one)
                self.running.append(one)

    @rule(seconds=st.floats(0, 2 * TURN_KEPT_SECONDS))
    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @invariant()
    def memory_is_never_given_away_twice(self) -> None:
        large = [one.size.memory_bytes for one in self.running if not one.size.is_small]
        assert len(large) <= 1 or sum(large) <= self.admission.budget_bytes
        assert self.admission.admitted_bytes() == sum(large)
        assert len(large) * 2 <= self.admission.places
        small_ones = len(self.running) - len(large)
        everything = sum(large) + small_ones * JOB_BYTES_FIXED + PROCESS_BYTES
        assert len(large) <= 1 or everything <= MEMORY * 0.8

    @invariant()
    def no_tenant_has_all_the_places(self) -> None:
        for is_small in (False, True):
            alike = [one for one in self.running if one.size.is_small == is_small]
            for tenant in range(1, TENANTS + 1):
                assert sum(one.tenant_id == UUID(int=tenant) for one in alike) * 4 <= self.admission.places

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


TestAnyOrder = AnyOrder.TestCase
