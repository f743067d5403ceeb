"""The chart as Helm renders it, with the newest Helm that there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "payrec"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
CRD = "templates/crds/tenant.yaml"

MINIMAL = CHART / "ci" / "minimal-values.yaml"

API_VERSIONS = ("monitoring.coreos.com/v1", "gateway.networking.k8s.io/v1")
"""What a cluster knows besides Kubernetes, unless a test says otherwise."""


class _Loader(yaml.CSafeLoader):
    """YAML as the API server reads it: dates stay texts."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def documents(text: str) -> list[dict[str, Any]]:
    """Return the objects of a YAML stream."""
    return [found for found in yaml.load_all(text, Loader=_Loader) if found]


@cache
def helm() -> str:
    """Return the newer of the Helm on the PATH and the one that the development extra brings."""
    found = [shutil.which("helm", path=str(Path(sys.executable).parent)), shutil.which("helm")]
    candidates = sorted({path for path in found if path is not None}, key=_version)
    assert candidates, "helm-binary is in the development extra"
    return candidates[-1]


def _version(path: str) -> tuple[int, ...]:
    done = subprocess.run([path, "version", "--short"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"v(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm without any settings of this machine."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "HELM_NO_PLUGINS": "1"}
    return subprocess.run(  # noqa: S603 - our own command
        [helm(), *arguments], capture_output=True, text=True, check=False, timeout=60, env=environment
    )


def rendered(
    *arguments: str,
    values: Path | None = MINIMAL,
    release: str = "payrec",
    api_versions: Iterable[str] = API_VERSIONS,
    chart: Path = CHART,
) -> list[dict[str, Any]]:
    """Return the objects of a release in the namespace ``payrec-system``."""
    files = ["--values", str(values)] if values is not None else []
    known = [f"--api-versions={version}" for version in api_versions]
    return documents(_template(release, str(chart), "--namespace", "payrec-system", *known, *files, *arguments))


@cache
def _template(*arguments: str) -> str:
    """Return what ``helm template`` writes; the chart does not change while tests run."""
    done = run_helm("template", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(*arguments: str, values: Path | None = MINIMAL) -> str:
    """Return why a release is refused."""
    files = ["--values", str(values)] if values is not None else []
    done = run_helm("template", "payrec", str(CHART), *files, *arguments)
    assert done.returncode != 0, "it was rendered"
    return done.stderr


def pod_of(rendered_object: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an object says of its pods; None where it has none."""
    if rendered_object["kind"] == "Pod":
        spec: dict[str, Any] = rendered_object["spec"]
        return spec
    template = rendered_object.get("spec", {}).get("template", {})
    return template.get("spec") if isinstance(template, dict) else None


def component_of(rendered_object: dict[str, Any]) -> str:
    """Return the component that an object is labelled with."""
    component: str = rendered_object["metadata"]["labels"]["app.kubernetes.io/component"]
    return component


def variables(container: dict[str, Any]) -> dict[str, Any]:
    """Return a container's variables: a value, or Secret and key."""
    found: dict[str, Any] = {}
    for variable in container.get("env", ()):
        assert variable["name"] not in found, variable["name"]
        if "valueFrom" in variable:
            reference = variable["valueFrom"]["secretKeyRef"]
            found[variable["name"]] = (reference["name"], reference["key"])
        else:
            found[variable["name"]] = variable["value"]
    return found


def one(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """Return the only object of a kind, or the one of that name."""
    [found] = [o for o in objects if o["kind"] == kind and name in {None, o["metadata"]["name"]}]
    return found


@cache
def tenant_definition() -> dict[str, Any]:
    """Return the definition of the Tenant resource."""
    return one(rendered("--show-only", CRD), "CustomResourceDefinition")


def tenant_schema() -> dict[str, Any]:
    """Return the schema of a Tenant."""
    [version] = tenant_definition()["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema
