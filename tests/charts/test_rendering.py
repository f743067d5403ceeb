"""The chart: what it renders is valid, minimal in rights, and restricted in what its pods may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from payrec.config import Config
from payrec_operator.settings import OperatorSettings
from support.charts import CHART, VALUES, one, refusal, rendered, run_helm

NAMES = [path.name.removesuffix("-values.yaml") for path in VALUES]


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_the_chart_is_linted(values: Path) -> None:
    done = run_helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
@pytest.mark.parametrize("release", ["payrec", "books"])
def test_what_is_rendered_is_valid_for_kubernetes(values: Path, release: str) -> None:
    objects = rendered(values=values, release=release)
    assert len(objects) >= 6
    for rendered_object in objects:
        # The definition of the resource is refused by its own recursive schema; a real API server looks at it.
        if rendered_object["kind"] == "CustomResourceDefinition":
            continue
        kubernetes_validate.validate(rendered_object, "1.36", strict=True)


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_names_and_labels_are_those_of_the_release(values: Path) -> None:
    for rendered_object in rendered(values=values):
        labels = rendered_object["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "payrec"
        assert labels["app.kubernetes.io/component"] == "operator"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"] == "0.1.0"


def test_a_release_of_the_charts_name_does_not_double_it() -> None:
    assert one(rendered(), "Deployment")["metadata"]["name"] == "payrec-operator"
    assert one(rendered(release="books"), "Deployment")["metadata"]["name"] == "books-payrec-operator"


def test_there_is_one_operator_and_never_two_at_once() -> None:
    spec = one(rendered(), "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_the_pod_keeps_to_the_restricted_standard(values: Path) -> None:
    pod = one(rendered(values=values), "Deployment")["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert [list(volume)[-1] for volume in pod["volumes"]] == ["emptyDir"]
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"startupProbe", "livenessProbe", "readinessProbe", "resources"} <= container.keys()


def _secret_references(container: dict[str, Any]) -> dict[str, tuple[str, str]]:
    found = {}
    for variable in container["env"]:
        if "valueFrom" in variable:
            reference = variable["valueFrom"]["secretKeyRef"]
            found[variable["name"]] = (reference["name"], reference["key"])
    return found


def test_secrets_come_by_reference_with_the_names_that_are_given() -> None:
    [container] = one(rendered(values=CHART / "ci" / "full-values.yaml"), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    assert _secret_references(container) == {
        "DATABASE_URL": ("books-database", "uri"),
        "ADMIN_DATABASE_URL": ("books-database", "admin-uri"),
        "API_KEY_PEPPER": ("books-crypto", "pepper"),
        "API_KEY_PEPPER_PREVIOUS": ("books-crypto", "pepper-before"),
        "ENCRYPTION_KEY": ("books-crypto", "encryption"),
        "IDP_CLIENT_SECRET": ("books-identity-provider", "secret"),
    }


def test_every_variable_of_the_operator_is_a_setting() -> None:
    [container] = one(rendered(values=CHART / "ci" / "full-values.yaml"), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    prefix = str(OperatorSettings.model_config["env_prefix"])
    known = {name.upper() for name in Config.model_fields} | {
        (prefix + name).upper() for name in OperatorSettings.model_fields
    }
    assert {variable["name"] for variable in container["env"]} <= known


def test_all_namespaces_take_a_cluster_role_and_named_ones_a_role_in_each() -> None:
    everywhere = rendered()
    assert not [o for o in everywhere if o["kind"] in {"Role", "RoleBinding"}]
    assert "--all-namespaces" in one(everywhere, "Deployment")["spec"]["template"]["spec"]["containers"][0]["command"]
    binding = one(everywhere, "ClusterRoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "payrec-operator", "namespace": "payrec-system"}]

    named = rendered(values=CHART / "ci" / "namespaced-values.yaml")
    assert not [o for o in named if o["kind"] == "ClusterRoleBinding"]
    assert [o["metadata"]["namespace"] for o in named if o["kind"] == "RoleBinding"] == ["team-a", "team-b"]
    command = one(named, "Deployment")["spec"]["template"]["spec"]["containers"][0]["command"]
    assert [part for part in command if "namespace" in part] == ["--namespace=team-a", "--namespace=team-b"]
    roles = [o["rules"] for o in named if o["kind"] == "Role"]
    assert roles == [one(everywhere, "ClusterRole", "payrec-system-payrec-operator")["rules"]] * 2


def test_the_operator_may_do_this_and_nothing_else() -> None:
    rules = one(rendered(), "ClusterRole", "payrec-system-payrec-operator")["rules"]
    allowed = {
        f"{group}/{resource}": rule["verbs"]
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert allowed == {
        "payrec.dev/tenants": ["get", "list", "watch", "patch"],
        "payrec.dev/tenants/status": ["patch"],
        "/secrets": ["get", "list", "watch", "create", "update", "delete"],
        "/events": ["create"],
    }


def test_people_who_may_view_or_edit_a_namespace_may_do_so_with_its_tenants() -> None:
    objects = rendered()
    aggregated = "rbac.authorization.k8s.io/aggregate-to-"
    view = one(objects, "ClusterRole", "payrec-system-payrec-tenants-view")
    assert {k.removeprefix(aggregated) for k in view["metadata"]["labels"] if aggregated in k} == {
        "view",
        "edit",
        "admin",
    }
    edit = one(objects, "ClusterRole", "payrec-system-payrec-tenants-edit")
    assert {k.removeprefix(aggregated) for k in edit["metadata"]["labels"] if aggregated in k} == {"edit", "admin"}
    assert edit["rules"][0]["resources"] == ["tenants"], "the status is the operator's"


def test_the_definition_stays_when_the_release_goes_unless_asked_otherwise() -> None:
    def annotations(*more: str) -> Any:
        return one(rendered(*more), "CustomResourceDefinition")["metadata"].get("annotations")

    assert annotations() == {"helm.sh/resource-policy": "keep"}
    assert annotations("--set", "crds.keep=false") is None
    assert not [o for o in rendered("--set", "crds.enabled=false") if o["kind"] == "CustomResourceDefinition"]


def test_the_definition_can_be_installed_alone() -> None:
    kinds = {o["kind"] for o in rendered("--set", "operator.enabled=false", values=None)}
    assert kinds == {"CustomResourceDefinition", "ClusterRole"}


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
        ("unknown=1", "unknown"),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_name(setting: str, sentence: str) -> None:
    assert sentence in refusal("--set", setting)


def test_an_umbrella_chart_may_have_global_values() -> None:
    assert rendered("--set", "global.registry=registry.example.com")


def test_every_value_has_a_place_in_the_schema_and_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    def compare(node: dict[str, Any], given: dict[str, Any], at: str) -> None:
        assert node["additionalProperties"] is False, at
        assert node["properties"].keys() - {"global"} == given.keys() | ({"claims"} & node["properties"].keys()), at
        for name, value in given.items():
            if "properties" in node["properties"][name]:
                compare(node["properties"][name], value, f"{at}.{name}")

    schema["properties"].pop("global")
    compare(schema, values, "values")
