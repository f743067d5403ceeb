"""What somebody changes by hand is as it was soon after, and what is not ours is left alone."""

from __future__ import annotations

import base64
import re
import time
from typing import Any
from uuid import UUID

import psycopg
import pytest

from payrec.domain.scope import role_name
from payrec.embedded.postgres import ADMIN_ROLE, LOGIN_ROLE, EmbeddedDatabase
from support.commands import Running
from support.control_plane import Api, ApiError, wait_until
from support.operator_process import Operators, Tenants, ask, key, message_of

BACK_SECONDS_MAX = 3.0
"""How long a Secret that was deleted may be gone."""


def _path(tenants: Tenants, name: str) -> str:
    return f"/api/v1/namespaces/{tenants.namespace}/secrets/{name}"


def _secret(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"password": "x"}, **more}


@pytest.fixture(autouse=True)
def _running(operator: Running) -> None:
    assert operator.process.poll() is None


def test_a_secret_that_is_deleted_is_back_within_seconds_with_a_key_that_works(
    api: Api, tenants: Tenants, operators: Operators, operator: Running
) -> None:
    tenants.create("gone", apiKeys=[key(), key("other")])
    tenants.wait_for("gone", "Reconciled")
    before, other = tenants.wait_secret("ledger-key"), tenants.wait_secret("other-key")
    begun = time.monotonic()
    api.delete(_path(tenants, "ledger-key"))
    after = tenants.wait_secret("ledger-key", other_than=before["api-key"])
    assert time.monotonic() - begun < BACK_SECONDS_MAX
    assert ask(after).status_code == 200
    assert ask(before).status_code == 200, "whoever has it mounted still works until the overlap ends"
    assert tenants.secret("other-key") == other
    found = tenants.wait_for("gone", "Reconciled")
    wait_until("the status", lambda: _current(tenants, "gone") == after["api-key-id"])
    assert found["status"]["observedGeneration"] == 1
    assert 'drift_corrected_total{kind="secret"}' in operators.metrics(operator)


def _current(tenants: Tenants, name: str) -> str | None:
    found = tenants.get(name)
    assert found is not None
    current: str | None = found["status"]["apiKeys"][0].get("currentKeyId")
    return current


@pytest.mark.parametrize("value", ["", "pr_0000000000000000.bad", "\x00\xff"])
def test_a_secret_that_is_edited_holds_a_working_key_again(api: Api, tenants: Tenants, value: str) -> None:
    name = f"edited{len(value)}"
    tenants.create(name, apiKeys=[key()])
    tenants.wait_for(name, "Reconciled")
    before = tenants.wait_secret("ledger-key")
    encoded = base64.b64encode(value.encode("latin-1")).decode()
    api.merge(_path(tenants, "ledger-key"), {"data": {"api-key": encoded, "note": encoded}})

    def mended() -> dict[str, str] | None:
        found = tenants.secret("ledger-key") or {}
        return found if found.get("api-key") not in {before["api-key"], value} and len(found) == 5 else None

    assert ask(wait_until("the Secret", mended)).status_code == 200


def test_a_secret_of_another_tenant_in_place_of_ours_is_replaced(api: Api, tenants: Tenants) -> None:
    for name in ("mine", "theirs"):
        tenants.create(name, apiKeys=[key(name)])
        tenants.wait_for(name, "Reconciled")
    theirs = api.find(_path(tenants, "theirs-key"))["data"]
    mine = tenants.wait_secret("mine-key")
    api.merge(_path(tenants, "mine-key"), {"data": theirs})

    def own() -> dict[str, str] | None:
        found = tenants.secret("mine-key") or {}
        return found if found.get("tenant-id") == mine["tenant-id"] else None

    assert ask(wait_until("the Secret", own)).status_code == 200
    assert ask(tenants.wait_secret("theirs-key")).status_code == 200


def test_labels_and_annotations_of_others_stay_on_a_secret(api: Api, tenants: Tenants) -> None:
    tenants.create("labelled", apiKeys=[key()])
    tenants.wait_for("labelled", "Reconciled")
    before = tenants.wait_secret("ledger-key")
    theirs = {"labels": {"example.com/team": "a"}, "annotations": {"example.com/sync": "yes"}}
    api.merge(_path(tenants, "ledger-key"), {"metadata": theirs})
    tenants.annotate("labelled", rotate="1")
    tenants.wait_secret("ledger-key", other_than=before["api-key"])
    found = api.find(_path(tenants, "ledger-key"))["metadata"]
    assert found["labels"]["example.com/team"] == "a"
    assert found["annotations"]["example.com/sync"] == "yes"
    assert found["labels"]["app.kubernetes.io/managed-by"] == "payrec-operator"


def test_a_secret_of_somebody_else_is_never_touched(api: Api, tenants: Tenants) -> None:
    theirs = api.create(f"/api/v1/namespaces/{tenants.namespace}/secrets", _secret("ledger-key"))
    tenants.create("foreign", apiKeys=[key(), key("other")])
    tenants.wait_for("foreign", "SecretConflict", "CredentialsReady")
    assert ask(tenants.wait_secret("other-key")).status_code == 200, "the other key does not wait"
    assert api.find(_path(tenants, "ledger-key")) == theirs
    tenants.delete("foreign")
    tenants.wait_gone("foreign")
    assert api.find(_path(tenants, "ledger-key")) == theirs


def test_a_secret_of_somebody_else_that_goes_makes_room(api: Api, tenants: Tenants) -> None:
    api.create(f"/api/v1/namespaces/{tenants.namespace}/secrets", _secret("ledger-key"))
    tenants.create("waiting", apiKeys=[key()])
    tenants.wait_for("waiting", "SecretConflict", "CredentialsReady")
    api.delete(_path(tenants, "ledger-key"))
    tenants.wait_for("waiting", "Reconciled")
    assert ask(tenants.wait_secret("ledger-key")).status_code == 200


def test_a_secret_that_was_made_immutable_is_named_as_that_and_made_anew_when_it_goes(
    api: Api, tenants: Tenants
) -> None:
    tenants.create("immutable", apiKeys=[key()])
    tenants.wait_for("immutable", "Reconciled")
    api.merge(_path(tenants, "ledger-key"), {"immutable": True})
    tenants.annotate("immutable", rotate="1")
    failed = tenants.wait_for("immutable", "RotationFailed", "Rotating")
    assert "Secret ledger-key: it is immutable; delete it" in message_of(failed, "Rotating")
    before = tenants.wait_secret("ledger-key")
    assert ask(before).status_code == 200
    api.delete(_path(tenants, "ledger-key"))
    assert ask(tenants.wait_secret("ledger-key", other_than=before["api-key"], seconds=20.0)).status_code == 200


def test_a_secret_that_lost_its_labels_or_its_owner_is_not_forgotten(api: Api, tenants: Tenants) -> None:
    tenants.create("unlabelled", apiKeys=[key()])
    tenants.wait_for("unlabelled", "Reconciled")
    api.merge(_path(tenants, "ledger-key"), {"metadata": {"labels": None}})
    wait_until("the labels", lambda: api.find(_path(tenants, "ledger-key"))["metadata"].get("labels"))
    assert ask(tenants.wait_secret("ledger-key")).status_code == 200
    api.merge(_path(tenants, "ledger-key"), {"metadata": {"ownerReferences": None}})
    tenants.wait_for("unlabelled", "SecretConflict", "CredentialsReady")


def test_a_schema_that_is_dropped_is_there_again(tenants: Tenants, module_database: EmbeddedDatabase) -> None:
    tenants.create("dropped", environments=[{"name": "production"}, {"name": "test"}], apiKeys=[key()])
    tenants.wait_for("dropped", "Reconciled")
    secret = tenants.wait_secret("ledger-key")
    with psycopg.connect(module_database.superuser_url) as connection:
        connection.execute("DROP SCHEMA dropped_production CASCADE")
    wait_until("the schema", lambda: ask(secret).status_code == 200)
    tenants.wait_for("dropped", "Reconciled")


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("grants", "REVOKE ALL ON SCHEMA {schema} FROM {role}; REVOKE SELECT ON {schema}.job FROM {role}"),
        ("membership", "REVOKE {role} FROM {login} GRANTED BY {admin}"),
        ("membership", "REVOKE payrec_tenant FROM {role} GRANTED BY {admin}"),
        ("version_table", "DROP TABLE {schema}.alembic_version"),
    ],
)
def test_a_right_or_a_role_that_somebody_took_is_given_back_and_counted(
    operators: Operators,
    operator: Running,
    tenants: Tenants,
    module_database: EmbeddedDatabase,
    kind: str,
    damage: str,
) -> None:
    name = tenants.namespace.replace("test-", "robbed-")
    tenants.create(name, apiKeys=[key()])
    status = tenants.wait_for(name, "Reconciled")["status"]
    names = {
        "schema": status["environments"][0]["schemaName"],
        "role": role_name(UUID(status["tenantId"]), "production"),
        "login": LOGIN_ROLE,
        "admin": ADMIN_ROLE,
    }
    secret, before = tenants.wait_secret("ledger-key"), _corrected(operators, operator, kind)
    with psycopg.connect(module_database.superuser_url) as connection:
        connection.execute(damage.format(**names).encode())
    wait_until("the correction", lambda: _corrected(operators, operator, kind) > before)
    tenants.wait_for(name, "Reconciled")
    assert ask(secret).status_code == 200
    assert tenants.secret("ledger-key") == secret


def _corrected(operators: Operators, operator: Running, kind: str) -> float:
    found = re.search(rf'drift_corrected_total{{kind="{kind}"}} (\S+)', operators.metrics(operator))
    return float(found[1]) if found else 0.0


def test_a_table_that_is_dropped_is_named_and_nothing_is_made_in_its_place(
    tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    tenants.create("thinned", environments=[{"name": "production"}, {"name": "test"}], apiKeys=[key()])
    tenants.wait_for("thinned", "Reconciled")
    with psycopg.connect(module_database.superuser_url) as connection:
        connection.execute("DROP TABLE thinned_test.outbox")
    found = tenants.wait_for("thinned", "SchemaConflict", "SchemasReady")
    assert "test: the schema lacks tables that payrec made there: outbox." in message_of(found)
    assert {e["name"]: e["state"] for e in found["status"]["environments"]} == {
        "production": "Applied",
        "test": "Failed",
    }
    assert ask(tenants.wait_secret("ledger-key")).status_code == 200, "the other environment goes on"
    with psycopg.connect(module_database.superuser_url) as connection:
        assert connection.execute("SELECT to_regclass('thinned_test.outbox')").fetchone() == (None,)
        connection.execute("DROP SCHEMA thinned_test CASCADE")
    tenants.wait_for("thinned", "Reconciled")


def test_a_schema_that_payrec_did_not_make_is_adopted_only_when_asked(
    tenants: Tenants, module_database: EmbeddedDatabase
) -> None:
    with psycopg.connect(module_database.superuser_url) as connection:
        connection.execute("CREATE SCHEMA strange_production")
        connection.execute("CREATE TABLE strange_production.theirs (id int)")
    tenants.create("strange", environments=[{"name": "production"}, {"name": "test"}])
    found = tenants.wait_for("strange", "SchemaNotOwned", "SchemasReady")
    states = {e["name"]: e["state"] for e in found["status"]["environments"]}
    assert states == {"production": "Failed", "test": "Applied"}
    tenants.delete("strange")
    tenants.wait_gone("strange")
    with psycopg.connect(module_database.superuser_url) as connection:
        assert connection.execute("SELECT to_regclass('strange_production.theirs')").fetchone() != (None,)


def test_a_status_that_is_edited_is_true_again_and_what_others_put_there_stays(api: Api, tenants: Tenants) -> None:
    tenants.create("told")
    good = tenants.wait_for("told", "Reconciled")["status"]
    foreign = {
        "type": "example.com/Synced",
        "status": "True",
        "reason": "Theirs",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    api.merge(f"{tenants.path}/told/status", {"status": {"environmentsReady": "9/9", "conditions": [foreign]}})
    wait_until("the status", lambda: (tenants.get("told") or {})["status"]["environmentsReady"] == "1/1")
    status = (tenants.get("told") or {})["status"]
    assert foreign in status["conditions"]
    assert {c["type"] for c in status["conditions"]} == {c["type"] for c in good["conditions"]} | {"example.com/Synced"}


def test_a_namespace_that_is_deleted_goes_with_its_tenants(api: Api, tenants: Tenants) -> None:
    tenants.create("leaving", apiKeys=[key()])
    tenants.create("leaving-too", apiKeys=[key("two")], deletionPolicy="Delete")
    tenants.wait_for("leaving", "Reconciled")
    tenants.wait_for("leaving-too", "Reconciled")
    secret = tenants.wait_secret("ledger-key")
    api.delete(f"/api/v1/namespaces/{tenants.namespace}")
    wait_until(
        "the namespace's end",
        lambda: api.find(f"/api/v1/namespaces/{tenants.namespace}") is None,
    )
    assert ask(secret).status_code in {401, 403}
    with pytest.raises(ApiError):
        tenants.create("leaving")
