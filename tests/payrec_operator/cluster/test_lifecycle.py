"""A Tenant from its creation to its end, by the real operator with the chart's account, on a real API server."""

from __future__ import annotations

import httpx2
import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from payrec_operator.constants import FINALIZER
from support.commands import Running
from support.control_plane import Api, wait_until
from support.operator_process import Operators, Tenants, ask, key, message_of, reason_of

pytestmark = pytest.mark.usefixtures("operator")


def _rows(database: EmbeddedDatabase, statement: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(database.superuser_url) as connection:
        return connection.execute(statement, values).fetchall()


def test_a_tenant_becomes_ready_with_schemas_users_and_a_key_that_works(tenants: Tenants, base_url: str) -> None:
    tenants.create(
        "acme",
        displayName="Acme GmbH",
        environments=[{"name": "production"}, {"name": "test"}],
        settings={"timezone": "Europe/Berlin", "matching": {"groupSizeMax": 7}},
        users=[{"username": "ada@acme.example", "roles": ["admin"]}],
        apiKeys=[key(), key("reader", permissions=["read"], environment="test")],
    )
    status = tenants.wait_for("acme", "Reconciled")["status"]
    assert status["observedGeneration"] == 1
    assert status["environmentsReady"] == "2/2"
    assert [(e["name"], e["schemaName"], e["state"]) for e in status["environments"]] == [
        ("production", "acme_production", "Applied"),
        ("test", "acme_test", "Applied"),
    ]
    assert [u["username"] for u in status["users"]] == ["ada@acme.example"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Ready": "True",
        "SchemasReady": "True",
        "MigrationsCurrent": "True",
        "CredentialsReady": "True",
        "UsersReady": "True",
    }
    secret = tenants.wait_secret("ledger-key")
    assert secret.keys() == {"api-key", "api-key-id", "tenant-id", "environment", "base-url"}
    assert secret["tenant-id"] == status["tenantId"]
    assert secret["api-key-id"] == status["apiKeys"][0]["currentKeyId"]
    assert secret["base-url"] == base_url
    assert ask(secret).status_code == 200
    settings = ask(secret, path=f"/tenants/{secret['tenant-id']}/settings").json()
    assert (settings["timezone"], settings["matching"]["groupSizeMax"]) == ("Europe/Berlin", 7)

    reader = tenants.wait_secret("reader-key")
    assert ask(reader).status_code == 200
    refused = ask(reader, "POST", "/expected-transactions", json={})
    assert refused.json()["code"] == "insufficient_permission"
    assert ask({**reader, "environment": "production"}).json()["code"] == "environment_mismatch"


def test_secrets_belong_to_the_tenant_and_say_who_made_them(api: Api, tenants: Tenants) -> None:
    made = tenants.create("owned", apiKeys=[key()])
    tenants.wait_for("owned", "Reconciled")
    found = api.find(f"/api/v1/namespaces/{tenants.namespace}/secrets/ledger-key")
    assert found["type"] == "Opaque"
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "payrec.dev/v1",
            "kind": "Tenant",
            "name": "owned",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]
    assert found["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "payrec-operator",
        "payrec.dev/tenant-uid": made["metadata"]["uid"],
    }


def test_a_change_is_made_and_observed_and_events_tell_only_of_changes(
    operators: Operators, operator: Running, tenants: Tenants
) -> None:
    tenants.create("changing", apiKeys=[key()])
    tenants.wait_for("changing", "Reconciled")
    wait_until("its last event", lambda: ("Normal", "SecretRotated") in tenants.events("changing"))
    before = tenants.events("changing")
    tenants.change("changing", environments=[{"name": "production"}, {"name": "staging"}])
    changed = tenants.wait_for("changing", "Reconciled")
    assert changed["status"]["observedGeneration"] == changed["metadata"]["generation"] == 2
    assert changed["status"]["environmentsReady"] == "2/2"
    version = changed["metadata"]["resourceVersion"]
    operators.wait_round(operator)
    found = tenants.get("changing")
    assert found is not None
    assert found["metadata"]["resourceVersion"] == version, "a steady Tenant is not written to"
    assert tenants.events("changing") == before, "nothing that a condition tells has changed"


def test_what_is_no_longer_listed_is_reported_and_not_dropped(
    tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    tenants.create("keeping", environments=[{"name": "production"}, {"name": "test"}])
    tenants.wait_for("keeping", "Reconciled")
    tenants.change("keeping", environments=[{"name": "production"}])
    found = tenants.wait_for("keeping", "Reconciled")
    states = {e["name"]: e["state"] for e in found["status"]["environments"]}
    assert states == {"production": "Applied", "test": "Orphaned"}
    assert _rows(module_database, "SELECT 1 FROM pg_namespace WHERE nspname = 'keeping_test'")


def test_absent_drops_where_the_policy_says_delete(tenants: Tenants, module_database: EmbeddedDatabase) -> None:
    tenants.create("dropping", environments=[{"name": "production"}, {"name": "test"}], deletionPolicy="Delete")
    tenants.wait_for("dropping", "Reconciled")
    tenants.change("dropping", environments=[{"name": "production"}, {"name": "test", "ensure": "absent"}])
    wait_until(
        "the schema's end",
        lambda: not _rows(module_database, "SELECT 1 FROM pg_namespace WHERE nspname = 'dropping_test'"),
    )
    found = tenants.wait_for("dropping", "Reconciled")
    assert {e["name"]: e["state"] for e in found["status"]["environments"]}["test"] == "Dropped"


def test_a_key_that_is_no_longer_listed_ends_with_its_secret(tenants: Tenants) -> None:
    tenants.create("fewer", apiKeys=[key(), key("other")])
    tenants.wait_for("fewer", "Reconciled")
    other = tenants.wait_secret("other-key")
    assert ask(other).status_code == 200
    tenants.change("fewer", apiKeys=[key()])
    wait_until("the Secret's end", lambda: tenants.secret("other-key") is None)
    wait_until("the key's end", lambda: ask(other).json().get("code") == "revoked_credentials")
    assert ask(tenants.wait_secret("ledger-key")).status_code == 200


def test_a_rotation_is_asked_for_by_annotation_and_both_keys_work(tenants: Tenants) -> None:
    tenants.create("rotating", apiKeys=[key(), key("other")])
    tenants.wait_for("rotating", "Reconciled")
    before, other = tenants.wait_secret("ledger-key"), tenants.wait_secret("other-key")
    tenants.annotate("rotating", rotate_ledger="1")
    after = tenants.wait_secret("ledger-key", other_than=before["api-key"])
    assert ask(after).status_code == ask(before).status_code == 200
    found = tenants.wait_for("rotating", "OverlapActive", "Rotating")
    entry = found["status"]["apiKeys"][0]
    assert entry["rotationRequest"]
    assert entry["previousKeyId"] == before["api-key-id"]
    assert reason_of(found) == "Reconciled"
    assert tenants.secret("other-key") == other
    assert ("Normal", "SecretRotated") in tenants.events("rotating")


def test_a_paused_tenant_is_left_alone_and_goes_on_afterwards(
    operators: Operators, operator: Running, tenants: Tenants
) -> None:
    tenants.create("pausing", apiKeys=[key()])
    tenants.wait_for("pausing", "Reconciled")
    tenants.annotate("pausing", paused="true")
    tenants.wait_for("pausing", "Paused")
    tenants.change("pausing", apiKeys=[key(), key("other")])
    tenants.api.delete(f"/api/v1/namespaces/{tenants.namespace}/secrets/ledger-key")
    operators.wait_round(operator)
    assert tenants.secret("ledger-key") is None
    assert tenants.secret("other-key") is None
    tenants.annotate("pausing", paused=None)
    tenants.wait_for("pausing", "Reconciled")
    assert ask(tenants.wait_secret("ledger-key")).status_code == 200
    assert ask(tenants.wait_secret("other-key")).status_code == 200


def test_a_suspended_tenant_is_closed_and_opened_again(tenants: Tenants) -> None:
    tenants.create("closing", apiKeys=[key()])
    tenants.wait_for("closing", "Reconciled")
    secret = tenants.wait_secret("ledger-key")
    tenants.change("closing", suspended=True)
    tenants.wait_for("closing", "Suspended")
    assert ask(secret).json()["code"] == "tenant_suspended"
    tenants.change("closing", suspended=False)
    tenants.wait_for("closing", "Reconciled")
    assert ask(secret).status_code == 200


def test_retain_ends_the_keys_and_keeps_the_data_for_a_tenant_of_the_same_name(
    tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    tenants.create("retained", apiKeys=[key()])
    first = tenants.wait_for("retained", "Reconciled")["status"]["tenantId"]
    secret = tenants.wait_secret("ledger-key")
    tenants.delete("retained")
    tenants.wait_gone("retained")
    assert ask(secret).status_code in {401, 403}
    if tenants.api.find("/api/v1/namespaces/default/serviceaccounts/default"):
        wait_until("garbage collection", lambda: tenants.secret("ledger-key") is None)
    assert _rows(module_database, "SELECT 1 FROM pg_namespace WHERE nspname = 'retained_production'")

    tenants.create("retained", apiKeys=[key()])
    again = tenants.wait_for("retained", "Reconciled")["status"]["tenantId"]
    assert again == first
    assert ask(tenants.wait_secret("ledger-key", other_than=secret["api-key"])).status_code == 200


def test_delete_drops_the_data_and_releases_the_slug(tenants: Tenants, module_database: EmbeddedDatabase) -> None:
    tenants.create("deleted", apiKeys=[key()], deletionPolicy="Delete")
    first = tenants.wait_for("deleted", "Reconciled")["status"]["tenantId"]
    secret = tenants.wait_secret("ledger-key")
    tenants.delete("deleted")
    tenants.wait_gone("deleted")
    assert ask(secret).status_code == 401
    assert not _rows(module_database, "SELECT 1 FROM pg_namespace WHERE nspname = 'deleted_production'")
    wait_until("garbage collection", lambda: tenants.secret("ledger-key") is None)
    tenants.create("deleted")
    assert tenants.wait_for("deleted", "Reconciled")["status"]["tenantId"] != first


def test_a_slug_belongs_to_the_first_who_claims_it(api: Api, tenants: Tenants) -> None:
    elsewhere = Tenants(api, "default")
    tenants.create("claimed", apiKeys=[key()])
    tenants.wait_for("claimed", "Reconciled")
    elsewhere.create("second", slug="claimed", apiKeys=[key()])
    try:
        found = elsewhere.wait_for("second", "SlugConflict")
        assert not found["status"].get("tenantId")
        assert elsewhere.secret("ledger-key") is None
    finally:
        elsewhere.delete("second")
    elsewhere.wait_gone("second")
    assert ask(tenants.wait_secret("ledger-key")).status_code == 200, "the end of the other changed nothing here"


def test_what_the_operator_tells_has_no_key_in_it(operators: Operators, operator: Running, tenants: Tenants) -> None:
    tenants.create("quiet", apiKeys=[key()])
    found = tenants.wait_for("quiet", "Reconciled")
    secret = tenants.wait_secret("ledger-key")["api-key"]
    told = [str(found), operators.metrics(operator), operator.rest(), *operator.seen]
    events = tenants.api.request("GET", f"/api/v1/namespaces/{tenants.namespace}/events")
    assert not [text for text in [*told, str(events)] if secret in text or secret.partition(".")[2] in text]


def test_metrics_tell_of_tenants_and_forget_those_that_are_gone(
    operators: Operators, operator: Running, tenants: Tenants
) -> None:
    tenants.create("measured", apiKeys=[key()])
    tenants.wait_for("measured", "Reconciled")
    where = f'name="measured",namespace="{tenants.namespace}"'
    line = f'payrec_operator_tenant_condition{{condition="Ready",{where}}} 1.0'
    wait_until("the metric", lambda: line in operators.metrics(operator))
    text = operators.metrics(operator)
    for name in (
        'reconcile_total{result="reconciled",trigger="change"}',
        "reconcile_duration_seconds_count",
        "active_reconciles",
        "last_success_timestamp_seconds",
        'environments{state="Applied"}',
        'api_keys{state="active"}',
        'api_key_rotations_total{result="rotated"}',
        "migrations_pending 0.0",
        "finalizing 0.0",
        "build_info",
    ):
        assert f"payrec_operator_{name}" in text, name
    assert "payrec_database_pool_connections" in text
    tenants.delete("measured")
    tenants.wait_gone("measured")
    wait_until("its end", lambda: where not in operators.metrics(operator))


def test_a_tenant_that_somebody_else_keeps_is_let_go_and_not_told_of_any_more(
    operators: Operators, operator: Running, tenants: Tenants
) -> None:
    for name in ("kept", "stays"):
        tenants.create(name, apiKeys=[key(name)])
        tenants.wait_for(name, "Reconciled")
    held = tenants.wait_secret("kept-key")
    tenants.api.merge(f"{tenants.path}/kept", {"metadata": {"finalizers": [FINALIZER, "example.com/backup"]}})
    tenants.delete("kept")
    found = tenants.wait_for("kept", "Deleting")
    assert "stays until others let it go: example.com/backup" in message_of(found)

    def finalizers() -> list[str]:
        now = tenants.get("kept")
        assert now is not None
        return list(now["metadata"]["finalizers"])

    wait_until("its end for us", lambda: finalizers() == ["example.com/backup"])
    wait_until("its metrics to go", lambda: 'name="kept"' not in operators.metrics(operator))
    assert "payrec_operator_finalizing 0.0" in operators.metrics(operator)
    assert ask(held).status_code == 401
    assert ask(tenants.wait_secret("stays-key")).status_code == 200
    tenants.api.merge(f"{tenants.path}/kept", {"metadata": {"finalizers": None}})
    tenants.wait_gone("kept")


def test_probes_answer(operators: Operators, operator: Running) -> None:
    ports = operators.ports(operator)
    health = httpx2.get(f"http://127.0.0.1:{ports.health}/healthz")
    assert health.status_code == 200
    assert health.json() == {"passes": "ok", "database": "ok"}
    assert httpx2.get(f"http://127.0.0.1:{ports.internal}/readyz").status_code == 200
    assert httpx2.get(f"http://127.0.0.1:{ports.internal}/livez").status_code == 200
