"""The API, the worker, the operator and the migration, as the chart runs them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from payrec.cli import _parser
from payrec.commands.serving import GRACE_SECONDS
from support.charts import CHART, component_of, one, pod_of, rendered, variables

FULL = CHART / "ci" / "full-values.yaml"


def _deployment(component: str, *more: str, **options: Any) -> dict[str, Any]:
    return one(rendered(*more, **options), "Deployment", f"payrec-{component}")


def _container(component: str, *more: str, **options: Any) -> dict[str, Any]:
    for rendered_object in rendered(*more, **options):
        pod = pod_of(rendered_object)
        if pod is not None and component_of(rendered_object) == component:
            container: dict[str, Any] = pod["containers"][0]
            return container
    raise AssertionError(f"there is no {component}")


def _secrets(component: str, *more: str, **options: Any) -> dict[str, Any]:
    return {k: v for k, v in variables(_container(component, *more, **options)).items() if isinstance(v, tuple)}


def test_secrets_come_by_reference_with_the_names_that_are_given_to_those_who_need_them() -> None:
    everybody = {
        "DATABASE_URL": ("books-database", "uri"),
        "JOBS_DATABASE_URL": ("books-database", "jobs-uri"),
        "API_KEY_PEPPER": ("books-crypto", "pepper"),
        "API_KEY_PEPPER_PREVIOUS": ("books-crypto", "pepper-before"),
        "ENCRYPTION_KEY": ("books-crypto", "encryption"),
        "IDP_CLIENT_SECRET": ("books-identity-provider", "idp-secret"),
    }
    administrator = {"ADMIN_DATABASE_URL": ("books-database", "admin-uri")}
    assert _secrets("operator", values=FULL) == everybody | administrator
    assert _secrets("migrate", values=FULL) == everybody | administrator
    assert _secrets("worker", values=FULL) == everybody
    assert _secrets("api", values=FULL) == everybody | {"JWT_SECRET": ("books-crypto", "jwt")}


def test_the_administrating_url_goes_to_those_who_make_or_drop_schemas() -> None:
    def having(*more: str) -> set[str]:
        return {c for c in ("api", "worker", "migrate") if "ADMIN_DATABASE_URL" in _secrets(c, *more)}

    assert having() == {"api", "migrate"}
    assert having("--set", "tenantProvisioner=kubernetes") == {"migrate"}
    assert having("--set", "operator.enabled=false") == {"api", "worker", "migrate"}


def test_nothing_secret_is_in_a_value_of_a_variable() -> None:
    for component in ("api", "worker", "operator", "migrate"):
        plain = [k for k, v in variables(_container(component, values=FULL)).items() if isinstance(v, str)]
        assert not [k for k in plain if "SECRET" in k.replace("SOURCE_SECRETS_DIR", "") or "PEPPER" in k or "KEY" in k]
        assert not [k for k in plain if k.endswith("DATABASE_URL")]


def test_there_is_one_operator_and_never_two_at_once() -> None:
    spec = _deployment("operator")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    about_it = {o["kind"] for o in rendered() if o["metadata"]["name"] == "payrec-operator"}
    assert not {"HorizontalPodAutoscaler", "PodDisruptionBudget"} & about_it


@pytest.mark.parametrize("component", ["api", "worker"])
def test_a_new_pod_is_ready_before_an_old_one_goes(component: str) -> None:
    spec = _deployment(component)["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    keys = [(c["topologyKey"], c["whenUnsatisfiable"]) for c in spec["template"]["spec"]["topologySpreadConstraints"]]
    assert keys == [
        ("topology.kubernetes.io/zone", "ScheduleAnyway"),
        ("kubernetes.io/hostname", "ScheduleAnyway"),
    ]


@pytest.mark.parametrize(("more", "expected"), [([], 2), (["--set", "trial.enabled=true"], 1)])
def test_there_are_two_of_each_and_one_in_a_trial(more: list[str], expected: int) -> None:
    values = None if more else CHART / "ci" / "minimal-values.yaml"
    for component in ("api", "worker"):
        assert _deployment(component, *more, values=values)["spec"]["replicas"] == expected
        fixed = [*more, "--set", f"{component}.replicas=0"]
        assert _deployment(component, *fixed, values=values)["spec"]["replicas"] == 0


def test_pods_are_counted_by_the_autoscaler_or_by_the_deployment_and_limits_are_shared_by_all() -> None:
    assert not [o for o in rendered() if o["kind"] == "HorizontalPodAutoscaler"]
    assert variables(_container("api"))["RATE_LIMIT_REPLICAS"] == "2"
    assert variables(_container("api", "--set", "api.replicas=5"))["RATE_LIMIT_REPLICAS"] == "5"
    assert variables(_container("api", "--set", "api.replicas=0"))["RATE_LIMIT_REPLICAS"] == "1"

    objects = rendered("--set", "api.autoscaling.enabled=true", "--set", "api.autoscaling.maxReplicas=7")
    assert "replicas" not in one(objects, "Deployment", "payrec-api")["spec"]
    scaler = one(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "payrec-api"}
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 7)
    limits = variables(_container("api", "--set", "api.autoscaling.enabled=true"))
    assert limits["RATE_LIMIT_REPLICAS"] == "6"


def test_a_pod_that_serves_nobody_keeps_no_node_from_being_drained() -> None:
    budget = one(rendered(), "PodDisruptionBudget")
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert budget["spec"]["maxUnavailable"] == 1
    percentage = one(rendered("--set", "api.podDisruptionBudget.maxUnavailable=50%"), "PodDisruptionBudget")
    assert percentage["spec"]["maxUnavailable"] == "50%"


def test_the_service_leads_to_the_api_and_never_to_the_internal_port() -> None:
    service = one(rendered(), "Service", "payrec-api")["spec"]
    assert service["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    ports = {port["name"]: port["containerPort"] for port in _container("api")["ports"]}
    assert ports == {"http": 8000, "internal": 9090}
    assert {port["name"] for port in _container("worker")["ports"]} == {"internal"}


@pytest.mark.parametrize("component", ["api", "worker"])
def test_probes_ask_the_internal_port_and_a_database_that_is_away_restarts_nobody(component: str) -> None:
    container = _container(component)
    paths = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {probe["port"] for probe in paths.values()} == {"internal"}
    assert [paths[name]["path"] for name in ("startup", "liveness", "readiness")] == ["/livez", "/livez", "/readyz"]


def test_requests_that_are_under_way_are_finished_before_a_pod_is_killed() -> None:
    pod = _deployment("api", "--set", "api.preStopSeconds=11")["spec"]["template"]["spec"]
    assert pod["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 11}}
    assert pod["terminationGracePeriodSeconds"] > 11 + GRACE_SECONDS


def test_a_worker_is_killed_after_the_time_that_its_jobs_have() -> None:
    pod = _deployment("worker", "--set", "worker.graceSeconds=600")["spec"]["template"]["spec"]
    assert variables(pod["containers"][0])["WORKER_GRACE_SECONDS"] == "600"
    assert pod["terminationGracePeriodSeconds"] > 600


def test_every_process_waits_for_the_migration_of_its_own_image() -> None:
    for component in ("api", "worker", "operator"):
        pod = _deployment(component)["spec"]["template"]["spec"]
        [waiting] = pod["initContainers"]
        assert waiting["image"] == pod["containers"][0]["image"]
        assert _parser().parse_args(waiting["command"][1:]).seconds == 300
        assert "ADMIN_DATABASE_URL" not in variables(waiting)


@pytest.mark.parametrize("component", ["api", "worker", "migrate"])
def test_every_command_is_one_of_payrec(component: str) -> None:
    program, *arguments = _container(component)["command"]
    assert program == "payrec"
    assert _parser().parse_args(arguments).command == arguments[0]


def test_secrets_of_data_sources_are_mounted_where_their_tenant_looks() -> None:
    pod = one(rendered(values=FULL), "Deployment", "books-worker")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    directory = variables(container)["SOURCE_SECRETS_DIR"]
    volumes = {volume["name"]: volume.get("secret") for volume in pod["volumes"]}
    mounted = {
        mount["mountPath"]: volumes[mount["name"]]
        for mount in container["volumeMounts"]
        if mount["mountPath"].startswith(directory)
    }
    assert mounted == {
        f"{directory}/{tenant}/{name}": {"secretName": name, "defaultMode": 0o440, "optional": True}
        for tenant, name in (("acme", "acme-bank"), ("globex", "globex-sftp"))
    }
    assert "SOURCE_SECRETS_DIR" not in variables(_container("worker"))


def test_the_object_store_is_known_to_those_who_read_and_write_files() -> None:
    for component, expected in (("api", True), ("worker", True), ("operator", False), ("migrate", False)):
        container = _container(component, values=FULL)
        assert ("BLOB_URL" in variables(container)) is expected
        assert (container.get("envFrom") == [{"secretRef": {"name": "books-blob"}}]) is expected


def test_the_embedded_provider_is_used_where_no_other_is_named() -> None:
    development = ["--set", "deploymentEnvironment=development", "--set", "identityProvider.issuerUrl="]
    given = variables(_container("api", *development))
    assert "IDP_ISSUER_URL" not in given
    assert "IDP_CLIENT_SECRET" not in given


def _migration(*more: str, chart: Path = CHART) -> dict[str, Any]:
    [job] = [o for o in rendered(*more, chart=chart) if o["kind"] == "Job" and component_of(o) == "migrate"]
    return job


def test_the_migration_is_named_by_its_pod_and_is_no_hook(tmp_path: Path) -> None:
    job = _migration()
    assert "annotations" not in job["metadata"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    name = job["metadata"]["name"]
    assert _migration("--set", "worker.replicas=3")["metadata"]["name"] == name, "nothing of its pod has changed"
    for changed in ("image.tag=next", "migrate.resources.limits.memory=2Gi", "database.existingSecret=other"):
        other = _migration("--set", changed)
        assert other["metadata"]["name"] != name, changed
        assert other["metadata"]["name"].startswith("payrec-migrate-")

    # Another version of the chart alone rolls nothing and migrates nothing.
    copy = tmp_path / "payrec"
    shutil.copytree(CHART, copy)
    chart = yaml.safe_load((copy / "Chart.yaml").read_text(encoding="utf-8"))
    (copy / "Chart.yaml").write_text(yaml.safe_dump(chart | {"version": "0.1.1"}), encoding="utf-8")
    assert _migration(chart=copy)["metadata"]["name"] == name
    before, after = (
        {component_of(o): pod_of(o) for o in rendered(chart=c) if o["kind"] == "Deployment"} for c in (CHART, copy)
    )
    assert before == after
