"""An installation as a platform team makes it: a PostgreSQL, Secrets, a real identity provider, and the chart."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.charts import CHART, ROOT
from support.control_plane import wait_until
from support.kube_cluster import INSTALL_SECONDS, Image, Namespace, name_of
from support.operator_process import Tenants

RELEASE = "payrec"
COMPONENTS = ("api", "worker", "operator")
ROLES = ROOT / "deploy" / "examples" / "external-postgres" / "roles.sql"
CLIENTS = ROOT / "tests" / "cluster" / "clients"
RUN_SECONDS = 120.0

RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class Postgres:
    """A PostgreSQL server in a namespace; its data is kept as long as its pod, whatever becomes of the container."""

    POD = "postgres-0"
    SERVICE_PASSWORD_BYTES = 12

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.superuser_password = secrets.token_hex(self.SERVICE_PASSWORD_BYTES)
        self.passwords = {
            role: secrets.token_hex(self.SERVICE_PASSWORD_BYTES) for role in ("payrec_admin", "payrec_service")
        }

    def start(self, image: Image) -> None:
        """Start it, and make the roles and the database as the documentation says."""
        self.namespace.put_secret("postgres", password=self.superuser_password)
        self.namespace.apply(*_postgres(str(image)))
        wait_until("the database", self.answers)
        self.ask(ROLES.read_text(encoding="utf-8"), database="postgres")
        for role, password in self.passwords.items():
            self.ask(f"ALTER ROLE {role} PASSWORD '{password}'", database="postgres")

    def url(self, role: str, *, password: str | None = None) -> str:
        """Return the address of the database for a role."""
        given = password or self.passwords[role]
        return f"postgresql://{role}:{given}@postgres.{self.namespace.name}.svc:5432/payrec"

    def ask(self, statements: str, *, database: str = "payrec") -> list[str]:
        """Run SQL as the superuser, and return the rows as texts."""
        command = (
            f"PGPASSWORD=$POSTGRES_PASSWORD exec psql -h 127.0.0.1 -U postgres -d {database} -qAt -v ON_ERROR_STOP=1"
        )
        done = self.namespace.kubectl("exec", "-i", self.POD, "--", "sh", "-c", command, given=statements)
        return done.splitlines()

    def answers(self) -> bool:
        """Tell whether it takes connections by the network, as it does not while it is initialised."""
        command = ("kubectl", "-n", self.namespace.name, "exec", self.POD, "--")
        done = self.namespace.cluster.tried(*command, "pg_isready", "-q", "-h", "127.0.0.1", "-U", "postgres")
        return done.returncode == 0

    def crash(self) -> None:
        """End it as PostgreSQL does in an emergency, and wait until it is back."""
        before = self.restarts()
        self.namespace.kubectl("exec", self.POD, "--", "sh", "-c", "kill -QUIT 1")
        wait_until("the restart of the database", lambda: self.restarts() > before and self.answers())

    def restarts(self) -> int:
        """Return how often its container has been started anew."""
        pod = self.namespace.cluster.api.find(f"{self.namespace.path}/pods/{self.POD}")
        return sum(int(s["restartCount"]) for s in (pod or {"status": {}})["status"].get("containerStatuses", ()))


@dataclass(slots=True, kw_only=True)
class Release:
    """The chart, installed in a namespace."""

    namespace: Namespace
    values: dict[str, Any]
    postgres: Postgres
    tenants: Tenants
    chart: Path = CHART
    install_seconds: float = 0.0
    installed_at: float = 0.0
    uninstalled: bool = field(default=False)

    @property
    def url(self) -> str:
        """The address of the API for pods."""
        return f"http://{RELEASE}-api.{self.namespace.name}.svc"

    def install(self, *arguments: str) -> None:
        """Install it and wait until everything is ready.

        The definition of the Tenant resource may be there, left by a release that was uninstalled in another namespace.
        """
        self.installed_at = time.monotonic()
        try:
            self.helm("install", "--take-ownership", *arguments)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.namespace.report()}") from None
        self.install_seconds = time.monotonic() - self.installed_at

    def upgrade(self, *, chart: Path | None = None, wait: bool = True, **changes: Any) -> None:
        """Upgrade it; ``changes`` go over its values, and stay."""
        self.chart = chart or self.chart
        self.values = merged(self.values, changes)
        try:
            self.helm("upgrade", wait=wait)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.namespace.report()}") from None

    def helm(self, verb: str, *arguments: str, wait: bool = True) -> str:
        """Install or upgrade with the present values."""
        path = self.namespace.cluster.folder / f"{self.namespace.name}-values.yaml"
        path.write_text(yaml.safe_dump(self.values), encoding="utf-8")
        waiting = ("--wait", "--timeout", f"{INSTALL_SECONDS}s") if wait else ()
        return self.namespace.cluster.helm(
            verb, RELEASE, str(self.chart), "-n", self.namespace.name, "-f", str(path), *waiting, *arguments
        )

    def rollback(self) -> None:
        """Go back to the revision before."""
        self.namespace.cluster.helm(
            "rollback", RELEASE, "-n", self.namespace.name, "--wait", "--timeout", f"{INSTALL_SECONDS}s"
        )

    def uninstall(self) -> None:
        """Uninstall it and wait until what belongs to it is gone."""
        self.uninstalled = True
        self.namespace.cluster.helm(
            "uninstall", RELEASE, "-n", self.namespace.name, "--wait", "--timeout", f"{INSTALL_SECONDS}s"
        )

    def wait_all_ready(self, *, seconds: float = 300.0) -> None:
        """Wait until every Deployment has as many ready pods as it is to have, of its newest template alone."""

        def lacking() -> list[str]:
            found = self.namespace.items("apps/v1/deployments", selector=f"app.kubernetes.io/instance={RELEASE}")
            assert found, "nothing is installed"
            return [name_of(d) for d in found if not _is_complete(d)]

        try:
            wait_until("every Deployment", lambda: not lacking(), seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {lacking()}\n{self.namespace.report()}") from None

    def run(self, script: str, *, secret: str, **variables: Any) -> dict[str, Any]:
        """Run a client's program in a pod that has mounted a Tenant's Secret, and return what it found out."""
        pod = self.start(script, secret=secret, **variables)
        return self.result(pod)

    def start(self, script: str, *, secret: str, **variables: Any) -> str:
        """Start a client's program in a pod of its own, and return the pod's name."""
        self.namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "clients"},
                "data": {path.name: path.read_text(encoding="utf-8") for path in sorted(CLIENTS.glob("*.py"))},
            }
        )
        name = f"client-{script.removesuffix('.py')}-{secrets.token_hex(3)}"
        image = str(self.namespace.cluster.image)
        environment = {name.upper(): str(value) for name, value in variables.items()}
        self.namespace.apply(_client(name, script, image, secret, environment))
        return name

    @contextmanager
    def reached(self, target: str = f"service/{RELEASE}-api", port: int = 80) -> Iterator[str]:
        """Return an address of the API for this process, as ``kubectl port-forward`` makes one."""
        command = ("kubectl", "-n", self.namespace.name, "port-forward", target, f":{port}")
        process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            env=self.namespace.cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("Forwarding from 127.0.0.1:"), line
            yield f"http://{line.split()[2]}"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def result(self, pod: str, *, seconds: float = RUN_SECONDS) -> dict[str, Any]:
        """Wait for a client's end, and return the JSON of its last line."""
        path = f"{self.namespace.path}/pods/{pod}"
        api = self.namespace.cluster.api
        try:
            ended = wait_until(
                f"the end of {pod}",
                lambda: found if (found := api.find(path)) and found["status"]["phase"] in _ENDS else None,
                seconds=seconds,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.namespace.logs(pod)}\n{self.namespace.report()}") from None
        text = self.namespace.logs(pod)
        assert ended["status"]["phase"] == "Succeeded", f"{pod} failed: {text[-3000:]}"
        api.delete(path, gracePeriodSeconds=0)
        result: dict[str, Any] = json.loads(text.splitlines()[-1])
        return result

    def addresses(self, component: str) -> list[str]:
        """Return the addresses of a component's pods."""
        return [str(pod["status"]["podIP"]) for pod in self.namespace.pods(component)]

    def resident_mebibytes(self, component: str) -> float:
        """Return the memory of a component's first pod: that of its only process."""
        [pod, *_] = self.namespace.ready_pods(component)
        status = self.namespace.kubectl("exec", pod, "--", "cat", "/proc/1/status")
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024


_ENDS = {"Succeeded", "Failed"}


def _is_complete(deployment: dict[str, Any]) -> bool:
    wanted, status = deployment["spec"]["replicas"], deployment["status"]
    counts = [int(status.get(name, 0)) for name in ("replicas", "updatedReplicas", "readyReplicas")]
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == [wanted] * 3


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return values with changes over them, level by level, as Helm lays files over each other."""
    result = dict(values)
    for name, change in changes.items():
        below = result.get(name)
        result[name] = merged(below, change) if isinstance(change, dict) and isinstance(below, dict) else change
    return result


def prepared(namespace: Namespace, *, issuer: str, client_secret: str) -> Release:
    """Return a release that is ready to be installed: its database runs, and its Secrets are there."""
    cluster = namespace.cluster
    postgres = Postgres(namespace)
    postgres.start(cluster.postgres_image)
    namespace.put_secret(
        "payrec-database",
        database_url=postgres.url("payrec_service"),
        admin_database_url=postgres.url("payrec_admin"),
    )
    namespace.put_secret(
        "payrec-crypto", api_key_pepper=secrets.token_urlsafe(32), encryption_key=secrets.token_urlsafe(32)
    )
    namespace.put_secret("payrec-client", client_secret=client_secret)
    values = {
        "image": {"repository": cluster.image.repository, "tag": cluster.image.tag},
        # An issuer without TLS is allowed there alone.
        "deploymentEnvironment": "development",
        "tenantProvisioner": "kubernetes",
        "database": {"existingSecret": "payrec-database"},
        "crypto": {"existingSecret": "payrec-crypto"},
        "identityProvider": {"issuerUrl": issuer, "existingSecret": "payrec-client"},
        "api": {"publicUrl": f"http://{RELEASE}-api.{namespace.name}.svc"},
        # What is tested here is whether requests are lost, and not how many may be asked.
        "rateLimits": {"principalPerSecond": 0, "tenantPerSecond": 0, "uploadsPerMinute": 0},
        "operator": {"watchNamespaces": [namespace.name]},
        "metrics": {"podMonitor": {"enabled": True}, "rules": {"enabled": True}, "dashboards": {"enabled": True}},
    }
    return Release(namespace=namespace, values=values, postgres=postgres, tenants=Tenants(cluster.api, namespace.name))


def _postgres(image: str) -> list[dict[str, Any]]:
    labels = {"app": "postgres"}
    container = {
        "name": "postgres",
        "image": image,
        "args": ["-c", "max_connections=200", "-c", "fsync=off"],
        "env": [
            {"name": "POSTGRES_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "postgres", "key": "password"}}},
            {"name": "PGDATA", "value": "/var/lib/postgresql/data/pgdata"},
        ],
        "ports": [{"containerPort": 5432}],
        "securityContext": RESTRICTED_CONTAINER,
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"}],
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "securityContext": {**RESTRICTED_POD, "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999},
            "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 5,
            "enableServiceLinks": False,
        },
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "postgres"},
            "spec": {"selector": labels, "ports": [{"port": 5432}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "postgres"},
            "spec": {
                "replicas": 1,
                "serviceName": "postgres",
                "selector": {"matchLabels": labels},
                "template": template,
            },
        },
    ]


def _client(name: str, script: str, image: str, secret: str, environment: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "client",
        "image": image,
        "command": ["python", f"/clients/{script}"],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "securityContext": {**RESTRICTED_CONTAINER, "readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "clients", "mountPath": "/clients"},
            {"name": "key", "mountPath": "/key"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the container
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "client"}},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {**RESTRICTED_POD, "runAsUser": 10001},
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [
                {"name": "clients", "configMap": {"name": "clients"}},
                {"name": "key", "secret": {"secretName": secret}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    }
