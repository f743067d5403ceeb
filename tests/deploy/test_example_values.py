"""The examples' values: the chart takes them, what it renders is valid, and what belongs together says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import pytest
import yaml

from payrec.storage import bootstrap
from support.charts import ROOT, documents, one, rendered
from support.installations import ROLES, statements

EXAMPLES = ROOT / "deploy" / "examples"
BASE = EXAMPLES / "production" / "values.yaml"
LAYERS = sorted(path for path in EXAMPLES.rglob("values.yaml") if path != BASE)
TOGETHER = {
    "cloudnative-pg": ["cloudnative-pg", "pgbouncer", "keycloak", "cert-manager"],
    "external-postgres": ["external-postgres", "pgbouncer", "keycloak", "gateway-api"],
    "citus": ["citus", "keycloak", "gateway-api"],
}
OF_OTHERS = {"CustomResourceDefinition", "PodMonitor", "ServiceMonitor", "PrometheusRule", "HTTPRoute"}
"""Kinds that the schemas of Kubernetes do not have; those of the chart's own are looked at with the chart."""


def _values(name: str) -> Path:
    return EXAMPLES / name / "values.yaml"


def installed(*layers: Path) -> list[dict[str, Any]]:
    """Return what the chart renders with the values for production and these over them, in order."""
    return rendered(*(part for layer in layers for part in ("--values", str(layer))), values=BASE)


def checked(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the objects, each of which its schema allows."""
    for found in objects:
        if found["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(found, "1.36", strict=True)
    return objects


def environment(objects: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the variables of a Deployment's only container."""
    [container] = one(objects, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable for variable in container["env"]}


def test_there_are_values_for_each_way_of_installing() -> None:
    assert {path.parent.name for path in LAYERS} == {name for layers in TOGETHER.values() for name in layers}


def test_the_values_for_production_are_taken() -> None:
    kinds = {found["kind"] for found in checked(installed())}
    assert {"Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "PrometheusRule"} <= kinds


@pytest.mark.parametrize("layer", LAYERS, ids=lambda path: path.parent.name)
def test_each_example_is_laid_over_them(layer: Path) -> None:
    plain, layered = installed(), checked(installed(layer))
    # keycloak and others change fields of what is there; entries are objects of their own.
    assert layered != plain, "the layer says nothing"


@pytest.mark.parametrize("name", TOGETHER)
def test_examples_can_be_put_together(name: str) -> None:
    checked(installed(*map(_values, TOGETHER[name])))


@pytest.mark.parametrize("name", TOGETHER)
def test_no_example_takes_away_a_list_of_one_beside_it(name: str) -> None:
    """Of several values files the last one's list holds, at whatever depth."""

    def lists(value: Any, at: str = "") -> set[str]:
        if isinstance(value, dict):
            return {found for key, member in value.items() for found in lists(member, f"{at}.{key}")}
        return {at} if isinstance(value, list) else set()

    said = [lists(yaml.safe_load(path.read_text(encoding="utf-8"))) for path in [BASE, *map(_values, TOGETHER[name])]]
    twice = [name for names in said for name in names if sum(name in others for others in said) > 1]
    assert not twice


def test_an_entry_leads_to_the_api_and_nowhere_else() -> None:
    [rule] = one(installed(EXAMPLES / "cert-manager" / "values.yaml"), "Ingress")["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "payrec-api", "port": {"name": "http"}}
    route = one(installed(EXAMPLES / "gateway-api" / "values.yaml"), "HTTPRoute")["spec"]
    backends = [backend for entry in route["rules"] for backend in entry["backendRefs"]]
    assert [(backend["name"], backend["port"]) for backend in backends] == [("payrec-api", 80)]
    gateway = one(documents((EXAMPLES / "gateway-api" / "gateway.yaml").read_text(encoding="utf-8")), "Gateway")
    [parent] = route["parentRefs"]
    assert (parent["name"], parent["namespace"]) == (gateway["metadata"]["name"], gateway["metadata"]["namespace"])
    assert parent["sectionName"] in [listener["name"] for listener in gateway["spec"]["listeners"]]


def test_a_pooler_is_told_and_passed_by_where_it_must_be() -> None:
    objects = installed(EXAMPLES / "pgbouncer" / "values.yaml")
    for name in ("payrec-api", "payrec-worker"):
        assert environment(objects, name)["DATABASE_POOLER"]["value"] == "transaction"
    key = environment(objects, "payrec-worker")["JOBS_DATABASE_URL"]["valueFrom"]["secretKeyRef"]
    assert (key["name"], key["key"]) == ("payrec-database", "jobs-database-url")


@pytest.mark.parametrize("example", ["cloudnative-pg/cluster.yaml", "external-postgres/secret.yaml"])
def test_addresses_have_the_keys_of_the_values_and_the_ca_that_is_mounted(example: str) -> None:
    path = EXAMPLES / example
    secret = one(documents(path.read_text(encoding="utf-8")), "Secret", "payrec-database")
    defaults = yaml.safe_load((ROOT / "charts" / "payrec" / "values.yaml").read_text(encoding="utf-8"))["database"]
    assert secret["stringData"].keys() == {defaults["urlKey"], defaults["adminUrlKey"]}
    values = yaml.safe_load((path.parent / "values.yaml").read_text(encoding="utf-8"))
    [mount] = values["extraVolumeMounts"]
    for key, role in ((defaults["urlKey"], "payrec_service"), (defaults["adminUrlKey"], "payrec_admin")):
        address = urlsplit(secret["stringData"][key])
        assert (address.username, address.path) == (role, "/payrec")
        asked = parse_qs(address.query)
        assert asked == {"sslmode": ["verify-full"], "sslrootcert": [mount["mountPath"] + "/ca.crt"]}


def test_the_roles_are_those_of_the_command() -> None:
    names = {"database": "payrec", "admin": "payrec_admin", "login": "payrec_service"}
    assert statements(ROLES.read_text(encoding="utf-8")) == [
        f"CREATE ROLE payrec_admin {bootstrap.ADMIN_OPTIONS}",
        f"CREATE ROLE payrec_service {bootstrap.LOGIN_OPTIONS}",
        "CREATE DATABASE payrec",
        *(grant.format(**names) for grant in bootstrap.GRANTS),
    ]


def test_the_cluster_of_cloudnative_pg_makes_the_same_roles() -> None:
    objects = documents((EXAMPLES / "cloudnative-pg" / "cluster.yaml").read_text(encoding="utf-8"))
    cluster = one(objects, "Cluster")["spec"]
    [reference] = cluster["bootstrap"]["initdb"]["postInitApplicationSQLRefs"]["secretRefs"]
    script = one(objects, "Secret", reference["name"])["stringData"][reference["key"]]
    made = statements(script)
    passwords = [text for text in made if " PASSWORD " in text]
    assert [text for text in made if text not in passwords] == [
        text for text in statements(ROLES.read_text(encoding="utf-8")) if not text.startswith("CREATE DATABASE")
    ]
    # The operator takes from a role that it manages each membership that its list does not name.
    assert "managed" not in cluster
    urls = one(objects, "Secret", "payrec-database")["stringData"].values()
    for text in passwords:
        password = text.rpartition(" ")[2].strip("'")
        assert any(urlsplit(url).password == password for url in urls)


@pytest.mark.parametrize("path", ["argocd/installation.yaml", "flux/helm-release.yaml"])
def test_what_installs_the_chart_names_files_that_there_are(path: str) -> None:
    objects = documents((EXAMPLES / path).read_text(encoding="utf-8"))
    spec = next(found["spec"] for found in objects if found["kind"] in {"Application", "HelmRelease"})
    if "source" in spec:
        chart = ROOT / spec["source"]["path"]
        files = [chart / name for name in spec["source"]["helm"]["valueFiles"]]
    else:
        chart = ROOT / spec["chart"]["spec"]["chart"]
        files = [ROOT / name for name in spec["chart"]["spec"]["valuesFiles"]]
    assert (chart / "Chart.yaml").exists()
    assert all(file.exists() for file in files)
    checked(installed(*(file for file in files if file.resolve() != BASE)))
