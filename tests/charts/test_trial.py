"""A trial: one value, and everything is there; the pods are as restricted as those of production."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest

from payrec.config import load_config
from support.charts import one, rendered


def _trial(*settings: str, release: str = "payrec") -> list[dict[str, Any]]:
    return rendered("--set", ",".join(["trial.enabled=true", *settings]), values=None, release=release)


def _pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {}
    for made in objects:
        spec = made["spec"] if made["kind"] == "Pod" else made.get("spec", {}).get("template", {}).get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            found[f"{made['kind']}/{made['metadata']['name']}"] = spec
    return found


def _variables(container: dict[str, Any], objects: list[dict[str, Any]]) -> dict[str, str]:
    """Return the variables of a container as they are in the pod."""
    values = {}
    for variable in container["env"]:
        if "value" in variable:
            values[variable["name"]] = variable["value"]
        else:
            reference = variable["valueFrom"]["secretKeyRef"]
            values[variable["name"]] = one(objects, "Secret", reference["name"])["stringData"][reference["key"]]
    return values


@pytest.mark.parametrize("release", ["payrec", "books"])
@pytest.mark.parametrize("settings", [(), ("trial.postgres.storage=1Gi",), ("networkPolicy.enabled=true",)])
def test_one_value_is_all_it_takes(release: str, settings: tuple[str, ...]) -> None:
    objects = _trial(*settings, release=release)
    for made in objects:
        if made["kind"] != "CustomResourceDefinition":
            kubernetes_validate.validate(made, "1.36", strict=True)
    assert {"StatefulSet", "Secret", "Job", "Deployment", "Service"} <= {o["kind"] for o in objects}


def test_every_secret_that_a_pod_names_is_there_with_its_key() -> None:
    objects = _trial("authMode=both", "database.urlKey=uri", "crypto.pepperKey=pepper")
    pods = _pods(objects)
    assert len(pods) >= 6
    for spec in pods.values():
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            if "env" in container:
                _variables(container, objects)


def test_the_settings_are_those_of_a_development_service(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = _trial()
    [container] = one(objects, "Deployment", "payrec-api")["spec"]["template"]["spec"]["containers"]
    for name, value in _variables(container, objects).items():
        monkeypatch.setenv(name, value)
    config = load_config()
    assert config.embeds_identity_provider
    assert config.base_url == "http://payrec-api.payrec-system.svc", "a pod reaches the API there"


def test_addresses_name_the_service_of_the_database_and_its_passwords_are_long() -> None:
    objects = _trial(release="books")
    database = one(objects, "Secret", "books-payrec-database")["stringData"]
    users = {}
    for key in ("bootstrap-database-url", "admin-database-url", "database-url"):
        parts = urlsplit(database[key])
        assert parts.hostname == "books-payrec-postgres.payrec-system.svc"
        assert parts.password is not None
        assert parts.password.isalnum()
        assert len(parts.password) >= 32
        users[parts.username] = parts.password
    assert len(set(users.values())) == 3
    assert users["postgres"] == database["postgres-password"]
    crypto = one(objects, "Secret", "books-payrec-crypto")["stringData"]
    assert all(len(text) >= 32 for text in crypto.values())
    assert one(objects, "Service", "books-payrec-postgres")["spec"]["ports"][0]["port"] == 5432


def test_secrets_outlive_the_release_as_the_volume_does() -> None:
    for made in _trial():
        if made["kind"] == "Secret":
            assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_database_keeps_to_the_restricted_standard_and_to_the_interface_of_the_usual_image() -> None:
    objects = _trial()
    pod = one(objects, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    context = pod["securityContext"]
    assert (context["runAsUser"], context["fsGroup"], context["runAsNonRoot"]) == (999, 999, True)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["image"] == "postgres:18"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    variables = _variables(container, objects)
    assert variables.keys() == {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "PGDATA"}
    [mount] = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "data"]
    assert variables["PGDATA"].startswith(f"{mount}/"), "below the mount, which may have a lost+found"
    assert "command" not in container, "the image's own entrypoint makes the folder"


def test_its_data_are_in_an_empty_dir_unless_it_has_a_size() -> None:
    spec = one(_trial(), "StatefulSet")["spec"]
    assert "volumeClaimTemplates" not in spec
    assert {"name": "data", "emptyDir": {}} in spec["template"]["spec"]["volumes"]
    settings = ("trial.postgres.storage=2Gi", "trial.postgres.storageClassName=fast")
    spec = one(_trial(*settings), "StatefulSet")["spec"]
    [claim] = spec["volumeClaimTemplates"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"
    assert "data" not in [volume["name"] for volume in spec["template"]["spec"]["volumes"]]


def test_the_migration_makes_the_roles_first() -> None:
    objects = _trial()
    [job] = [o for o in objects if o["kind"] == "Job" and "migrate" in o["metadata"]["name"]]
    [first] = job["spec"]["template"]["spec"]["initContainers"]
    assert first["command"] == ["payrec", "bootstrap", "--wait=120"]
    assert _variables(first, objects).keys() == {"BOOTSTRAP_DATABASE_URL", "ADMIN_DATABASE_URL", "DATABASE_URL"}
    for name, spec in _pods(objects).items():
        if "migrate" not in name:
            for container in [*spec["containers"], *spec.get("initContainers", [])]:
                assert "BOOTSTRAP_DATABASE_URL" not in [v["name"] for v in container.get("env", ())], name


def test_nothing_of_it_is_in_another_release() -> None:
    kinds = {o["kind"] for o in rendered()}
    assert not {"StatefulSet", "Secret"} & kinds
    assert "bootstrap" not in str(rendered())
