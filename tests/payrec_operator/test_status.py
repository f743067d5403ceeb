"""The status by examples: what it keeps when nothing can be seen, what it remembers, what it never says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from payrec_operator.problems import Problem
from payrec_operator.reasons import Reason
from payrec_operator.resources import TenantResource
from payrec_operator.stops import stopped
from support.operator_secrets import Place
from support.operator_world import OperatorWorld, make_spec


def test_a_database_that_does_not_answer_takes_nothing_back(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.passes(place)
    before = world.status(place)
    world.faults.down.add("observe")
    outcome = world.passes(place)
    assert (outcome.result, outcome.reason) == ("failed", Reason.DATABASE_UNAVAILABLE)
    assert world.condition(place, "Ready") == ("Unknown", "DatabaseUnavailable")
    assert world.condition(place, "SchemasReady") == ("Unknown", "DatabaseUnavailable")
    assert world.condition(place, "CredentialsReady") == ("Unknown", "KeyStoreUnavailable")
    assert world.condition(place, "UsersReady") == ("True", "UsersSynced")
    assert {k: v for k, v in world.status(place).items() if k != "conditions"} == {
        k: v for k, v in before.items() if k != "conditions"
    }
    waits = []
    for _ in range(10):
        again = world.passes(place)
        assert again.events == [], "an event tells of a change, not of a state"
        assert again.retry_after is not None
        waits.append(again.retry_after.total_seconds())
    assert waits == sorted(waits)
    assert waits[-1] == 225, "between half of 300 s and 300 s"
    world.faults.down.clear()
    world.passes(place)
    assert world.condition(place, "Ready") == ("True", "Reconciled")


@pytest.mark.parametrize("call", ["apply", "sync_users", "ensure_environment", "claim", "mint", "promote"])
def test_one_call_that_fails_is_made_again(world: OperatorWorld, call: str) -> None:
    place = world.create(make_spec(suspended=True, users=[{"username": "ada", "roles": ["admin"]}]))
    world.faults.down.add(call)
    outcome = world.passes(place)
    assert outcome.retry_after is not None
    assert world.condition(place, "Ready") != ("True", "Reconciled")
    world.faults.down.clear()
    world.advance(timedelta(minutes=2))
    world.passes(place)
    assert world.condition(place, "Ready") == ("False", "Suspended")
    assert world.condition(place, "CredentialsReady") == ("True", "SecretsSynced")


def test_an_error_that_nobody_foresaw_is_told_without_its_text(world: OperatorWorld) -> None:
    place = world.create(make_spec())

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("pr_secret")

    world.registry.observe = broken  # type: ignore[method-assign]
    outcome = world.passes(place)
    assert world.condition(place, "Ready") == ("Unknown", "InternalError")
    assert "pr_secret" not in repr(world.status(place))
    assert [type(e) for e in outcome.errors] == [RuntimeError]
    assert outcome.retry_after is not None


def test_conditions_keep_their_time_and_others_conditions_stay(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.passes(place)
    foreign = {
        "type": "argo.example/Synced",
        "status": "True",
        "reason": "Yes",
        "message": "",
        "lastTransitionTime": "x",
    }
    world.objects[place]["status"]["conditions"].append(foreign)
    world.objects[place]["status"]["newer"] = {"field": 1}
    world.advance(timedelta(hours=1))
    world.change(place, displayName="Other", users=[{"username": "ada", "roles": ["admin"]}])
    world.passes(place)
    conditions = {c["type"]: c for c in world.status(place)["conditions"]}
    assert conditions["argo.example/Synced"] == foreign
    assert world.status(place)["newer"] == {"field": 1}
    assert conditions["Ready"]["lastTransitionTime"] == "2026-03-01T12:00:00Z"
    assert conditions["Ready"]["observedGeneration"] == 2
    assert world.status(place)["observedGeneration"] == 2
    world.change(place, suspended=True)
    world.passes(place)
    conditions = {c["type"]: c for c in world.status(place)["conditions"]}
    assert conditions["Ready"]["lastTransitionTime"] == "2026-03-01T13:00:00Z"


def test_an_annotation_that_asks_for_nothing_is_told_of(world: OperatorWorld, place: Place) -> None:
    for verb, value, said in (
        ("rotate.ledgr", "1", "annotation payrec.dev/rotate.ledgr names no key of spec.apiKeys"),
        ("rotate.", "1", "annotation payrec.dev/rotate. names no key of spec.apiKeys"),
        ("rotat", "1", "annotation payrec.dev/rotat is none of rotate, paused, adopt, abandon, rotate.<key>"),
        ("adopt", "yes", 'annotation payrec.dev/adopt counts as "true" alone'),
        ("rotate.ledger", "1", None),
        ("paused", "false", None),
        ("adopt", "true", None),
    ):
        world.annotate(place, verb, value)
        world.passes(place)
        [ready] = [c for c in world.status(place)["conditions"] if c["type"] == "Ready"]
        whole = "everything that the resource asks for is there"
        assert (ready["status"], ready["message"]) == ("True", f"{whole}; {said}" if said else whole)
        world.annotate(place, verb, None)
    # Where it would be looked for first: the resource could not become the tenant's.
    other = world.create(make_spec(), name="restored", adopt="True")
    world.passes(other)
    [ready] = [c for c in world.status(other)["conditions"] if c["type"] == "Ready"]
    assert ready["reason"] == "SlugConflict"
    assert ready["message"].endswith('; annotation payrec.dev/adopt counts as "true" alone')


def test_a_namespace_that_is_going_stops_the_pass(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.secrets.terminating.add("shop")
    outcome = world.passes(place)
    assert (outcome.status, outcome.result, outcome.retry_after) == (None, "stopped", None)


def test_a_pass_that_was_cut_short_says_whether_there_was_one_before(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    problem = Problem(reason=Reason.PROGRESSING, message="cut short", transient=True)
    for expected in ("Pending", "Progressing"):
        resource = TenantResource.parse(world.objects[place])
        outcome = stopped(resource, problem, now=world.now, attempt=0, jitter=0)
        assert outcome.status is not None
        outcome.status.apply(world.objects[place])
        assert world.condition(place, "Ready") == ("Unknown", expected)
        world.passes(place)


def test_a_rotation_that_could_not_be_looked_at_is_remembered() -> None:
    remembered = 0
    for step in range(1, 60):
        world = OperatorWorld()
        place = world.create(make_spec())
        world.passes(place)
        world.annotate(place, "rotate", "1")
        outcome = world.run(place, {step: "error"})
        assert outcome is not None
        if outcome.rotations == {"rotated": 1} and outcome.result == "failed":
            remembered += 1
            assert world.condition(place, "Ready") == ("Unknown", "DatabaseUnavailable")
            text = world.text(("shop", "ledger-key"))
            assert "RotationDeferred" not in [str(e.reason) for e in world.passes(place).events]
            world.advance(timedelta(days=2))
            world.passes(place)
            assert world.text(("shop", "ledger-key")) == text
    assert remembered
