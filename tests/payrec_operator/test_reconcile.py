"""Reconciling by examples: what becomes of each part, and what the status says of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from payrec_operator.reasons import Reason
from support.operator_registry import HEAD, NEWER, OLDER, Schema
from support.operator_world import OperatorWorld, make_key, make_spec


def test_everything_is_made_in_one_pass_and_then_nothing_costs_anything(world: OperatorWorld) -> None:
    place = world.create(make_spec(users=[{"username": "ada", "roles": ["admin"]}], displayName="Acme"))
    outcome = world.passes(place)
    assert (outcome.result, outcome.reason, outcome.retry_after) == ("reconciled", Reason.RECONCILED, None)
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert world.condition(place, "SchemasReady") == ("True", "SchemasApplied")
    assert world.condition(place, "MigrationsCurrent") == ("True", "UpToDate")
    assert world.condition(place, "CredentialsReady") == ("True", "SecretsSynced")
    assert world.condition(place, "UsersReady") == ("True", "UsersSynced")
    assert world.condition(place, "Rotating") is None
    status = world.status(place)
    assert status["environmentsReady"] == "2/2"
    assert status["migrationRevision"] == HEAD
    assert [u["username"] for u in status["users"]] == ["ada"]
    tenant_id = status["tenantId"]
    secret = world.secrets.stored["shop", "ledger-key"]
    assert secret.data == {
        "api-key": world.text(("shop", "ledger-key")),
        "api-key-id": world.key(place)["currentKeyId"],
        "tenant-id": tenant_id,
        "environment": "production",
        "base-url": "https://payrec.example",
    }
    written = world.writes
    world.advance(timedelta(minutes=5))
    assert [str(e.reason) for e in outcome.events] == ["Reconciled", "SecretRotated"]
    assert world.passes(place, 2).events == []
    assert world.writes == written
    assert world.faults.calls == ["secrets.owned", "observe"]


def test_no_status_ever_has_a_key(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    outcome = world.passes(place)
    text = world.text(("shop", "ledger-key"))
    assert text is not None
    assert text not in repr(outcome)
    assert text not in repr(world.objects[place])


def test_two_tenants_share_nothing(world: OperatorWorld) -> None:
    acme = world.create(make_spec())
    globex = world.create(make_spec("globex"), name="globex", namespace="other")
    world.passes(acme)
    world.passes(globex)
    before = (
        dict(world.registry.tenants[next(iter(world.registry.tenants))].environments),
        world.text(("shop", "ledger-key")),
    )
    world.delete(globex)
    world.change(globex, deletionPolicy="Delete")
    assert world.passes(globex).release
    assert sorted(world.registry.dropped) == ["globex_production", "globex_test"]
    world.passes(acme)
    assert world.condition(acme, "Ready") == ("True", "Reconciled")
    assert (
        dict(world.registry.tenants[next(iter(world.registry.tenants))].environments),
        world.text(("shop", "ledger-key")),
    ) == before


def test_paused_leaves_everything_as_it_is(world: OperatorWorld) -> None:
    place = world.create(make_spec(), paused="true")
    assert world.passes(place).result == "paused"
    assert world.condition(place, "Ready") == ("Unknown", "Paused")
    assert world.registry.tenants == {}
    assert world.faults.calls == []
    world.annotate(place, "paused", "false")
    world.passes(place)
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    world.annotate(place, "paused", "yes, please")
    world.change(place, suspended=True)
    world.passes(place)
    assert world.condition(place, "Ready") == ("Unknown", "Paused")
    assert world.condition(place, "SchemasReady") == ("True", "SchemasApplied"), "what is known of the parts stays"
    assert world.status(place)["observedGeneration"] == 1, "the new spec has not been looked at"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"slug": "pg-x"}, "spec.slug: is reserved"),
        ({"environments": [{"name": "sandbox"}]}, "spec.environments[0].name: "),
        ({"deletionPolicy": "Burn"}, "spec.deletionPolicy: "),
        ({"environments": [{"name": "test", "ensure": "absent"}], "apiKeys": []}, "needs deletionPolicy: Delete"),
        ({"apiKeys": [make_key(environment="staging")]}, "must name an entry of environments"),
        ({"apiKeys": [make_key(rotation={"interval": "30m"})]}, "interval must be at least 1h"),
    ],
)
def test_a_spec_that_cannot_be_is_told_and_not_tried_again(
    world: OperatorWorld, changed: dict[str, Any], sentence: str
) -> None:
    place = world.create(make_spec() | changed)
    outcome = world.passes(place)
    assert (outcome.result, outcome.retry_after) == ("invalid", None)
    assert world.condition(place, "Ready") == ("False", "InvalidSpec")
    assert sentence in world.status(place)["conditions"][0]["message"]
    assert world.registry.tenants == {}


def test_a_setting_that_cannot_be_stops_nothing_else(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.passes(place)
    world.change(place, settings={"bad": 1}, displayName="Other")
    world.remove(("shop", "ledger-key"))
    assert world.passes(place).retry_after is None
    assert world.condition(place, "Ready") == ("False", "InvalidSpec")
    assert "spec.settings.bad: is not a setting" in world.status(place)["conditions"][0]["message"]
    assert world.condition(place, "CredentialsReady") == ("True", "SecretsSynced")


def test_a_slug_belongs_to_one_resource(world: OperatorWorld) -> None:
    first = world.create(make_spec())
    world.passes(first)
    second = world.create(make_spec(), name="acme", namespace="other")
    outcome = world.passes(second)
    assert (outcome.result, outcome.retry_after) == ("stopped", None)
    assert world.condition(second, "Ready") == ("False", "SlugConflict")
    world.delete(second)
    world.change(second, deletionPolicy="Delete")
    assert world.passes(second).release
    assert world.registry.dropped == [], "what it never had is not dropped"
    assert world.condition(first, "Ready") == ("True", "Reconciled")


def test_a_resource_that_was_restored_gets_its_tenant_by_annotation_alone(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.passes(place)
    before = world.status(place)["tenantId"]
    world.objects[place]["metadata"]["uid"] = "restored"
    del world.objects[place]["status"]
    elsewhere = world.create(make_spec(), name="acme", namespace="other", adopt="true")
    for found in (place, elsewhere):
        assert world.passes(found).retry_after is None
        assert world.condition(found, "Ready") == ("False", "SlugConflict")
    world.annotate(place, "adopt", "true")
    world.passes(place)
    assert world.status(place)["tenantId"] == before
    world.passes(elsewhere)
    assert world.condition(elsewhere, "Ready") == ("False", "SlugConflict")


def test_a_schema_that_nobody_registered_is_taken_over_by_annotation_alone(world: OperatorWorld) -> None:
    world.registry.schemas["acme_test"] = Schema("nobody", OLDER)
    place = world.create(make_spec())
    outcome = world.passes(place)
    assert outcome.retry_after is None
    assert world.condition(place, "SchemasReady") == ("False", "SchemaNotOwned")
    assert world.condition(place, "Ready") == ("False", "SchemasNotReady")
    assert world.states(place) == {"production": "Applied", "test": "Failed"}
    assert world.condition(place, "CredentialsReady") == ("True", "SecretsSynced"), "the other environment goes on"
    world.annotate(place, "adopt", "yes")
    world.passes(place)
    assert world.registry.schemas["acme_test"].maker == "nobody", "only true adopts"
    world.annotate(place, "adopt", "true")
    world.passes(place)
    assert world.states(place) == {"production": "Applied", "test": "Applied"}


def test_another_roles_schema_is_never_touched(world: OperatorWorld) -> None:
    world.registry.schemas["acme_test"] = Schema("somebody")
    place = world.create(make_spec(deletionPolicy="Delete"), adopt="true")
    world.passes(place)
    assert world.condition(place, "SchemasReady") == ("False", "SchemaConflict")
    world.delete(place)
    assert world.passes(place).release
    assert world.registry.schemas["acme_test"].maker == "somebody"


def test_a_right_that_lacks_is_told_and_tried_again(world: OperatorWorld) -> None:
    world.registry.denied.add("test")
    place = world.create(make_spec())
    outcome = world.passes(place)
    assert world.condition(place, "SchemasReady") == ("False", "PermissionDenied")
    assert outcome.retry_after is not None
    world.registry.denied.clear()
    world.passes(place)
    assert world.condition(place, "Ready") == ("True", "Reconciled")


def test_a_tenant_opens_with_the_environments_that_are_there(world: OperatorWorld) -> None:
    world.registry.denied.add("test")
    place = world.create(make_spec())
    world.passes(place)
    (tenant,) = world.registry.tenants.values()
    assert tenant.status == "active", "though one of its environments waits for a right"
    world.change(place, suspended=True)
    world.passes(place)
    assert tenant.status == "suspended"


def test_migrations_that_fail_and_those_that_are_ahead(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.passes(place)
    world.registry.schemas["acme_test"].revision = OLDER
    world.registry.unmigratable.add("test")
    assert world.passes(place).retry_after is not None
    assert world.condition(place, "MigrationsCurrent") == ("False", "MigrationFailed")
    assert world.condition(place, "Ready") == ("False", "MigrationsPending")
    assert world.status(place)["migrationRevision"] == OLDER
    world.registry.unmigratable.clear()
    world.registry.schemas["acme_production"].revision = NEWER
    assert world.passes(place).retry_after is None
    assert world.condition(place, "MigrationsCurrent") == ("False", "RevisionAhead")
    assert world.condition(place, "Ready") == ("True", "Reconciled"), "newer tables are served as they are"
    assert world.states(place) == {"production": "Applied", "test": "Applied"}
    assert world.registry.schemas["acme_production"].revision == NEWER


def test_a_schema_that_was_never_made_has_its_migration_pending(world: OperatorWorld) -> None:
    world.registry.denied.add("test")
    place = world.create(make_spec())
    world.passes(place)
    assert world.condition(place, "MigrationsCurrent") == ("False", "MigrationPending")


def test_what_was_deleted_by_hand_is_back(world: OperatorWorld) -> None:
    place = world.create(make_spec())
    world.passes(place)
    del world.registry.schemas["acme_test"]
    world.remove(("shop", "ledger-key"))
    outcome = world.passes(place)
    assert "acme_test" in world.registry.schemas
    assert sorted(outcome.corrected) == ["schema", "secret"]
    assert world.condition(place, "Ready") == ("True", "Reconciled")


def test_an_environment_that_is_no_longer_listed_is_reported_and_kept(world: OperatorWorld) -> None:
    place = world.create(make_spec(deletionPolicy="Delete"))
    world.passes(place)
    world.change(place, environments=[{"name": "production"}])
    world.passes(place)
    assert world.states(place) == {"production": "Applied", "test": "Orphaned"}
    assert world.status(place)["environmentsReady"] == "1/1"
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert world.registry.dropped == []
    world.change(place, environments=[{"name": "production"}, {"name": "test", "ensure": "absent"}])
    world.passes(place)
    assert world.states(place) == {"production": "Applied", "test": "Dropped"}
    assert world.registry.dropped == ["acme_test"]
    written = world.writes
    world.passes(place)
    assert world.writes == written


def test_an_absent_environment_takes_its_keys_along_and_their_secrets_first(world: OperatorWorld) -> None:
    keys = [make_key(), make_key("probe", "test")]
    place = world.create(make_spec(deletionPolicy="Delete", apiKeys=keys))
    world.passes(place)
    text = world.text(("shop", "probe-key"))
    world.change(place, environments=[{"name": "production"}, {"name": "test", "ensure": "absent"}])
    world.faults.down.add("secrets.delete")
    outcome = world.passes(place)
    assert outcome.retry_after is not None
    assert world.states(place)["test"] == "Pending"
    assert world.registry.is_alive(str(text)), "its Secret is still there"
    world.faults.down.clear()
    world.passes(place)
    assert world.states(place)["test"] == "Dropped"
    assert world.text(("shop", "probe-key")) is None
    assert not world.registry.is_alive(str(text))
    assert [k["name"] for k in world.status(place)["apiKeys"]] == ["ledger"]


def test_a_key_that_waits_for_its_new_environment_does_not_keep_one_that_is_dropped(world: OperatorWorld) -> None:
    world.registry.schemas["acme_staging"] = Schema("nobody")
    place = world.create(make_spec(deletionPolicy="Delete"))
    world.passes(place)
    going = [{"name": "staging"}, {"name": "production", "ensure": "absent"}]
    world.change(place, environments=going, apiKeys=[make_key(environment="staging")])
    world.passes(place)
    assert world.states(place) == {"staging": "Failed", "production": "Dropped", "test": "Orphaned"}
    assert world.text(("shop", "ledger-key")) is None
    assert world.key(place)["message"] == "waits for its environment"


def test_suspension_of_the_tenant_and_of_one_environment(world: OperatorWorld) -> None:
    place = world.create(make_spec(environments=[{"name": "production"}, {"name": "test", "suspended": True}]))
    world.passes(place)
    assert world.states(place) == {"production": "Applied", "test": "Suspended"}
    assert world.status(place)["environmentsReady"] == "1/2"
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    text = world.text(("shop", "ledger-key"))
    world.change(place, suspended=True)
    outcome = world.passes(place)
    assert world.condition(place, "Ready") == ("False", "Suspended")
    assert (outcome.result, world.text(("shop", "ledger-key"))) == ("reconciled", text), "its keys wait with it"
    world.change(place, suspended=False, environments=[{"name": "production"}, {"name": "test"}])
    world.passes(place)
    assert world.states(place) == {"production": "Applied", "test": "Applied"}


def test_users_are_made_disabled_and_never_taken_from_others(world: OperatorWorld) -> None:
    other = world.create(
        make_spec("globex", users=[{"username": "bob", "roles": ["viewer"]}]), name="globex", namespace="other"
    )
    world.passes(other)
    ada, bob = {"username": "ada", "roles": ["admin"]}, {"username": "bob", "roles": ["admin"]}
    place = world.create(make_spec(users=[ada, bob]))
    world.passes(place)
    assert world.condition(place, "UsersReady") == ("False", "UsernameConflict")
    assert world.condition(place, "Ready") == ("True", "Reconciled")
    assert [u["username"] for u in world.status(place)["users"]] == ["ada"]
    assert tuple(world.registry.users["bob"].wanted.roles) == ("viewer",)
    world.change(place, users=[])
    world.passes(place)
    assert world.registry.users["ada"].disabled
    assert not world.registry.users["bob"].disabled
    assert world.condition(place, "UsersReady") == ("True", "UsersSynced")
