"""The real operator as a process of its own, with the chart's service account, and what a test asks of its Tenants."""

from __future__ import annotations

import base64
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from payrec.embedded.postgres import EmbeddedDatabase
from support.charts import rendered
from support.commands import Running, environment, is_healthy, started, wait_until_gone
from support.control_plane import Api, ControlPlane, path_of, wait_until
from support.ports import free_port

SYSTEM = "payrec-system"
ACCOUNT = "payrec-operator"
TENANTS = "/apis/payrec.dev/v1"

RIGHTS = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
"""Kinds of the chart's objects that say who may do what."""

_PROGRAM = """
import importlib, json, os, signal, sys

# Structlog loads it where it is there, as for developers alone.
sys.modules["rich"] = None

from kopf.cli import main


def die_at(armed, module, owner, name, moment):
    owner = getattr(importlib.import_module(module), owner)
    original = getattr(owner, name)

    async def dying(*given, **more):
        if moment == "before" and os.path.exists(armed):
            os.kill(os.getpid(), signal.SIGKILL)
        result = await original(*given, **more)
        if os.path.exists(armed):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, dying)


armed, dies_at, arguments = json.loads(sys.argv[1])
if dies_at is not None:
    die_at(armed, *dies_at)
main(["run", "-m", "payrec_operator.main", "--standalone", *arguments])
"""

_TIMER = re.compile(r'payrec_operator_reconcile_total\{.*trigger="timer"')

Step = tuple[str, str, str, str]
"""Module, class, method, and ``before`` or ``after``: where a process ends as by SIGKILL, once it is armed."""


def install(plane: ControlPlane) -> None:
    """Install the accounts and the rights of the chart; its pods are processes here."""
    api = plane.api
    if api.find(f"/api/v1/namespaces/{SYSTEM}") is None:
        api.create("/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
    for wanted in rendered():
        if wanted["kind"] in RIGHTS:
            api.apply(wanted)


@contextmanager
def served(database: EmbeddedDatabase, folder: Path) -> Iterator[str]:
    """Run the API as a process of its own, and return where it is."""
    port = free_port()
    variables = environment(database, PORT=str(port), INTERNAL_PORT="0")
    with started("serve", cwd=folder, environ=variables):
        url = f"http://127.0.0.1:{port}"
        wait_until("the API", lambda: is_healthy(url))
        yield url


@dataclass(frozen=True, slots=True)
class Ports:
    """Where an operator answers."""

    health: int
    internal: int


@dataclass(slots=True, kw_only=True)
class Operators:
    """Starts operators on one database and one API server."""

    plane: ControlPlane
    database: EmbeddedDatabase
    folder: Path
    base_url: str
    resync: str = "2s"
    _ports: dict[int, Ports] = field(default_factory=dict)

    @contextmanager
    def started(
        self,
        *,
        dies_at: Step | None = None,
        namespaces: Sequence[str] = (),
        account: str = ACCOUNT,
        server: str | None = None,
        wait: bool = True,
        **settings: str,
    ) -> Iterator[Running]:
        """Run an operator until the context ends; then it is killed, if it still runs.

        ``server`` is where it finds the API server, such as a proxy.
        """
        seen = self.plane.api.as_account(SYSTEM, account)
        config = seen.kubeconfig(self.folder / f"operator-{free_port()}.yaml", server=server)
        seen.close()
        health = free_port()
        scope = [f"--namespace={name}" for name in namespaces] or ["--all-namespaces"]
        arguments = [f"--liveness=http://127.0.0.1:{health}/healthz", *scope]
        internal = free_port()
        variables = {
            **environment(self.database),
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONUNBUFFERED": "1",
            "KUBECONFIG": str(config),
            "PUBLIC_BASE_URL": self.base_url,
            "INTERNAL_PORT": str(internal),
            "OPERATOR_RESYNC_INTERVAL": self.resync,
            **settings,
        }
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", _PROGRAM, json.dumps([str(self.armed), dies_at, arguments])],
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._ports[process.pid] = Ports(health, internal)
        running = _reading(process)
        try:
            if wait:
                wait_until("the operator", lambda: _answers(process, health))
                assert process.poll() is None or dies_at is not None, f"the operator ended:\n{running.rest()}"
            yield running
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    @property
    def armed(self) -> Path:
        """The file whose presence lets an operator with ``dies_at`` die there."""
        return self.folder / "armed"

    @contextmanager
    def dying(self, running: Running) -> Iterator[None]:
        """Let an operator die of what is done in the context, and wait for that."""
        self.armed.touch()
        try:
            yield
            wait_until_gone(running.process.pid)
        finally:
            self.armed.unlink()

    def metrics(self, running: Running) -> str:
        """Return what an operator tells on its internal port."""
        return httpx2.get(f"http://127.0.0.1:{self.ports(running).internal}/metrics").text

    def wait_round(self, running: Running) -> None:
        """Wait until the timer has come by at every Tenant, at least once, from its beginning to its end."""

        def looks() -> tuple[float, int]:
            text = self.metrics(running)
            timers = [line for line in text.splitlines() if _TIMER.match(line)]
            return sum(float(line.split()[-1]) for line in timers), text.count('condition="Ready"')

        before, count = looks()
        wait_until("the timer", lambda: looks()[0] >= before + 2 * count + 1)

    def ports(self, running: Running) -> Ports:
        """Return where an operator answers."""
        return self._ports[running.process.pid]


def _reading(process: subprocess.Popen[str]) -> Running:
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    return Running(process, lines, [])


def _answers(process: subprocess.Popen[str], port: int) -> bool:
    if process.poll() is not None:
        return True  # a test that lets it die at once looks at that itself
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=10).status_code == 200
    except httpx2.HTTPError:
        return False


class Tenants:
    """The Tenants of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.path = f"{TENANTS}/namespaces/{namespace}/tenants"

    def create(self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        """Create a Tenant with one environment, unless told otherwise."""
        body: dict[str, Any] = {
            "apiVersion": "payrec.dev/v1",
            "kind": "Tenant",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})},
            "spec": {"slug": name, "environments": [{"name": "production"}], **spec},
        }
        made: dict[str, Any] = self.api.create(path_of(body), body)
        return made

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a Tenant, or None where there is none."""
        found: dict[str, Any] | None = self.api.find(f"{self.path}/{name}")
        return found

    def change(self, name: str, **spec: Any) -> dict[str, Any]:
        """Change a Tenant's spec."""
        changed: dict[str, Any] = self.api.merge(f"{self.path}/{name}", {"spec": spec})
        return changed

    def annotate(self, name: str, **annotations: str | None) -> None:
        """Set or remove annotations of ours; an underscore is a dot."""
        names = {f"payrec.dev/{key.replace('_', '.')}": value for key, value in annotations.items()}
        self.api.merge(f"{self.path}/{name}", {"metadata": {"annotations": names}})

    def delete(self, name: str) -> None:
        """Ask for a Tenant's deletion."""
        self.api.delete(f"{self.path}/{name}")

    def wait_for(self, name: str, reason: str, kind: str = "Ready", *, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until a condition has a reason and the status is of the present generation; return the Tenant."""

        def look() -> dict[str, Any] | None:
            found = self.get(name)
            if found is None:
                return None
            status = found.get("status", {})
            if status.get("observedGeneration") not in {None, found["metadata"]["generation"]}:
                return None
            return found if reason_of(found, kind) == reason else None

        try:
            return wait_until(f"{kind} {reason}", look, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps((self.get(name) or {}).get('status'), indent=1)}") from None

    def wait_gone(self, name: str, *, seconds: float = 60.0) -> None:
        """Wait until a Tenant is no longer there."""
        wait_until(f"the end of {name}", lambda: self.get(name) is None, seconds=seconds)

    def secret(self, name: str) -> dict[str, str] | None:
        """Return what a Secret holds, or None where there is none."""
        found = self.api.find(f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        return None if found is None else decoded(found)

    def wait_secret(self, name: str, *, other_than: str | None = None, seconds: float = 60.0) -> dict[str, str]:
        """Wait for a Secret with a key, other than one that was there before."""

        def look() -> dict[str, str] | None:
            found = self.secret(name)
            return found if found is not None and found.get("api-key") not in {None, "", other_than} else None

        return wait_until(f"Secret {name}", look, seconds=seconds)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return type and reason of the events of a Tenant, the oldest first."""
        items = self.api.request("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"]
        mine = [e for e in items if e["involvedObject"]["name"] == name]
        mine.sort(key=lambda e: e["eventTime"] or "")
        return [(e["type"], e["reason"]) for e in mine]


def message_of(tenant: dict[str, Any], kind: str = "Ready") -> str:
    """Return what a condition tells."""
    conditions = tenant.get("status", {}).get("conditions", ())
    return next((str(c["message"]) for c in conditions if c["type"] == kind), "")


def reason_of(tenant: dict[str, Any], kind: str = "Ready") -> str | None:
    """Return the reason of a condition, or None where there is no such condition."""
    conditions = tenant.get("status", {}).get("conditions", ())
    return next((str(c["reason"]) for c in conditions if c["type"] == kind), None)


def decoded(secret: dict[str, Any]) -> dict[str, str]:
    """Return the values of a Secret."""
    return {
        name: base64.b64decode(value).decode(errors="replace") for name, value in (secret.get("data") or {}).items()
    }


def ask(secret: Mapping[str, str], method: str = "GET", path: str = "/jobs", **options: Any) -> httpx2.Response:
    """Send a request as whoever has mounted the Secret would."""
    headers = {
        "X-Api-Key": secret["api-key"],
        "X-Tenant-Id": secret["tenant-id"],
        "X-Environment": secret["environment"],
    }
    return httpx2.request(method, secret["base-url"] + path, headers=headers, **options)


def key(name: str = "ledger", **changes: Any) -> dict[str, Any]:
    """Return an entry of ``apiKeys``."""
    return {
        "name": name,
        "environment": "production",
        "secretName": f"{name}-key",
        "permissions": ["read", "write"],
        **changes,
    }
