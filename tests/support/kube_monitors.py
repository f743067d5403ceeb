"""ServiceMonitor and PodMonitor as the Prometheus operator reads them: what they select becomes a Prometheus' targets.

It runs beside the tests and reaches pods through the API server, which works with every cluster. Debian's cannot ask
Kubernetes by itself, so the selectors are followed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

from support.kube_cluster import Cluster, Namespace, name_of

GROUP = "monitoring.coreos.com/v1"
SCRAPE = "1s"
ENDPOINTS = {"podmonitors": "podMetricsEndpoints", "servicemonitors": "endpoints"}
"""Where each kind lists what is scraped of that which it selects."""


@dataclass(frozen=True, slots=True)
class Target:
    """A port of a pod."""

    namespace: str
    pod: str
    port: int


def selector_of(selector: dict[str, Any]) -> str:
    """Return a LabelSelector as the API server takes it in a query."""
    parts = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for expression in selector.get("matchExpressions", ()):
        key, values = expression["key"], ",".join(expression.get("values", ()))
        known = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(known[expression["operator"]])
    return quote(",".join(parts))


def configuration(namespace: Namespace, kind: str, folder: Path) -> Path:
    """Write what the operator would: a job for each endpoint of each monitor of the namespace, and all its rules."""
    monitors = namespace.items(f"{GROUP}/{kind}")
    assert monitors, f"there are no {kind}"
    jobs = [job for monitor in monitors for job in _jobs(namespace, kind, monitor)]
    groups = [g for rule in namespace.items(f"{GROUP}/prometheusrules") for g in rule["spec"]["groups"]]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    document = {
        "global": {"scrape_interval": SCRAPE, "evaluation_interval": SCRAPE},
        "rule_files": ["rules.yaml"],
        "scrape_configs": jobs,
    }
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def _jobs(own: Namespace, kind: str, monitor: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cluster, spec = own.cluster, monitor["spec"]
    selector = selector_of(spec["selector"])
    namespaces = [Namespace(cluster, name) for name in spec.get("namespaceSelector", {}).get("matchNames", [own.name])]
    targets_of = _ports_of_pods if kind == "podmonitors" else _ports_of_services
    for number, endpoint in enumerate(spec[ENDPOINTS[kind]]):
        targets = [t for namespace in namespaces for t in targets_of(namespace, selector, endpoint["port"])]
        yield {
            "job_name": f"{kind}/{name_of(monitor)}/{number}",
            "scheme": "https",
            "tls_config": _credentials(cluster),
            "static_configs": [_static(cluster, target, endpoint.get("path", "/metrics")) for target in targets],
        }


def _ports_of_pods(namespace: Namespace, selector: str, port_name: str) -> Iterator[Target]:
    for pod in namespace.items("v1/pods", selector=selector):
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            for container in pod["spec"]["containers"]:
                for port in container.get("ports", ()):
                    if port.get("name") == port_name:
                        yield Target(namespace.name, name_of(pod), int(port["containerPort"]))


def _ports_of_services(namespace: Namespace, selector: str, port_name: str) -> Iterator[Target]:
    for service in namespace.items("v1/services", selector=selector):
        own = quote(f"kubernetes.io/service-name={name_of(service)}")
        for piece in namespace.items("discovery.k8s.io/v1/endpointslices", selector=own):
            for port in piece.get("ports") or ():
                for endpoint in piece.get("endpoints") or ():
                    if port.get("name") == port_name:
                        yield Target(namespace.name, endpoint["targetRef"]["name"], int(port["port"]))


def _static(cluster: Cluster, target: Target, path: str) -> dict[str, Any]:
    proxied = f"/api/v1/namespaces/{target.namespace}/pods/{target.pod}:{target.port}/proxy{path}"
    return {
        "targets": [urlsplit(cluster.api.url).netloc],
        "labels": {"__metrics_path__": proxied, "namespace": target.namespace, "pod": target.pod},
    }


def _credentials(cluster: Cluster) -> dict[str, str]:
    files = {"ca_file": "certificate-authority", "cert_file": "client-certificate", "key_file": "client-key"}
    return {setting: str(cluster.folder / name) for setting, name in files.items()}
