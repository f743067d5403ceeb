"""The operator with exactly the rights of the chart, with fewer, in one namespace, and where it cannot begin."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from payrec.storage.migrations import head
from payrec_operator.constants import FINALIZER
from payrec_operator.patience import TRIES
from support.charts import CHART, rendered
from support.control_plane import Api, ApiError, wait_until
from support.operator_process import ACCOUNT, SYSTEM, Operators, Tenants, ask, install, key, message_of

REFUSED_SECONDS_MAX = 120.0
"""kopf gives up by itself after 54 s."""

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/payrec-system:payrec-operator"


@pytest.fixture
def account(api: Api) -> Iterator[Api]:
    """Return the API server as the operator sees it."""
    seen = api.as_account(SYSTEM, ACCOUNT)
    yield seen
    seen.close()


@pytest.fixture
def whole(operators: Operators) -> Iterator[None]:
    """Give the operator its rights again after a test that took some."""
    yield
    install(operators.plane)


def _may(account: Api, verb: str, resource: str, group: str = "", subresource: str = "", namespace: str = "x") -> bool:
    attributes = {
        "verb": verb,
        "resource": resource,
        "group": group,
        "subresource": subresource,
        "namespace": namespace,
    }
    answer = account.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        },
    )
    return bool(answer["status"]["allowed"])


def test_the_account_may_do_its_work_and_nothing_else(account: Api) -> None:
    for verb in ("get", "list", "watch", "patch"):
        assert _may(account, verb, "tenants", "payrec.dev"), verb
    for verb in ("create", "update", "delete", "deletecollection"):
        assert not _may(account, verb, "tenants", "payrec.dev"), verb
    assert _may(account, "patch", "tenants", "payrec.dev", "status")
    assert not _may(account, "update", "tenants", "payrec.dev", "status")
    for verb in ("get", "list", "watch", "create", "update", "delete"):
        assert _may(account, verb, "secrets"), verb
    for verb in ("patch", "deletecollection"):
        assert not _may(account, verb, "secrets"), verb
    assert _may(account, "create", "events")
    for resource in ("pods", "configmaps", "serviceaccounts", "namespaces", "nodes"):
        assert not _may(account, "get", resource), resource
    assert not _may(account, "list", "customresourcedefinitions", "apiextensions.k8s.io", namespace="")
    assert not _may(account, "create", "serviceaccounts", subresource="token")


def test_whoever_may_edit_a_namespace_may_edit_its_tenants_but_not_their_status(
    api: Api, tenants: Tenants, namespace: str
) -> None:
    for name, role in (("editor", "edit"), ("viewer", "view")):
        api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        api.create(
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
        )
    editor, viewer = api.as_account(namespace, "editor"), api.as_account(namespace, "viewer")
    wait_until("aggregation", lambda: _may(editor, "create", "tenants", "payrec.dev", namespace=namespace))
    Tenants(editor, namespace).create("edited")
    Tenants(editor, namespace).change("edited", suspended=True)
    with pytest.raises(ApiError) as refused:
        editor.merge(f"{tenants.path}/edited/status", {"status": {"environmentsReady": "1/1"}})
    assert refused.value.status == 403
    assert Tenants(viewer, namespace).get("edited") is not None
    with pytest.raises(ApiError) as refused:
        Tenants(viewer, namespace).change("edited", suspended=False)
    assert refused.value.status == 403
    assert not _may(editor, "list", "tenants", "payrec.dev", namespace="default")
    editor.close()
    viewer.close()


def _take(api: Api, resource: str, verb: str) -> None:
    """Take a right from the operator."""
    role = api.find(ROLE)
    for rule in role["rules"]:
        if rule["resources"] == [resource]:
            rule["verbs"].remove(verb)
    api.request("PUT", ROLE, role)


@pytest.mark.usefixtures("whole")
def test_without_the_right_to_write_secrets_it_says_so_and_makes_the_rest(
    api: Api, operators: Operators, tenants: Tenants
) -> None:
    role = api.find(ROLE)
    for rule in role["rules"]:
        if rule["resources"] == ["secrets"]:
            rule["verbs"] = ["get", "list", "watch"]
    api.request("PUT", ROLE, role)
    with operators.started():
        tenants.create("unwritten", apiKeys=[key()])
        found = tenants.wait_for("unwritten", "SecretWriteForbidden", "CredentialsReady")
        assert found["status"]["environmentsReady"] == "1/1", "the schemas do not wait for the Secrets"
        install(operators.plane)
        # The key itself is tried again only after a minute, so what goes on at once is another.
        tenants.change("unwritten", apiKeys=[key("other")])
        assert ask(tenants.wait_secret("other-key")).status_code == 200


@pytest.mark.usefixtures("whole")
def test_nothing_is_made_for_a_tenant_that_may_not_be_held(api: Api, operators: Operators, tenants: Tenants) -> None:
    _take(api, "tenants", "patch")
    with operators.started():
        tenants.create("unheld", apiKeys=[key()])
        found = tenants.wait_for("unheld", "Pending")
        assert "put the finalizer on Tenant unheld: the operator's account has no right to" in message_of(found)
        assert tenants.secret("ledger-key") is None
        tenants.delete("unheld")
        tenants.wait_gone("unheld")
        tenants.create("held", apiKeys=[key()])
        tenants.wait_for("held", "Pending")
        install(operators.plane)
        found = tenants.wait_for("held", "Reconciled")
        assert FINALIZER in found["metadata"]["finalizers"]
        assert ask(tenants.wait_secret("ledger-key")).status_code == 200


@pytest.mark.usefixtures("whole")
def test_what_may_not_be_listed_is_waited_for_and_told(api: Api, operators: Operators, tenants: Tenants) -> None:
    _take(api, "tenants", "list")
    refusals = re.compile(r'reconcile_errors_total\{reason="ApiServerError"\} (\S+)')
    with operators.started(wait=False) as running:
        tenants.create("unlisted", apiKeys=[key()])

        def given_up() -> bool:
            assert running.process.poll() is None, running.rest()
            with contextlib.suppress(httpx2.TransportError):
                found = refusals.search(operators.metrics(running))
                return found is not None and float(found[1]) > len(TRIES)
            return False

        wait_until("as many tries as kopf makes by itself", given_up, seconds=REFUSED_SECONDS_MAX)
        install(operators.plane)
        tenants.wait_for("unlisted", "Reconciled", seconds=REFUSED_SECONDS_MAX)
        assert ask(tenants.wait_secret("ledger-key")).status_code == 200


def test_an_operator_of_one_namespace_sees_no_other(api: Api, operators: Operators, tenants: Tenants) -> None:
    named = f"namespaced-{tenants.namespace}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": named, "namespace": SYSTEM}}
    api.apply(account)
    objects = _namespaced(tenants.namespace)
    [role] = [o for o in objects if o["kind"] == "Role"]
    [binding] = [o for o in objects if o["kind"] == "RoleBinding"]
    binding["subjects"] = [{"kind": "ServiceAccount", "name": named, "namespace": SYSTEM}]
    api.apply(role)
    api.apply(binding)
    elsewhere = Tenants(api, "default")
    with operators.started(namespaces=[tenants.namespace], account=named):
        elsewhere.create("elsewhere")
        tenants.create("here", apiKeys=[key()])
        tenants.wait_for("here", "Reconciled")
        assert ask(tenants.wait_secret("ledger-key")).status_code == 200
        found = elsewhere.get("elsewhere")
        assert found is not None
        assert "status" not in found
        tenants.delete("here")
        tenants.wait_gone("here")
    elsewhere.delete("elsewhere")


def _namespaced(namespace: str) -> list[dict[str, Any]]:
    values = CHART / "ci" / "namespaced-values.yaml"
    objects = rendered("--set", f"operator.watchNamespaces={{{namespace}}}", values=values)
    return [o for o in objects if o["metadata"]["labels"].get("app.kubernetes.io/component") == "operator"]


def _refusal(operators: Operators, **settings: str) -> str:
    with operators.started(wait=False, **settings) as running:
        assert running.ended() == 1
        return wait_until("its last line", running.rest)


def test_it_refuses_a_control_schema_that_is_behind(operators: Operators, module_database: EmbeddedDatabase) -> None:
    with psycopg.connect(module_database.superuser_url) as connection:
        connection.execute("UPDATE control.alembic_version SET version_num = '0001'")
    try:
        lines = _refusal(operators).strip().splitlines()
    finally:
        with psycopg.connect(module_database.superuser_url) as connection:
            connection.execute("UPDATE control.alembic_version SET version_num = %s", (head("control"),))
    assert lines[-1] == "payrec-operator: the database has not been migrated to this version yet"
    assert not [line for line in lines if "Traceback" in line]


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("ADMIN_DATABASE_URL", "", "ADMIN_DATABASE_URL is not set: the operator makes schemas"),
        ("PUBLIC_BASE_URL", "", "PUBLIC_BASE_URL is not set: it is written into the Secrets of keys"),
        ("API_KEY_PEPPER", "short", "API_KEY_PEPPER must be at least 32 bytes"),
        ("OPERATOR_RESYNC_INTERVAL", "often", "OPERATOR_RESYNC_INTERVAL must be a duration such as 720h or 1h30m"),
        ("KUBECONFIG", "/nonexistent", "there is no API server: KUBECONFIG cannot be read"),
    ],
)
def test_it_says_in_one_line_what_is_missing(operators: Operators, setting: str, value: str, sentence: str) -> None:
    lines = _refusal(operators, **{setting: value}).strip().splitlines()
    assert lines[-1] == f"payrec-operator: {sentence}"
    assert not [line for line in lines if "Traceback" in line]
