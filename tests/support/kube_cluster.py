"""A real cluster, which PAYREC_TEST_KUBECONFIG names: kubectl, Helm, namespaces, and what runs in them.

Any cluster will do whose nodes have the images: the ones named by PAYREC_TEST_IMAGE, PAYREC_TEST_IMAGE_NEXT and
PAYREC_TEST_POSTGRES_IMAGE are never pulled.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from support.charts import helm
from support.control_plane import Api, ApiError, wait_until

HOW = (
    "PAYREC_TEST_KUBECONFIG names no cluster: give one (kind will do) with the images PAYREC_TEST_IMAGE,"
    " PAYREC_TEST_IMAGE_NEXT (tests/cluster/next) and PAYREC_TEST_POSTGRES_IMAGE on its nodes, PAYREC_TEST_KEYCLOAK"
    " reachable from its pods, and kubectl on the PATH"
)
NEEDED = ("PAYREC_TEST_IMAGE", "PAYREC_TEST_IMAGE_NEXT", "PAYREC_TEST_POSTGRES_IMAGE", "PAYREC_TEST_KEYCLOAK")
COMMAND_SECONDS = 120.0
INSTALL_SECONDS = 180
GONE_SECONDS = 120.0
RESTRICTED = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True, slots=True)
class Image:
    """An image on the nodes."""

    repository: str
    tag: str

    @classmethod
    def of(cls, name: str) -> Image:
        """Take a name with its tag apart."""
        repository, _, tag = name.rpartition(":")
        assert repository, f"{name} has no tag"
        return cls(repository, tag)

    def __str__(self) -> str:
        return f"{self.repository}:{self.tag}"


class Cluster:
    """The cluster as its administrator sees it."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = kubeconfig
        self.folder = folder
        """Where Helm keeps its own, and tests what they hand to commands."""
        self.image = Image.of(os.environ["PAYREC_TEST_IMAGE"])
        self.next_image = Image.of(os.environ["PAYREC_TEST_IMAGE_NEXT"])
        self.postgres_image = Image.of(os.environ["PAYREC_TEST_POSTGRES_IMAGE"])
        self.api = api_of(kubeconfig, folder)

    @property
    def environment(self) -> dict[str, str]:
        """What commands are run with: nothing of this user's own."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig)}

    def run(self, *command: str, given: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
        """Run a command that has to succeed, and return what it printed."""
        done = self.tried(*command, given=given, seconds=seconds)
        assert done.returncode == 0, f"{' '.join(command)[:300]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def tried(
        self, *command: str, given: str | None = None, seconds: float = COMMAND_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that may fail."""
        return subprocess.run(  # noqa: S603 - our own command
            command,
            input=given or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env=self.environment,
        )

    def kubectl(self, *arguments: str, given: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
        """Run kubectl."""
        return self.run("kubectl", *arguments, given=given, seconds=seconds)

    def helm(self, *arguments: str, seconds: float = 2 * INSTALL_SECONDS) -> str:
        """Run Helm."""
        return self.run(helm(), *arguments, seconds=seconds)

    @contextmanager
    def namespace(self, stem: str) -> Iterator[Namespace]:
        """Make a namespace in which Pod Security is restricted, and delete it in the end, with what it holds."""
        made = self.api.create(
            "/api/v1/namespaces", {"metadata": {"generateName": f"{stem}-", "labels": {RESTRICTED: "restricted"}}}
        )
        namespace = Namespace(self, str(made["metadata"]["name"]))
        try:
            yield namespace
        finally:
            namespace.delete()


class Namespace:
    """A namespace, and what tests ask of it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.path = f"/api/v1/namespaces/{name}"

    def apply(self, *bodies: dict[str, Any]) -> None:
        """Create or change objects."""
        self.cluster.kubectl("apply", "-n", self.name, "-f", "-", given=yaml.safe_dump_all(bodies))

    def kubectl(self, *arguments: str, given: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
        """Run kubectl here."""
        return self.cluster.kubectl("-n", self.name, *arguments, given=given, seconds=seconds)

    def put_secret(self, name: str, **values: str) -> None:
        """Create a Secret, or change it; an underscore is a hyphen."""
        data = {key.replace("_", "-"): value for key, value in values.items()}
        self.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})

    def items(self, path: str, *, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a collection of this namespace, such as ``apps/v1/deployments``."""
        version, _, plural = path.rpartition("/")
        root = f"/apis/{version}" if "/" in version else f"/api/{version or 'v1'}"
        query = f"?labelSelector={selector}" if selector else ""
        try:
            found = self.cluster.api.request("GET", f"{root}/namespaces/{self.name}/{plural}{query}")
        except ApiError as error:
            if error.status == 404:
                return []
            raise
        return list(found["items"])

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Return the pods of a component that are not about to end, the oldest first."""
        found = self.items("v1/pods", selector=f"app.kubernetes.io/component={component}")
        living = [
            pod
            for pod in found
            if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        ]
        return sorted(living, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def ready_pods(self, component: str) -> list[str]:
        """Return the names of the pods of a component that are ready."""
        return [name_of(pod) for pod in self.pods(component) if is_ready(pod)]

    def wait_ready(self, component: str, count: int, *, seconds: float = 120.0) -> list[str]:
        """Wait until a component has exactly this many pods, all of them ready, and return their names."""

        def look() -> list[str] | None:
            pods = self.pods(component)
            return [name_of(p) for p in pods] if len(pods) == count and all(is_ready(p) for p in pods) else None

        try:
            return wait_until(f"{count} ready pods of {component}", look, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def logs(self, pod: str, *arguments: str) -> str:
        """Return what a pod has written."""
        return self.cluster.tried("kubectl", "-n", self.name, "logs", pod, *arguments).stdout

    def report(self) -> str:
        """Return what there is to know when something does not come: pods, the last events, and the last lines."""
        lines = [self.kubectl("get", "pods,jobs", "-o", "wide")]
        events = sorted(self.items("v1/events"), key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime")))
        lines += [f"{e['reason']} {e['involvedObject'].get('name')}: {e.get('message')}" for e in events[-25:]]
        for pod in self.items("v1/pods"):
            if not is_ready(pod) and pod["status"].get("phase") != "Succeeded":
                text = self.logs(name_of(pod), "--all-containers", "--tail=15")
                lines.append(f"-- {name_of(pod)}\n{text}")
        return "\n".join(lines)

    def delete(self) -> None:
        """Delete the namespace, whatever a failed test has left in it, and wait for its end."""
        api = self.cluster.api
        api.delete(self.path)
        for pod in self.items("v1/pods"):
            # Nobody waits for a test's programs to end in good order.
            api.delete(f"{self.path}/pods/{name_of(pod)}", gracePeriodSeconds=0)

        def is_gone() -> bool:
            # An operator that still ends puts its finalizer back.
            for tenant in self.items("payrec.dev/v1/tenants"):
                if tenant["metadata"].get("finalizers"):
                    path = f"/apis/payrec.dev/v1/namespaces/{self.name}/tenants/{name_of(tenant)}"
                    with contextlib.suppress(ApiError):
                        api.merge(path, {"metadata": {"finalizers": None}})
            return api.find(self.path) is None

        wait_until(f"the end of {self.name}", is_gone, seconds=GONE_SECONDS)

    def wait_gone(self, *, seconds: float = GONE_SECONDS) -> None:
        """Wait until the namespace is no longer there."""
        wait_until(f"the end of {self.name}", lambda: self.cluster.api.find(self.path) is None, seconds=seconds)


def name_of(item: dict[str, Any]) -> str:
    """Return an object's name."""
    return str(item["metadata"]["name"])


def condition_of(item: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a condition of an object, or nothing."""
    return next((c for c in item["status"].get("conditions", ()) if c["type"] == kind), {})


def is_ready(pod: dict[str, Any]) -> bool:
    """Tell whether a pod is ready."""
    return condition_of(pod, "Ready").get("status") == "True"


def seconds_to_ready(pod: dict[str, Any], container: str) -> float:
    """Return how long a container ran until its pod was ready; Kubernetes tells both in whole seconds."""
    [state] = [s["state"] for s in pod["status"]["containerStatuses"] if s["name"] == container]
    ready = condition_of(pod, "Ready")["lastTransitionTime"]
    return (instant(ready) - instant(state["running"]["startedAt"])).total_seconds()


def instant(text: str) -> datetime:
    """Read an instant of the API server's."""
    return datetime.fromisoformat(text)


def api_of(kubeconfig: Path, folder: Path) -> Api:
    """Return the API server as the present user of a configuration sees it: by certificate, or by token."""
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    named = {kind: {e["name"]: e[kind] for e in document[f"{kind}s"]} for kind in ("cluster", "user", "context")}
    context = named["context"][document["current-context"]]
    cluster, user = named["cluster"][context["cluster"]], named["user"][context["user"]]
    files = {
        name: _file(part, name, folder)
        for part, name in (
            (cluster, "certificate-authority"),
            (user, "client-certificate"),
            (user, "client-key"),
        )
    }
    trusted = files["certificate-authority"]
    assert trusted is not None, f"{kubeconfig} does not say which authority is trusted"
    api = Api(cluster["server"], trusted, user.get("token", ""))
    if files["client-certificate"] is not None:
        verify = ssl.create_default_context(cafile=str(trusted))
        verify.load_cert_chain(files["client-certificate"], files["client-key"])
        api.close()
        api._http = httpx2.Client(base_url=api.url, verify=verify, timeout=30.0, trust_env=False)
    return api


def _file(part: Mapping[str, str], name: str, folder: Path) -> Path | None:
    if f"{name}-data" in part:
        path = folder / name
        path.write_bytes(base64.b64decode(part[f"{name}-data"]))
        path.chmod(0o600)
        return path
    return Path(part[name]) if name in part else None


def require_cluster() -> None:
    """Skip the module that asks, unless the environment names a cluster and what it needs."""
    kubeconfig = Path(os.environ.get("PAYREC_TEST_KUBECONFIG") or "/nonexistent")
    if not kubeconfig.is_file() or shutil.which("kubectl") is None or not all(map(os.environ.get, NEEDED)):
        pytest.skip(HOW, allow_module_level=True)


@contextmanager
def cluster_of_environment() -> Iterator[Cluster]:
    """Return the cluster that the environment names."""
    with tempfile.TemporaryDirectory(prefix="payrec-cluster-") as folder:
        cluster = Cluster(Path(os.environ["PAYREC_TEST_KUBECONFIG"]), Path(folder))
        try:
            yield cluster
        finally:
            cluster.api.close()


class Figures:
    """What was measured, printed at the end of the run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, what: str, value: float, unit: str, *, at_most: float | None = None, at_least: float = 0.0) -> None:
        """Keep a figure, and its goal where it has one. A goal that is missed fails nothing: machines differ."""
        goals = [f"at most {at_most:g}"] if at_most is not None else [f"at least {at_least:g}"] if at_least else []
        missed = value < at_least or (at_most is not None and value > at_most)
        told = f" (goal: {goals[0]}{', MISSED' if missed else ''})" if goals else ""
        self.lines.append(f"{what}: {value:.4g} {unit}{told}")


FIGURES = Figures()
