"""Rotation by examples: each step, each crash, each hand that interferes. No Secret ever holds a dead key."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from payrec_operator.constants import KEYS_WAITING_FREE
from support.operator_secrets import Place
from support.operator_world import OperatorWorld, make_key, make_spec

LEDGER = ("shop", "ledger-key")
ROTATION = {"interval": "720h", "overlap": "24h"}


def states(world: OperatorWorld) -> dict[str, str]:
    return {text: key.state for text, key in world.registry.keys.items()}


def test_a_key_is_replaced_when_its_time_has_come(world: OperatorWorld, place: Place) -> None:
    first = world.text(LEDGER)
    planned = world.key(place)["nextRotationTime"]
    assert world.status(place)["nextRotationTime"] == planned
    due = datetime.fromisoformat(planned)
    assert timedelta(hours=648) < due - world.now <= timedelta(hours=720)
    world.advance(due - world.now - timedelta(seconds=2))
    assert world.passes(place).rotations == {}
    world.advance(timedelta(seconds=3))
    outcome = world.passes(place)
    second = world.text(LEDGER)
    assert second != first
    assert outcome.rotations == {"rotated": 1}
    assert [str(e.reason) for e in outcome.events] == ["OverlapActive", "SecretRotated"]
    assert world.condition(place, "Rotating") == ("True", "OverlapActive")
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert states(world) == {first: "retiring", second: "active"}
    key = world.key(place)
    assert key["previousExpiresAt"] == (world.now + timedelta(hours=24)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert key["previousKeyId"] == str(world.registry.keys[str(first)].key_id)
    world.advance(timedelta(hours=24))
    world.passes(place)
    assert states(world) == {first: "revoked", second: "active"}
    assert world.condition(place, "Rotating") is None
    assert "previousKeyId" not in world.key(place)


@pytest.mark.parametrize("verb", ["rotate", "rotate.ledger"])
def test_an_annotation_asks_once(world: OperatorWorld, place: Place, verb: str) -> None:
    first = world.text(LEDGER)
    world.annotate(place, verb, "2026-03-01")
    world.passes(place, 3)
    second = world.text(LEDGER)
    assert second != first
    assert world.key(place)["rotationRequest"] == "2026-03-01"
    world.annotate(place, verb, None)
    world.passes(place, 2)
    assert world.text(LEDGER) == second
    world.annotate(place, "rotate.other", "x")
    world.passes(place)
    assert world.text(LEDGER) == second


def test_a_second_request_waits_for_the_overlap(world: OperatorWorld, place: Place) -> None:
    world.annotate(place, "rotate", "1")
    world.passes(place)
    text = world.text(LEDGER)
    world.annotate(place, "rotate", "2")
    outcome = world.passes(place)
    assert (outcome.rotations, outcome.retry_after) == ({"deferred": 1}, None)
    assert world.condition(place, "Rotating") == ("False", "RotationDeferred")
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert outcome.wake_at == world.now + timedelta(hours=24)
    assert world.text(LEDGER) == text
    written = world.writes
    world.passes(place)
    assert world.writes == written
    world.advance(timedelta(hours=24))
    world.passes(place)
    assert world.text(LEDGER) != text
    assert world.key(place)["rotationRequest"] == "2"


def test_a_key_without_rotation_has_an_overlap_of_a_day(world: OperatorWorld, place: Place) -> None:
    world.change(place, apiKeys=[make_key()])
    world.passes(place)
    assert "nextRotationTime" not in world.key(place)
    assert "nextRotationTime" not in world.status(place)
    world.annotate(place, "rotate", "1")
    world.passes(place)
    assert world.key(place)["previousExpiresAt"] == "2026-03-02T12:00:00Z"


def test_the_overlap_is_at_most_half_the_interval_unless_said(world: OperatorWorld, place: Place) -> None:
    world.change(place, apiKeys=[make_key(rotation={"interval": "2h"})])
    world.annotate(place, "rotate", "1")
    world.passes(place)
    assert world.key(place)["previousExpiresAt"] == "2026-03-01T13:00:00Z"


def test_a_shorter_interval_counts_at_once(world: OperatorWorld, place: Place) -> None:
    text = world.text(LEDGER)
    world.advance(timedelta(hours=3))
    world.change(place, apiKeys=[make_key(rotation={"interval": "2h"})])
    world.passes(place)
    assert world.text(LEDGER) != text


def test_permissions_change_without_a_new_key(world: OperatorWorld, place: Place) -> None:
    world.annotate(place, "rotate", "1")
    first = world.text(LEDGER)
    world.passes(place)
    second = world.text(LEDGER)
    world.change(place, apiKeys=[make_key(permissions=["read"], rotation=ROTATION)])
    outcome = world.passes(place)
    assert (world.text(LEDGER), outcome.rotations) == (second, {})
    assert [(k.read, k.write) for k in world.registry.keys.values()] == [(True, False)] * 2, "the one before as well"
    assert states(world) == {first: "retiring", second: "active"}


def test_a_key_revoked_by_hand_is_replaced_at_once(world: OperatorWorld, place: Place) -> None:
    first = str(world.text(LEDGER))
    world.revoke(first)
    outcome = world.passes(place)
    assert world.text(LEDGER) not in (None, first)
    assert outcome.corrected == ()
    assert world.condition(place, "CredentialsReady") == ("True", "SecretsSynced")


@pytest.mark.parametrize("field", ["api-key", "api-key-id"])
def test_a_secret_edited_by_hand_gets_a_new_key(world: OperatorWorld, place: Place, field: str) -> None:
    first = str(world.text(LEDGER))
    world.edit(LEDGER, **{field: "something"})
    world.passes(place)
    assert world.text(LEDGER) not in (first, "something", None)
    assert states(world)[first] == "retiring", "who has the key before may use it until its overlap ends"


def test_what_is_wrong_beside_the_key_is_put_right_without_a_new_key(world: OperatorWorld, place: Place) -> None:
    text = world.text(LEDGER)
    world.edit(LEDGER, base_url="https://elsewhere.example", environment="test", more="kept out")
    outcome = world.passes(place)
    data = world.secrets.stored[LEDGER].data
    assert (data["api-key"], data["base-url"], data["environment"]) == (text, "https://payrec.example", "production")
    assert outcome.corrected == ("secret",)
    assert outcome.rotations == {}


def test_a_secret_that_lost_its_label_is_found_again_with_the_same_key(world: OperatorWorld, place: Place) -> None:
    text = world.text(LEDGER)
    world.secrets.unlabel(LEDGER)
    world.passes(place)
    assert (world.text(LEDGER), world.secrets.stored[LEDGER].labelled) == (text, True)
    assert world.condition(place, "Ready") == ("True", "Reconciled")


def test_another_keys_text_is_no_good(world: OperatorWorld) -> None:
    place = world.create(make_spec(apiKeys=[make_key(), make_key("probe", "test")]))
    world.passes(place)
    probe = world.secrets.stored["shop", "probe-key"].data
    world.edit(LEDGER, api_key=probe["api-key"], api_key_id=probe["api-key-id"])
    world.passes(place)
    assert world.text(LEDGER) != probe["api-key"]
    assert world.text(("shop", "probe-key")) == probe["api-key"]


def test_a_foreign_secret_is_never_touched(world: OperatorWorld) -> None:
    world.secrets.put(LEDGER, None, {"api-key": "mine"})
    place = world.create(make_spec())
    outcome = world.passes(place)
    assert world.condition(place, "CredentialsReady") == ("False", "SecretConflict")
    assert world.condition(place, "Ready") == ("False", "CredentialsNotReady")
    assert (world.secrets.stored[LEDGER].data, outcome.retry_after) == ({"api-key": "mine"}, None)
    assert world.registry.keys == {}, "no key is made for a Secret that cannot be written"
    world.remove(LEDGER)
    world.passes(place)
    assert world.condition(place, "Ready") == ("True", "Reconciled")


def test_a_secret_that_may_not_be_written_is_tried_again_later_each_time(world: OperatorWorld) -> None:
    world.secrets.forbidden = True
    place = world.create(make_spec())
    outcome = world.passes(place)
    assert world.condition(place, "CredentialsReady") == ("False", "SecretWriteForbidden")
    assert outcome.retry_after is not None
    assert outcome.rotations == {"failed": 1}
    assert world.key(place)["failedAttempts"] == 1
    events = world.passes(place)
    assert (events.events, events.retry_after, events.rotations) == ([], None, {})
    assert world.condition(place, "CredentialsReady") == ("False", "SecretWriteForbidden"), "it says so until it works"
    assert events.wake_at == world.now + timedelta(minutes=1)
    tries = []
    for _ in range(60 * 24):
        world.advance(timedelta(minutes=1))
        tries += [world.now] if world.passes(place).rotations else []
    waits = [round((b - a) / timedelta(minutes=1)) for a, b in pairwise(tries)]
    assert waits[:7] == [2, 4, 8, 16, 32, 60, 60]
    assert sum(k.state == "pending" for k in world.registry.keys.values()) <= 1
    world.secrets.forbidden = False
    world.advance(timedelta(hours=1))
    world.passes(place)
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert "failedAttempts" not in world.key(place)


def test_a_rotation_that_fails_leaves_the_working_key(world: OperatorWorld, place: Place) -> None:
    text = world.text(LEDGER)
    world.faults.down.add("secrets.write")
    world.annotate(place, "rotate", "1")
    world.passes(place)
    assert world.condition(place, "Rotating") == ("False", "RotationFailed")
    assert world.condition(place, "CredentialsReady") == ("True", "SecretsSynced")
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert world.text(LEDGER) == text
    world.passes(place)
    assert world.condition(place, "Rotating") == ("False", "RotationFailed")
    world.faults.down.clear()
    world.advance(timedelta(minutes=1))
    world.passes(place)
    assert world.condition(place, "Rotating") == ("True", "OverlapActive")


def test_a_key_that_reached_no_secret_is_revoked_when_no_pass_can_write_it_any_more(
    world: OperatorWorld, place: Place
) -> None:
    world.faults.down.add("secrets.write")
    world.annotate(place, "rotate", "1")
    world.passes(place)
    (stray,) = [text for text, state in states(world).items() if state == "pending"]
    world.faults.down.clear()
    world.advance(timedelta(minutes=1))
    world.passes(place)
    assert world.text(LEDGER) != stray
    world.advance(timedelta(minutes=8, seconds=59))
    world.passes(place)
    assert states(world)[stray] == "pending", "a pass that hangs may be about to write it"
    world.advance(timedelta(seconds=1))
    world.passes(place)
    assert states(world)[stray] == "revoked"


def test_an_api_server_that_is_away_is_told_and_takes_nothing_back(world: OperatorWorld, place: Place) -> None:
    before = world.key(place)
    world.faults.down.add("secrets.owned")
    outcome = world.passes(place)
    assert world.condition(place, "CredentialsReady") == ("Unknown", "KeyStoreUnavailable")
    assert world.condition(place, "SchemasReady") == ("True", "SchemasApplied")
    assert outcome.retry_after is not None
    assert world.key(place) == before


def test_a_stale_cache_makes_no_second_key(world: OperatorWorld, place: Place) -> None:
    world.annotate(place, "rotate", "1")
    world.passes(place)
    text = world.text(LEDGER)
    assert world.run(place) is not None, "with a cache from before the rotation"
    assert world.text(LEDGER) == text
    assert sorted(states(world).values()) == ["active", "retiring"]


def test_another_secret_name_moves_the_key(world: OperatorWorld, place: Place) -> None:
    first = world.text(LEDGER)
    world.change(place, apiKeys=[make_key(secretName="moved", rotation=ROTATION)])
    world.passes(place)
    assert world.text(LEDGER) is None
    assert world.text(("shop", "moved")) not in (None, first)
    assert states(world)[str(first)] == "retiring", "it works on where it is used already"
    assert world.condition(place, "CredentialsReady") == ("True", "SecretsSynced")


def test_the_secret_before_stays_until_the_new_one_works(world: OperatorWorld, place: Place) -> None:
    first = world.text(LEDGER)
    world.secrets.put(("shop", "taken"), None, {})
    world.change(place, apiKeys=[make_key(secretName="taken", rotation=ROTATION)])
    world.passes(place, 2)
    assert world.condition(place, "CredentialsReady") == ("False", "SecretConflict")
    assert (world.text(LEDGER), states(world)) == (first, {first: "active"})


def test_a_secret_of_no_key_with_a_dead_key_goes(world: OperatorWorld, place: Place) -> None:
    world.revoke(str(world.text(LEDGER)))
    world.change(place, apiKeys=[make_key(secretName="moved")])
    world.passes(place)
    assert [name for _, name in world.secrets.stored] == ["moved"]


def test_two_keys_can_change_places(world: OperatorWorld) -> None:
    keys = [make_key(secretName="one"), make_key("probe", "test", secretName="two")]
    place = world.create(make_spec(apiKeys=keys))
    world.passes(place)
    swapped = [make_key(secretName="two"), make_key("probe", "test", secretName="one")]
    world.change(place, apiKeys=swapped)
    world.passes(place)
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    held = {n: world.registry.keys[str(world.text(("shop", n)))].name for n in ("one", "two")}
    assert held == {"one": "probe", "two": "ledger"}


def test_a_key_that_is_no_longer_listed_is_revoked_after_its_secret(world: OperatorWorld, place: Place) -> None:
    text = str(world.text(LEDGER))
    world.change(place, apiKeys=[])
    world.faults.down.add("secrets.delete")
    outcome = world.passes(place)
    assert outcome.retry_after is not None
    assert world.registry.is_alive(text)
    assert world.condition(place, "CredentialsReady") == ("False", "KeyStoreUnavailable")
    assert world.status(place)["apiKeys"] == [
        {"name": "ledger", "message": "is no longer listed, and is revoked once no Secret holds it"}
    ]
    world.faults.down.clear()
    world.passes(place)
    assert not world.registry.is_alive(text)
    assert world.text(LEDGER) is None
    assert world.status(place)["apiKeys"] == []


def test_one_key_may_take_over_the_secret_of_another_that_goes(world: OperatorWorld, place: Place) -> None:
    text = str(world.text(LEDGER))
    world.change(place, apiKeys=[make_key("heir", secretName="ledger-key")])
    world.passes(place)
    assert not world.registry.is_alive(text)
    assert world.registry.keys[str(world.text(LEDGER))].name == "heir"


def test_one_key_that_fails_never_stops_the_others(world: OperatorWorld) -> None:
    world.secrets.put(LEDGER, None, {})
    place = world.create(make_spec(apiKeys=[make_key(), make_key("probe", "test")]))
    world.passes(place)
    assert world.text(("shop", "probe-key")) is not None
    assert world.condition(place, "CredentialsReady") == ("False", "SecretConflict")
    assert world.key(place)["message"].startswith("Secret ledger-key is there")


def test_what_deletes_the_secret_all_the_time_does_not_fill_the_quota(world: OperatorWorld, place: Place) -> None:
    for _ in range(24 * 60):
        world.remove(LEDGER)
        world.passes(place)
        world.advance(timedelta(minutes=1))
    living = sum(k.state in ("pending", "active", "retiring") for k in world.registry.keys.values())
    assert living <= 30
    assert world.condition(place, "CredentialsReady") == ("False", "KeyStoreUnavailable")


def test_the_first_deletions_are_made_good_at_once(world: OperatorWorld, place: Place) -> None:
    for _ in range(KEYS_WAITING_FREE):
        world.remove(LEDGER)
        world.passes(place)
        assert world.text(LEDGER) is not None


def test_two_operators_by_mistake_agree_on_one_key(world: OperatorWorld, place: Place) -> None:
    """The second one reads before the first one writes, and writes after it."""
    world.annotate(place, "rotate", "1")
    write = world.secrets.write
    raced: list[str | None] = []

    async def slow(owner: object, name: str, data: dict[str, str], *, seen: str | None) -> str:
        if not raced:
            raced.append(seen)
            calls = world.faults.calls
            assert world.run(place) is not None
            world.faults.calls = calls
        return await write(owner, name, data, seen=seen)  # type: ignore[arg-type]

    world.secrets.write = slow  # type: ignore[method-assign, assignment]
    world.passes(place)
    world.secrets.write = write  # type: ignore[method-assign]
    world.passes(place)
    world.advance(timedelta(minutes=11))
    world.passes(place)
    assert sorted(states(world).values()) == ["active", "retiring", "revoked"]
    assert states(world)[str(world.text(LEDGER))] == "active"
    assert world.condition(place, "Ready") == ("True", "Reconciled")
