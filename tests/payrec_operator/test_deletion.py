"""Deletion by examples: what goes, what stays, and that it always ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from payrec_operator.constants import DELETION_TRIES_MAX, FINALIZER
from payrec_operator.handlers import RELEASE_SECONDS_MAX
from payrec_operator.outcome import retry_delay
from support.operator_secrets import Place
from support.operator_world import OperatorWorld, make_spec

LEDGER = ("shop", "ledger-key")


def gone(world: OperatorWorld, policy: str, **annotations: str) -> tuple[Place, str]:
    """Return a Tenant that is being deleted, and the key that its Secret holds."""
    place = world.create(make_spec(deletionPolicy=policy), **annotations)
    world.passes(place)
    text = world.text(LEDGER)
    assert text is not None
    world.delete(place)
    return place, text


def test_retain_keeps_the_data_and_ends_the_keys(world: OperatorWorld) -> None:
    place, text = gone(world, "Retain")
    outcome = world.passes(place)
    assert (outcome.release, outcome.result) == (True, "released")
    assert not world.registry.is_alive(text)
    assert world.text(LEDGER) is None
    assert sorted(world.registry.schemas) == ["acme_production", "acme_test"]
    (tenant,) = world.registry.tenants.values()
    assert (tenant.owner, tenant.status) == (None, "suspended")


def test_delete_drops_the_data_after_the_keys(world: OperatorWorld) -> None:
    place, text = gone(world, "Delete")
    outcome = world.passes(place)
    assert outcome.release
    assert [str(e.reason) for e in outcome.events] == ["Deleting", "DroppingSchemas"]
    assert world.faults.calls == ["find", "secrets.list", "secrets.delete", "begin_drop"]
    assert not world.registry.is_alive(text)
    assert world.registry.schemas == {}


def test_the_same_resource_made_again_finds_its_data(world: OperatorWorld) -> None:
    place, text = gone(world, "Retain")
    tenant_id = world.status(place)["tenantId"]
    world.passes(place)
    elsewhere = world.create(make_spec(), namespace="other")
    world.passes(elsewhere)
    assert world.condition(elsewhere, "Ready") == ("False", "SlugConflict"), "of another namespace it is another"
    again = world.create(make_spec())
    world.passes(again)
    assert world.status(again)["tenantId"] == tenant_id
    assert world.condition(again, "Ready") == ("True", "Reconciled")
    assert world.text(LEDGER) not in (None, text), "its keys are new"


def test_a_spec_that_is_wrong_can_be_deleted(world: OperatorWorld) -> None:
    place, _ = gone(world, "Delete")
    world.change(place, environments=[])
    assert world.passes(place).release
    assert world.registry.schemas == {}


def test_a_policy_that_is_unknown_keeps_the_data(world: OperatorWorld) -> None:
    place, _ = gone(world, "Delete")
    world.change(place, deletionPolicy="delete")
    assert world.passes(place).release
    assert sorted(world.registry.schemas) == ["acme_production", "acme_test"]


def test_paused_waits_and_abandon_goes(world: OperatorWorld) -> None:
    place, text = gone(world, "Delete")
    world.annotate(place, "paused", "true")
    outcome = world.passes(place)
    assert (outcome.release, outcome.result) == (False, "paused")
    assert outcome.retry_after == timedelta(seconds=300)
    assert world.registry.is_alive(text)
    world.annotate(place, "abandon", "yes")
    assert not world.passes(place).release, "only true abandons"
    world.annotate(place, "abandon", "true")
    outcome = world.passes(place)
    assert outcome.release
    assert [(e.type, str(e.reason)) for e in outcome.events] == [("Warning", "DropFailed")]
    assert not world.registry.is_alive(text), "what could be closed is closed"
    assert "keys" not in outcome.events[0].message
    assert sorted(world.registry.schemas) == ["acme_production", "acme_test"], "giving up drops nothing"


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_who_keeps_a_resource_that_we_have_let_go_is_named(world: OperatorWorld, policy: str) -> None:
    place, _ = gone(world, policy)
    alone = world.create(make_spec("globex", deletionPolicy=policy), namespace="other")
    world.passes(alone)
    world.delete(alone)
    world.objects[place]["metadata"]["finalizers"] = ["example.com/backup", FINALIZER]
    world.objects[alone]["metadata"]["finalizers"] = [FINALIZER]
    for resource, told in ((place, "stays until others let it go: example.com/backup"), (alone, "")):
        outcome = world.passes(resource)
        assert outcome.release
        assert outcome.status is not None
        messages = {c["message"] for c in outcome.status.conditions if c["type"] in {"Ready", "Deleting"}}
        assert {m.partition("and the resource ")[2] for m in messages} == {told}


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@pytest.mark.parametrize("call", ["find", "secrets.list", "secrets.delete", "orphan", "begin_drop"])
def test_a_step_that_fails_is_tried_again(world: OperatorWorld, policy: str, call: str) -> None:
    place, _ = gone(world, policy)
    world.faults.down.add(call)
    if call == ("begin_drop" if policy == "Retain" else "orphan"):
        assert world.passes(place).release, "it is not called"
        return
    outcome = world.passes(place)
    assert (outcome.release, outcome.result) == (False, "failed")
    assert outcome.retry_after is not None
    assert world.condition(place, "Deleting") == ("False", "DropFailed")
    assert world.condition(place, "Ready") == ("False", "Deleting")
    world.faults.down.clear()
    assert world.passes(place).release


@pytest.mark.parametrize("call", ["find", "begin_drop"])
def test_no_deletion_hangs_for_ever(world: OperatorWorld, call: str) -> None:
    place, text = gone(world, "Delete")
    world.faults.down.add(call)
    for _ in range(DELETION_TRIES_MAX - 1):
        assert not world.passes(place).release
    outcome = world.passes(place)
    assert outcome.release
    assert outcome.events[0].reason == "DropFailed"
    assert sorted(world.registry.schemas) == ["acme_production", "acme_test"], "giving up drops nothing"
    assert world.registry.is_alive(text) == (call == "find")
    assert ("its keys may still work" in outcome.events[0].message) == (call == "find")


def test_a_deletion_is_tried_for_longer_than_its_alert_waits() -> None:
    longest = timedelta(seconds=RELEASE_SECONDS_MAX)
    shortest = sum((min(retry_delay(n, 0.0), longest) for n in range(DELETION_TRIES_MAX)), timedelta())
    assert timedelta(hours=1) < shortest < timedelta(hours=2)


@pytest.mark.parametrize("call", ["find", "orphan"])
def test_who_gives_up_is_told_of_keys_that_could_not_be_ended(world: OperatorWorld, call: str) -> None:
    place, text = gone(world, "Retain")
    world.annotate(place, "abandon", "true")
    world.faults.down.add(call)
    outcome = world.passes(place)
    assert outcome.release
    assert world.registry.is_alive(text)
    assert "its keys may still work: make the resource again" in outcome.events[0].message
    world.faults.down.clear()
    again = world.create(make_spec(deletionPolicy="Retain"), adopt="true")
    world.passes(again)
    assert world.condition(again, "Ready") == ("True", "Reconciled")
    world.delete(again)
    assert world.passes(again).release
    assert not world.registry.is_alive(text)


def test_secrets_that_cannot_be_deleted_do_not_keep_the_keys_alive(world: OperatorWorld) -> None:
    place, text = gone(world, "Retain")
    world.faults.down.add("secrets.list")
    for _ in range(3):
        assert not world.passes(place).release
    assert world.registry.is_alive(text)
    world.excused.add(text)
    assert world.passes(place).release
    assert not world.registry.is_alive(text)


def test_what_was_never_made_goes_at_once(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.delete(place)
    assert world.passes(place).release
    assert world.registry.tenants == {}


def test_a_tenant_that_is_being_deleted_by_others_is_left_alone(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.passes(place)
    (tenant,) = world.registry.tenants.values()
    tenant.status = "deleting"
    written = world.registry.writes
    outcome = world.passes(place)
    assert world.condition(place, "Ready") == ("False", "Deleting")
    assert (world.registry.writes, outcome.retry_after) == (written, None)
