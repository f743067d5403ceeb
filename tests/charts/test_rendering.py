"""The chart: what it renders is valid, named by its release, minimal in rights, and restricted in what pods may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from payrec.config import Config
from payrec_operator.settings import OperatorSettings
from support.charts import CHART, VALUES, component_of, one, pod_of, refusal, rendered, run_helm, variables

NAMES = [path.name.removesuffix("-values.yaml") for path in VALUES]
COMPONENTS = {"api", "worker", "operator", "migrate", "postgres", "uninstall", "test", "monitoring"}

ELSEWHERE = {
    "CustomResourceDefinition": "refused for its own recursive schema; a real API server looks at it",
    "HTTPRoute": "of the Gateway API",
    "PodMonitor": "of the Prometheus operator, whose definitions the tests of monitoring look at",
    "ServiceMonitor": "the same",
    "PrometheusRule": "the same",
    "ScaledObject": "of KEDA; the tests of monitoring look at it",
}
"""Kinds that Kubernetes itself has no schema for."""

KNOWN_VARIABLES = {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "PGDATA", "SSL_CERT_FILE"}
"""Variables that are no setting of ours: those of the trial's PostgreSQL, and one that a case adds."""


def _pods(values: Path) -> list[tuple[str, dict[str, Any]]]:
    found = [(component_of(o), pod_of(o)) for o in rendered(values=values) if pod_of(o) is not None]
    return [(component, pod) for component, pod in found if pod is not None]


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_the_chart_is_linted(values: Path) -> None:
    done = run_helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
@pytest.mark.parametrize("release", ["payrec", "books"])
def test_what_is_rendered_is_valid_for_kubernetes(values: Path, release: str) -> None:
    looked_at = [o for o in rendered(values=values, release=release) if o["kind"] not in ELSEWHERE]
    assert len(looked_at) >= 12
    for rendered_object in looked_at:
        kubernetes_validate.validate(rendered_object, "1.36", strict=True)


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_names_and_labels_are_those_of_the_release(values: Path) -> None:
    objects = rendered(values=values)
    for rendered_object in objects:
        labels = rendered_object["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "payrec"
        assert labels["app.kubernetes.io/component"] in COMPONENTS
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"] == "0.1.0"
    identities = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
    assert len(identities) == len(set(identities))


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_the_longest_release_has_names_that_kubernetes_takes(values: Path) -> None:
    for rendered_object in rendered(values=values, release="a-release-with-the-longest-name-that-helm-lets-us-ha"):
        # Those of rights have the namespace in it, and may be longer.
        most = 253 if rendered_object["apiVersion"].startswith("rbac") else 63
        assert len(rendered_object["metadata"]["name"]) <= most
        assert all(len(value) <= 63 for value in rendered_object["metadata"]["labels"].values())


def test_a_release_of_the_charts_name_does_not_double_it() -> None:
    def names(**options: str) -> set[str]:
        return {o["metadata"]["name"] for o in rendered(**options) if o["kind"] == "Deployment"}

    assert names() == {"payrec-api", "payrec-worker", "payrec-operator"}
    assert names(release="books") == {"books-payrec-api", "books-payrec-worker", "books-payrec-operator"}


@pytest.mark.parametrize("release", ["2026", "books.eu", "1e3"])
def test_whatever_name_helm_takes_is_one_that_kubernetes_takes(release: str) -> None:
    # A name of digits alone is a text all the same, and a Service has no dots in its name.
    objects = rendered("--namespace", "2026", "--set-string", "operator.watchNamespaces={2026}", release=release)
    for rendered_object in objects:
        if rendered_object["kind"] not in ELSEWHERE:
            kubernetes_validate.validate(rendered_object, "1.36", strict=True)
        assert rendered_object["metadata"]["labels"]["app.kubernetes.io/instance"] == release
        assert rendered_object["metadata"].get("namespace", "2026") == "2026"
    name = f"{release.replace('.', '-')}-payrec-api"
    assert one(objects, "Service")["metadata"]["name"] == name
    assert one(rendered("--set", "fullnameOverride=books.eu"), "Service")["metadata"]["name"] == "books-eu-api"


def test_no_two_releases_have_an_object_of_the_same_name() -> None:
    def names(namespace: str, release: str) -> set[tuple[str, str, str]]:
        objects = rendered("--namespace", namespace, "--set", "crds.enabled=false", release=release)
        return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects}

    long = "payments-of-the-european-subsidiaries-in-region"
    assert not names("a", f"{long}-1") & names("a", f"{long}-2")
    # Those of a whole cluster have the namespace in their names.
    assert not names("team", "a-payrec") & names("team-a", "payrec")


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_selectors_find_the_pods_of_their_own_component_alone(values: Path) -> None:
    objects = rendered(values=values)
    pods = {
        component_of(o): o["spec"]["template"]["metadata"]["labels"]
        for o in objects
        if o["kind"] in {"Deployment", "StatefulSet", "Job"}
    }
    for rendered_object in objects:
        selector = rendered_object.get("spec", {}).get("selector", {})
        if rendered_object["kind"] in {"ServiceMonitor", "PodMonitor"} or not selector:
            continue
        wanted = selector.get("matchLabels", selector)
        found = {component for component, labels in pods.items() if wanted.items() <= labels.items()}
        assert found == {component_of(rendered_object)}, rendered_object["metadata"]["name"]


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_every_pod_keeps_to_the_restricted_standard(values: Path) -> None:
    pods = _pods(values)
    assert {component for component, _ in pods} >= {"api", "worker", "operator", "migrate"}
    for component, pod in pods:
        assert pod["enableServiceLinks"] is False, component
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        kinds = {next(kind for kind in volume if kind != "name") for volume in pod["volumes"]}
        assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}, component
        for container in _containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= container["resources"].keys()
            assert "hostPort" not in str(container.get("ports"))
            assert {mount["name"] for mount in container["volumeMounts"]} <= {v["name"] for v in pod["volumes"]} | (
                {"data"} if component == "postgres" else set()
            )


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_every_variable_is_a_setting_and_comes_once(values: Path) -> None:
    prefix = str(OperatorSettings.model_config["env_prefix"])
    known = {name.upper() for name in Config.model_fields} | {
        (prefix + name).upper() for name in OperatorSettings.model_fields
    }
    for component, pod in _pods(values):
        for container in _containers(pod):
            assert variables(container).keys() <= known | KNOWN_VARIABLES, component


def test_who_speaks_to_kubernetes_has_a_token_and_nobody_else() -> None:
    def tokens(*more: str) -> set[str]:
        pods = ((component_of(o), pod_of(o)) for o in rendered(*more))
        return {component for component, pod in pods if pod and pod["automountServiceAccountToken"] is not False}

    assert tokens() == {"operator", "uninstall", "test"}
    assert tokens("--set", "tenantProvisioner=kubernetes") == {"api", "operator", "uninstall", "test"}
    assert tokens("--set", "operator.enabled=false") == set()


def test_all_namespaces_take_a_cluster_role_and_named_ones_a_role_in_each() -> None:
    everywhere = [o for o in rendered() if component_of(o) == "operator"]
    assert not [o for o in everywhere if o["kind"] in {"Role", "RoleBinding"}]
    assert "--all-namespaces" in one(everywhere, "Deployment")["spec"]["template"]["spec"]["containers"][0]["command"]
    binding = one(everywhere, "ClusterRoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "payrec-operator", "namespace": "payrec-system"}]

    named = [o for o in rendered(values=CHART / "ci" / "namespaced-values.yaml") if component_of(o) == "operator"]
    assert not [o for o in named if o["kind"] == "ClusterRoleBinding"]
    assert [o["metadata"]["namespace"] for o in named if o["kind"] == "RoleBinding"] == ["team-a", "team-b"]
    command = one(named, "Deployment")["spec"]["template"]["spec"]["containers"][0]["command"]
    assert [part for part in command if "namespace" in part] == ["--namespace=team-a", "--namespace=team-b"]
    roles = [o["rules"] for o in named if o["kind"] == "Role"]
    assert roles == [one(everywhere, "ClusterRole", "payrec-system:payrec-operator")["rules"]] * 2


def _allowed(rules: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {
        f"{group}/{resource}": rule["verbs"]
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_operator_may_do_this_and_nothing_else() -> None:
    assert _allowed(one(rendered(), "ClusterRole", "payrec-system:payrec-operator")["rules"]) == {
        "payrec.dev/tenants": ["get", "list", "watch", "patch"],
        "payrec.dev/tenants/status": ["patch"],
        "/secrets": ["get", "list", "watch", "create", "update", "delete"],
        "/events": ["create"],
    }


def test_the_api_may_make_tenants_beside_the_release_when_it_has_to_and_do_nothing_else() -> None:
    assert not [o for o in rendered() if o["kind"] == "Role" and component_of(o) == "api"]
    objects = rendered("--set", "tenantProvisioner=kubernetes")
    role = one(objects, "Role", "payrec-api")
    assert role["metadata"]["namespace"] == "payrec-system"
    assert _allowed(role["rules"]) == {"payrec.dev/tenants": ["get", "create"]}
    assert one(objects, "RoleBinding", "payrec-api")["subjects"] == [
        {"kind": "ServiceAccount", "name": "payrec-api", "namespace": "payrec-system"}
    ]


def test_people_who_may_view_or_edit_a_namespace_may_do_so_with_its_tenants() -> None:
    objects = rendered()
    aggregated = "rbac.authorization.k8s.io/aggregate-to-"
    view = one(objects, "ClusterRole", "payrec-system:payrec-tenants-view")
    assert {k.removeprefix(aggregated) for k in view["metadata"]["labels"] if aggregated in k} == {
        "view",
        "edit",
        "admin",
    }
    edit = one(objects, "ClusterRole", "payrec-system:payrec-tenants-edit")
    assert {k.removeprefix(aggregated) for k in edit["metadata"]["labels"] if aggregated in k} == {"edit", "admin"}
    assert edit["rules"][0]["resources"] == ["tenants"], "the status is the operator's"


def test_the_definition_stays_when_the_release_goes_unless_asked_otherwise() -> None:
    def annotations(*more: str) -> Any:
        return one(rendered(*more), "CustomResourceDefinition")["metadata"].get("annotations")

    assert annotations() == {"helm.sh/resource-policy": "keep"}
    assert annotations("--set", "crds.keep=false") is None
    assert not [o for o in rendered("--set", "crds.enabled=false") if o["kind"] == "CustomResourceDefinition"]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("api.publicUrl=", "api.publicUrl is required"),
        ("database.existingSecret=", "database.existingSecret is required"),
        ("crypto.existingSecret=", "crypto.existingSecret is required"),
        ("identityProvider.existingSecret=", "identityProvider.existingSecret is required"),
        ("identityProvider.issuerUrl=", "identityProvider.issuerUrl is required unless"),
        ("operator.replicas=2", "replicas"),
        ("operator.watchNamespaces=everything", "watchNamespaces"),
        ("operator.resyncInterval=often", "resyncInterval"),
        ("image.digest=latest", "digest"),
        ("deploymentEnvironment=prod", "deploymentEnvironment"),
        ("api.replicas=-1", "replicas"),
        ("api.replicas=many", "replicas"),
        ("worker.graceSeconds=0", "graceSeconds"),
        ("worker.sourceSecrets[0].tenant=Acme", "sourceSecrets"),
        ("worker.sourceSecrets[0].tenant=acme", "secretName"),
        ("database.pooler=session", "pooler"),
        ("blob.url=https://files.example.com", "blob"),
        ("webhooks.allowedCidrs[0]=everywhere", "allowedCidrs"),
        ("migrate.waitSeconds=1", "waitSeconds"),
        ("unknown=1", "unknown"),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_name(setting: str, sentence: str) -> None:
    assert sentence in refusal("--set", setting)


def test_an_umbrella_chart_may_have_global_values() -> None:
    assert rendered("--set", "global.registry=registry.example.com")
