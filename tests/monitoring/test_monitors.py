"""What is made for the Prometheus operator: valid by its definitions, and leading to every process's internal port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.charts import ROOT, documents, rendered

DEFINITIONS = ROOT.parent / "shared" / "cluster" / "crds"
ALL = (
    "--set",
    "metrics.rules.enabled=true,metrics.dashboards.enabled=true",
    "--set-string",
    "metrics.rules.labels.a=b",
)
SERVICE = ("--set", "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=15s")
POD = ("--set", "metrics.podMonitor.enabled=true,metrics.podMonitor.scrapeTimeout=5s,metrics.podMonitor.labels.c=d")
KINDS = {"PodMonitor": POD, "PrometheusRule": ALL, "ServiceMonitor": SERVICE}


def made(*arguments: str) -> list[dict[str, Any]]:
    return rendered(*arguments)


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]


def schema_of(kind: str) -> dict[str, Any]:
    """Return the schema of a definition, in which what is not known is refused, as the API server drops it."""
    path: Path = DEFINITIONS / f"monitoring.coreos.com_{kind.lower()}s.yaml"
    if not path.exists():
        pytest.skip("the definitions of prometheus-operator are not beside the checkout")
    [definition] = documents(path.read_text(encoding="utf-8"))
    [version] = [v for v in definition["spec"]["versions"] if v["name"] == "v1"]
    schema = dict(version["schema"]["openAPIV3Schema"])
    close(schema)
    # The API server's own.
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def close(schema: Any) -> None:
    if isinstance(schema, dict):
        if str(schema.get("pattern", "")).startswith("^(?i)"):
            # Go takes flags anywhere.
            schema["pattern"] = schema["pattern"].replace("^(?i)", "(?i)^")
        if schema.get("x-kubernetes-int-or-string"):
            schema.pop("type", None)
        if "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
        for one in schema.values():
            close(one)
    elif isinstance(schema, list):
        for one in schema:
            close(one)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_rendered_is_valid_by_its_definition(kind: str) -> None:
    schema = schema_of(kind)
    [found] = of_kind(made(*KINDS[kind]), kind)
    jsonschema.validate(found, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**found, "spec": {**found["spec"], "portt": 1}}, schema)


def selected(monitor: dict[str, Any], objects: list[dict[str, Any]]) -> set[str]:
    """Return the components that a monitor leads to, by the labels and the ports that it names."""
    wanted = monitor["spec"]["selector"]

    def matches(labels: dict[str, str]) -> bool:
        return all(labels.get(k) == v for k, v in wanted.get("matchLabels", {}).items()) and all(
            labels.get(e["key"]) in e["values"] for e in wanted.get("matchExpressions", ())
        )

    pods = [o["spec"]["template"] for o in of_kind(objects, "Deployment")]
    ports = {p["metadata"]["labels"]["app.kubernetes.io/component"]: names(p["spec"]["containers"]) for p in pods}
    if monitor["kind"] == "PodMonitor":
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        found = {
            p["metadata"]["labels"]["app.kubernetes.io/component"] for p in pods if matches(p["metadata"]["labels"])
        }
        assert all(endpoint["port"] in ports[name] for name in found)
        return found
    [endpoint] = monitor["spec"]["endpoints"]
    found = set()
    for service in of_kind(objects, "Service"):
        if matches(service["metadata"]["labels"]):
            [port] = [p for p in service["spec"]["ports"] if p["name"] == endpoint["port"]]
            wanted_pods = service["spec"]["selector"].items()
            reached = [p["metadata"]["labels"] for p in pods if wanted_pods <= p["metadata"]["labels"].items()]
            assert len(reached) == 1
            component = reached[0]["app.kubernetes.io/component"]
            assert port["targetPort"] in ports[component]
            found.add(component)
    return found


def names(containers: list[dict[str, Any]]) -> set[str]:
    return {port["name"] for container in containers for port in container.get("ports", ())}


@pytest.mark.parametrize(("kind", "arguments"), [("PodMonitor", POD), ("ServiceMonitor", SERVICE)])
@pytest.mark.parametrize("operator", [True, False])
def test_a_monitor_leads_to_every_process_and_to_nothing_else(
    kind: str, arguments: tuple[str, ...], *, operator: bool
) -> None:
    objects = made(*arguments, "--set", f"operator.enabled={str(operator).lower()}")
    [monitor] = of_kind(objects, kind)
    assert selected(monitor, objects) == {"api", "worker"} | ({"operator"} if operator else set())
    [endpoint] = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is False, "the alerts know the Tenant's namespace as exported_namespace"


def test_the_port_of_the_metrics_is_on_no_service_but_those_for_prometheus() -> None:
    def with_metrics(objects: list[dict[str, Any]]) -> set[str]:
        return {
            service["metadata"]["name"]
            for service in of_kind(objects, "Service")
            if any(port.get("targetPort") in {"internal", 9090} for port in service["spec"]["ports"])
        }

    assert with_metrics(made()) == with_metrics(made(*POD)) == set()
    assert with_metrics(made(*SERVICE)) == {f"payrec-{name}-metrics" for name in ("api", "operator", "worker")}


def test_labels_and_intervals_are_those_that_are_given() -> None:
    [monitor] = of_kind(made(*POD), "PodMonitor")
    assert monitor["metadata"]["labels"]["c"] == "d"
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["scrapeTimeout"], "interval" in endpoint) == ("5s", False)
    [monitor] = of_kind(made(*SERVICE), "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["interval"] == "15s"
    [rule] = of_kind(made(*ALL), "PrometheusRule")
    assert rule["metadata"]["labels"]["a"] == "b"


def test_without_the_definitions_nothing_is_made_that_needs_them() -> None:
    kinds = {one["kind"] for one in rendered(*ALL, *POD, api_versions=())}
    assert "ConfigMap" in kinds
    assert not kinds & set(KINDS)
