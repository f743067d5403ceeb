"""The uninstallation's program with exactly its rights, on Tenants that a real operator has held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from payrec.embedded.postgres import EmbeddedDatabase
from payrec_operator.constants import FINALIZER
from support.commands import Running, started
from support.control_plane import Api, ControlPlane, wait_until
from support.operator_process import SYSTEM, Operators, Tenants, ask, key

LABELS = {"app.kubernetes.io/instance": "payrec", "app.kubernetes.io/component": "operator"}
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
PODS = f"/api/v1/namespaces/{SYSTEM}/pods"
_CONTAINER = {"name": "operator", "image": "payrec:none"}


@pytest.fixture
def deployment(api: Api) -> Iterator[str]:
    """Return the path of an operator's Deployment with one pod; nobody runs it here, and the test moves its status."""
    meta = {"namespace": SYSTEM, "labels": LABELS}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [_CONTAINER]}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    api.create(DEPLOYMENTS, {"metadata": {"name": "payrec-operator", **meta}, "spec": spec})
    pod = {"metadata": {"name": "operator-pod", **meta}, "spec": {"containers": [_CONTAINER]}}
    # The service account controller makes it in its own time.
    wait_until("the account", lambda: api.find(f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/default"))
    api.create(PODS, pod)
    yield f"{DEPLOYMENTS}/payrec-operator"
    api.delete(f"{DEPLOYMENTS}/payrec-operator")
    api.delete(f"{PODS}/operator-pod", gracePeriodSeconds=0)


@contextmanager
def _uninstalling(plane: ControlPlane, folder: Path, *more: str) -> Iterator[Running]:
    seen = plane.api.as_account(SYSTEM, "payrec-uninstall")
    config = seen.kubeconfig(folder / "uninstall.yaml")
    seen.close()
    selector = ",".join(f"{name}={value}" for name, value in LABELS.items())
    arguments = [f"--namespace={SYSTEM}", "--deployment=payrec-operator", f"--selector={selector}"]
    with started(
        *arguments, *more, cwd=folder, environ={"KUBECONFIG": str(config)}, module="payrec_operator.uninstall"
    ) as running:
        yield running


def _finalizers(tenants: Tenants, name: str) -> list[str]:
    found = tenants.get(name)
    assert found is not None
    return list(found["metadata"].get("finalizers", []))


def _end_operator(api: Api, deployment: str) -> None:
    found = api.find(deployment)
    api.merge(f"{deployment}/status", {"status": {"observedGeneration": found["metadata"]["generation"]}})
    api.delete(f"{PODS}/operator-pod", gracePeriodSeconds=0)


def _schemas(database: EmbeddedDatabase, prefix: str) -> list[str]:
    with psycopg.connect(database.superuser_url) as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE %s", (f"{prefix}%",)).fetchall()
    return [str(name) for (name,) in rows]


def test_tenants_are_let_go_with_their_data_and_come_back(
    plane: ControlPlane,
    api: Api,
    operators: Operators,
    tenants: Tenants,
    deployment: str,
    module_database: EmbeddedDatabase,
    tmp_path: Path,
) -> None:
    with operators.started():
        tenants.create("kept", deletionPolicy="Retain", apiKeys=[key("kept")])
        tenants.create("dropped", deletionPolicy="Delete", apiKeys=[key("dropped")])
        for name in ("kept", "dropped"):
            tenants.wait_for(name, "Reconciled")
            assert FINALIZER in _finalizers(tenants, name)
        secret = tenants.wait_secret("kept-key")
    # The operator is gone, and somebody deletes a Tenant that nobody drops any more.
    tenants.delete("dropped")
    assert tenants.get("dropped") is not None
    with _uninstalling(plane, tmp_path) as running:
        running.wait_for("waiting for the operator's Deployment")
        wait_until("scaling", lambda: api.find(deployment)["spec"]["replicas"] == 0)
        assert FINALIZER in _finalizers(tenants, "kept"), "not before the operator has ended"
        _end_operator(api, deployment)
        running.wait_for("the operator has ended")
        assert running.ended() == 0
    assert FINALIZER not in _finalizers(tenants, "kept")
    assert tenants.get("dropped") is None
    assert _schemas(module_database, "dropped_") == ["dropped_production"]
    assert ask(secret).status_code == 200, "keys go on working"
    with operators.started():
        wait_until("the finalizer", lambda: FINALIZER in _finalizers(tenants, "kept"))
        tenants.wait_for("kept", "Reconciled")
        assert tenants.wait_secret("kept-key") == secret


def test_without_an_operator_it_lets_them_go_at_once_and_again_changes_nothing(
    plane: ControlPlane, tenants: Tenants, tmp_path: Path
) -> None:
    made = tenants.create("left")
    tenants.api.merge(f"{tenants.path}/left", {"metadata": {"finalizers": ["others.example/one", FINALIZER]}})
    for count in (1, 0):
        with _uninstalling(plane, tmp_path) as running:
            running.wait_for("there is no operator")
            running.wait_for(f"{count} Tenants released in all namespaces")
            assert running.ended() == 0
    found = tenants.get("left")
    assert found is not None
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["finalizers"] == ["others.example/one"]
    tenants.api.merge(f"{tenants.path}/left", {"metadata": {"finalizers": None}})


def test_it_ends_with_one_line_when_the_operator_does_not(
    plane: ControlPlane, api: Api, tenants: Tenants, deployment: str, tmp_path: Path
) -> None:
    tenants.create("held")
    tenants.api.merge(f"{tenants.path}/held", {"metadata": {"finalizers": [FINALIZER]}})
    found: dict[str, Any] = api.find(deployment)
    api.merge(f"{deployment}/status", {"status": {"observedGeneration": found["metadata"]["generation"] + 1}})
    with _uninstalling(plane, tmp_path, "--seconds=10") as running:
        running.wait_for("waiting for the pod operator-pod")
        line = running.wait_for("not done within 10 s; `helm uninstall --no-hooks` goes on without this")
        assert line
        assert running.ended() == 1
    assert FINALIZER in _finalizers(tenants, "held")


def test_it_may_do_its_work_and_nothing_else(plane: ControlPlane, namespace: str) -> None:
    account = plane.api.as_account(SYSTEM, "payrec-uninstall")
    asked = [
        ("list", "tenants", "payrec.dev", "", namespace, True),
        ("patch", "tenants", "payrec.dev", "", namespace, True),
        ("delete", "tenants", "payrec.dev", "", namespace, False),
        ("patch", "tenants", "payrec.dev", "status", namespace, False),
        ("get", "secrets", "", "", SYSTEM, False),
        ("list", "pods", "", "", SYSTEM, True),
        ("list", "pods", "", "", namespace, False),
        ("delete", "pods", "", "", SYSTEM, False),
        ("patch", "deployments", "apps", "", SYSTEM, False),
        ("patch", "deployments", "apps", "scale", SYSTEM, True),
    ]
    for verb, resource, group, subresource, where, allowed in asked:
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": where}
        attributes |= {"subresource": subresource, "name": "payrec-operator"}
        review = account.request(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            },
        )
        assert review["status"]["allowed"] is allowed, attributes
    account.close()
