"""What is tried again at once though it failed before: who has mended something does not wait for it."""

from __future__ import annotations

from datetime import timedelta

from support.operator_secrets import Place
from support.operator_world import OperatorWorld, make_key, make_spec

LEDGER = ("shop", "ledger-key")


def test_who_corrects_the_resource_does_not_wait_for_the_next_try(world: OperatorWorld) -> None:
    world.secrets.forbidden = True
    place = world.create(make_spec())
    for _ in range(4):
        world.passes(place)
        world.advance(timedelta(hours=1))
    world.passes(place)
    assert world.text(LEDGER) is None
    world.secrets.forbidden = False
    world.passes(place)
    assert world.text(LEDGER) is None, "nothing was corrected, so it waits"
    world.change(place, apiKeys=[make_key(secretName="other-key")])
    world.passes(place)
    assert world.text(("shop", "other-key")) is not None
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert "message" not in world.key(place)


def test_who_asks_again_does_not_wait_for_the_next_try(world: OperatorWorld, place: Place) -> None:
    before = world.text(LEDGER)
    world.secrets.forbidden = True
    world.annotate(place, "rotate", "1")
    world.passes(place)
    world.secrets.forbidden = False
    world.passes(place, 3)
    assert world.text(LEDGER) == before, "nothing was asked since, so it waits"
    world.annotate(place, "rotate.ledger", "2")
    world.passes(place)
    second = world.text(LEDGER)
    assert second != before
    assert "failedRequest" not in world.key(place)
    world.passes(place, 3)
    assert world.text(LEDGER) == second


def test_who_asks_again_and_again_in_vain_waits_each_time(world: OperatorWorld, place: Place) -> None:
    world.secrets.forbidden = True
    for value in "12":
        world.annotate(place, "rotate", value)
        world.passes(place, 3)
        assert (world.key(place)["failedAttempts"], world.key(place)["failedRequest"]) == (int(value), value)
    world.annotate(place, "rotate", None)
    world.passes(place)
    assert "failedAttempts" not in world.key(place), "nothing is due any more"


def test_a_rotation_that_failed_holds_up_no_secret_that_is_lost_then(world: OperatorWorld, place: Place) -> None:
    world.secrets.forbidden = True
    world.annotate(place, "rotate", "1")
    world.passes(place)
    assert world.condition(place, "Rotating") == ("False", "RotationFailed")
    world.secrets.forbidden = False
    world.passes(place)
    assert world.condition(place, "Rotating") == ("False", "RotationFailed"), "the key before works, so there is time"
    world.remove(LEDGER)
    world.passes(place)
    assert world.text(LEDGER) is not None
    assert world.condition(place, "Ready") == ("True", "Reconciled")
