"""The hooks: what they may do, and what their pods are."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from payrec_operator import roundtrip, uninstall
from support.charts import CHART, one, rendered

NAMESPACED = CHART / "ci" / "namespaced-values.yaml"


def _hooks(objects: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [o for o in objects if o["metadata"].get("annotations", {}).get("helm.sh/hook") == event]


def _allowed(*rules: dict[str, Any]) -> dict[str, list[str]]:
    return {
        f"{group}/{resource}{'=' + ','.join(rule['resourceNames']) if 'resourceNames' in rule else ''}": rule["verbs"]
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def _is_restricted(pod: dict[str, Any]) -> None:
    assert pod["enableServiceLinks"] is False
    assert pod["restartPolicy"] == "Never"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]


def test_only_the_job_of_the_uninstallation_is_a_hook_so_a_namespace_that_is_gone_cannot_stop_it() -> None:
    [job] = _hooks(rendered(values=NAMESPACED), "pre-delete")
    assert job["kind"] == "Job"
    annotations = job["metadata"]["annotations"]
    assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    assert job["spec"]["activeDeadlineSeconds"] < 300, "Helm gives up after five minutes"
    assert job["spec"]["activeDeadlineSeconds"] > uninstall.SECONDS_MAX
    pod = job["spec"]["template"]["spec"]
    _is_restricted(pod)
    assert pod["serviceAccountName"] == "payrec-uninstall"


def test_the_operators_pods_are_not_those_of_the_uninstallation() -> None:
    objects = rendered()
    [job] = _hooks(objects, "pre-delete")
    [argument] = [a for a in job["spec"]["template"]["spec"]["containers"][0]["command"] if "selector" in a]
    asked = dict(part.split("=") for part in argument.removeprefix("--selector=").split(","))
    operator = one(objects, "Deployment", "payrec-operator")["spec"]["selector"]["matchLabels"]
    assert asked == operator
    own = job["spec"]["template"]["metadata"]["labels"]
    assert not asked.items() <= own.items(), "it would wait for itself"


@pytest.mark.parametrize("values", [None, NAMESPACED])
def test_the_uninstallation_may_do_this_and_nothing_else(values: Any) -> None:
    objects = rendered(values=values) if values else rendered()
    here = one(objects, "Role", "payrec-uninstall")
    assert here["metadata"]["namespace"] == "payrec-system"
    assert _allowed(*here["rules"]) == {
        "apps/deployments=payrec-operator": ["get"],
        "apps/deployments/scale=payrec-operator": ["patch"],
        "/pods": ["list"],
    }
    if values is None:
        roles = [one(objects, "ClusterRole", "payrec-system:payrec-uninstall")]
    else:
        roles = [o for o in objects if o["kind"] == "Role" and o["metadata"]["name"] == "payrec-uninstall-tenants"]
        assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
        assert not [o for o in objects if o["kind"] == "ClusterRole" and "uninstall" in o["metadata"]["name"]]
    for role in roles:
        assert _allowed(*role["rules"]) == {"payrec.dev/tenants": ["list", "patch"]}


def test_without_an_operator_there_is_nothing_to_let_go() -> None:
    objects = rendered("--set", "operator.enabled=false")
    assert not _hooks(objects, "pre-delete")
    assert not [o for o in objects if "uninstall" in o["metadata"]["name"]]


def test_the_test_may_touch_its_own_tenant_and_secret_alone() -> None:
    objects = rendered()
    role = one(objects, "Role", "payrec-test")
    assert _allowed(*role["rules"]) == {
        "payrec.dev/tenants": ["create"],
        "payrec.dev/tenants=payrec-test": ["get", "delete"],
        "/secrets=payrec-test-key": ["get"],
    }
    hooks = _hooks(objects, "test")
    assert sorted(o["kind"] for o in hooks) == ["Pod", "Role", "RoleBinding", "ServiceAccount"]
    for made in hooks:
        assert made["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    _is_restricted(one(objects, "Pod")["spec"])


def test_the_test_makes_its_tenant_where_the_operator_looks() -> None:
    named = rendered(values=NAMESPACED)
    assert one(named, "Role", "payrec-test")["metadata"]["namespace"] == "team-a"
    assert "--tenant=team-a/payrec-test" in one(named, "Pod")["spec"]["containers"][0]["command"]
    both = rendered("--set", "operator.watchNamespaces={team-a,payrec-system}")
    assert one(both, "Role", "payrec-test")["metadata"]["namespace"] == "payrec-system"


def test_without_an_operator_the_test_asks_for_health_alone() -> None:
    objects = rendered("--set", "operator.enabled=false")
    [pod] = _hooks(objects, "test")
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert not [a for a in pod["spec"]["containers"][0]["command"] if "tenant" in a]


@pytest.mark.parametrize("event", ["pre-delete", "test"])
def test_the_programs_know_their_arguments(
    event: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, work = {"pre-delete": (uninstall, "uninstall"), "test": (roundtrip, "check")}[event]

    async def done(_arguments: object) -> None:
        return None

    monkeypatch.setattr(program, work, done)
    [made] = [o for o in _hooks(rendered(values=NAMESPACED), event) if o["kind"] in {"Job", "Pod"}]
    spec = made["spec"] if made["kind"] == "Pod" else made["spec"]["template"]["spec"]
    python, module, name, *arguments = spec["containers"][0]["command"]
    assert (python, module, name) == ("python", "-m", program.__name__)
    assert program.main(arguments) == 0, shlex.join(arguments) + capsys.readouterr().err
