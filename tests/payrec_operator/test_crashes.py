"""The operator ends, or a call fails, at each step of each kind of pass, and is away for long after it.

Whatever was left behind goes bad by no time at all, and the passes after it come to the same end.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from support.operator_faults import Fault
from support.operator_secrets import Place
from support.operator_world import OperatorWorld, make_key, make_spec

STEPS_MAX = 200
ROTATION = {"interval": "2h", "overlap": "30m"}
KEYS = [make_key(secretName="one", rotation=ROTATION), make_key("probe", "test", secretName="two")]
USERS = [{"username": "ada", "roles": ["admin"]}]


def started() -> tuple[OperatorWorld, Place]:
    world = OperatorWorld()
    place = world.create(make_spec(apiKeys=KEYS, deletionPolicy="Delete", users=USERS))
    other = world.create(make_spec("globex"), name="globex", namespace="other")
    world.passes(other)
    return world, place


def nothing(_: OperatorWorld, __: Place) -> None:
    pass


def rotated(world: OperatorWorld, place: Place) -> None:
    world.annotate(place, "rotate", "1")


def moved(world: OperatorWorld, place: Place) -> None:
    world.change(place, apiKeys=[{**KEYS[0], "secretName": "three"}, KEYS[1]])


def swapped(world: OperatorWorld, place: Place) -> None:
    world.change(place, apiKeys=[{**KEYS[0], "secretName": "two"}, {**KEYS[1], "secretName": "one"}])


def unlisted(world: OperatorWorld, place: Place) -> None:
    world.change(place, apiKeys=[KEYS[1]])


def inherited(world: OperatorWorld, place: Place) -> None:
    world.change(place, apiKeys=[{**KEYS[0], "name": "heir"}, KEYS[1]])


def dropped(world: OperatorWorld, place: Place) -> None:
    world.change(place, environments=[{"name": "production"}, {"name": "test", "ensure": "absent"}])


def relocated(world: OperatorWorld, place: Place) -> None:
    environments = [{"name": "staging"}, {"name": "production", "ensure": "absent"}, {"name": "test"}]
    world.change(place, environments=environments, apiKeys=[{**KEYS[0], "environment": "staging"}, KEYS[1]])


def restricted(world: OperatorWorld, place: Place) -> None:
    world.change(place, apiKeys=[{**KEYS[0], "permissions": ["read"]}, KEYS[1]], suspended=True, users=[])


def lost(world: OperatorWorld, _: Place) -> None:
    world.remove(("shop", "one"))
    del world.registry.schemas["acme_test"]


def kept(world: OperatorWorld, place: Place) -> None:
    world.change(place, deletionPolicy="Retain")
    world.delete(place)


def deleted(world: OperatorWorld, place: Place) -> None:
    world.delete(place)


SCENARIOS = [rotated, moved, swapped, unlisted, inherited, dropped, relocated, restricted, lost, kept, deleted]


def settled(world: OperatorWorld, place: Place) -> None:
    """Let nothing fail, until a pass changes nothing."""
    for _ in range(30):
        written = world.writes
        outcome = world.passes(place)
        if place not in world.objects:
            return
        if outcome.retry_after is not None:
            world.advance(outcome.retry_after)
        elif any("failedAttempts" in k for k in world.status(place)["apiKeys"]) and outcome.wake_at is not None:
            world.advance(max(outcome.wake_at - world.now, timedelta(0)))
        elif world.writes == written:
            return
    raise AssertionError(f"not at rest: {world.status(place)}")


def check(world: OperatorWorld, place: Place, scenario: object) -> None:
    """Look that all is as the resource says, and that the other tenant is as it was."""
    assert {n for n in world.registry.schemas if n.startswith("globex")} == {"globex_production", "globex_test"}
    assert world.registry.is_alive(str(world.text(("other", "ledger-key"))))
    if place not in world.objects:
        assert scenario in (kept, deleted)
        schemas = {n for n in world.registry.schemas if n.startswith("acme")}
        assert schemas == ({"acme_production", "acme_test"} if scenario is kept else set())
        (name,) = {t.slug for t in world.registry.tenants.values()} - {"globex"} or {"acme"}
        assert name == "acme"
        alive = [t for t in world.registry.keys if world.registry.is_alive(t)]
        assert len(alive) == 1, "only the other tenant's key"
        return
    expected = ("False", "Suspended") if scenario is restricted else ("True", "Reconciled")
    assert world.condition(place, "Ready") == expected
    listed = {k["name"]: k for k in world.objects[place]["spec"]["apiKeys"]}
    present = {e["name"] for e in world.objects[place]["spec"]["environments"] if e.get("ensure") != "absent"}
    held = {
        world.registry.keys[s.data["api-key"]].name: (where[1], world.registry.keys[s.data["api-key"]])
        for where, s in world.secrets.stored.items()
        if where[0] == "shop"
    }
    assert set(held) == {n for n, k in listed.items() if k["environment"] in present}
    for name, (secret, key) in held.items():
        wanted = listed[name]
        assert (secret, key.environment, key.state) == (wanted["secretName"], wanted["environment"], "active")
        assert key.write == ("write" in wanted["permissions"])


@pytest.mark.parametrize("fault", ["crash", "error"])
@pytest.mark.parametrize("scenario", [nothing, *SCENARIOS])
def test_each_step_may_be_the_last(scenario: Callable[[OperatorWorld, Place], None], fault: Fault) -> None:
    for step in range(1, STEPS_MAX):
        world, place = started()
        if scenario is not nothing:
            world.passes(place)
        scenario(world, place)
        world.secrets.catch_up()
        world.run(place, {step: fault}, lost=step % 2 == 0)
        reached = world.faults.steps >= step
        world.advance(timedelta(minutes=29))
        world.advance(timedelta(days=3))
        if place in world.objects:
            settled(world, place)
        check(world, place, scenario)
        if not reached:
            return
    raise AssertionError("a pass has no end")


@pytest.mark.parametrize("scenario", [rotated, moved, relocated])
def test_two_passes_in_a_row_may_be_cut_short(scenario: Callable[[OperatorWorld, Place], None]) -> None:
    for first in range(1, STEPS_MAX):
        for second in range(1, STEPS_MAX):
            world, place = started()
            world.passes(place)
            scenario(world, place)
            world.secrets.catch_up()
            world.run(place, {first: "crash"})
            if world.faults.steps < first:
                return
            world.secrets.catch_up()
            world.run(place, {second: "crash"})
            reached = world.faults.steps >= second
            world.advance(timedelta(days=3))
            if place in world.objects:
                settled(world, place)
            check(world, place, scenario)
            if not reached:
                break
