"""The plan of a round: the same by the same seed, everything once, and quiet at the end."""

from __future__ import annotations

from support.fault_plan import DATABASE, KINDS, PROCESSES, QUIET_SECONDS, planned


def test_a_seed_has_one_plan() -> None:
    assert planned(7, 120) == planned(7, 120)
    assert planned(7, 120) != planned(8, 120)


def test_every_kind_comes_before_any_comes_again() -> None:
    first = [fault.kind for fault in planned(3, 90)][: len(KINDS)]
    assert set(first) == set(KINDS)
    assert set(KINDS) > DATABASE


def test_nothing_new_fails_at_the_end_and_what_fails_is_there() -> None:
    plan = planned(5, 600)
    assert all(fault.at < 600 - QUIET_SECONDS for fault in plan)
    assert {fault.target for fault in plan if fault.kind == "kill"} == set(PROCESSES)
    assert all(fault.step for fault in plan if fault.kind == "clock")


def test_what_cannot_be_had_here_is_not_planned() -> None:
    assert {fault.kind for fault in planned(1, 60, ["kill", "crash"])} == {"kill", "crash"}
