"""A real API server for tests, from the binaries that KUBEBUILDER_ASSETS names (the convention of envtest).

Everything is started on free ports of loopback and is the test process's own, so no cluster of this machine's user is
ever touched, whatever KUBECONFIG says.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support.forwarder import certificate
from support.ports import free_port

T = TypeVar("T")

Make = Callable[..., dict[str, Any]]
"""Creates a Tenant of the test's own: its name, and what of its spec the test is about."""

HOW = (
    "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver; `setup-envtest use -p env` of controller-runtime"
    " gives one"
)
DEADLINE_SECONDS = 60.0
CONTROLLERS = (
    "garbage-collector-controller,namespace-controller,serviceaccount-controller,clusterrole-aggregation-controller"
)


def assets() -> Path:
    """Return the folder with the binaries, or skip the test."""
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS") or "/nonexistent")
    if not all(os.access(folder / name, os.X_OK) for name in ("etcd", "kube-apiserver")):
        pytest.skip(HOW)
    return folder


def wait_until(what: str, look: Callable[[], T | None], *, seconds: float = DEADLINE_SECONDS) -> T:
    """Look again and again until there is something."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < until, f"{what} did not come within {seconds} s"
        time.sleep(0.05)


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.status = answer.status_code
        try:
            self.message = str(answer.json()["message"])
        except (ValueError, KeyError, TypeError):
            self.message = answer.text
        super().__init__(f"{self.status}: {self.message}")


class Api:
    """The API server as somebody with a token sees it."""

    def __init__(self, url: str, trusted: Path, token: str) -> None:
        self.url = url
        self.trusted = trusted
        self.token = token
        self._http = httpx2.Client(
            base_url=url,
            verify=_context(trusted),
            headers={"Authorization": f"Bearer {token}"},
            timeout=30.0,
            trust_env=False,
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Any:
        """Ask, and return what is answered.

        Raises
        ------
        ApiError
        """
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept}
        answer = self._http.request(method, path, content=content, headers=headers)
        if answer.status_code >= 400:
            raise ApiError(answer)
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def find(self, path: str) -> Any:
        """Return an object, or None where there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Any) -> Any:
        """Create an object; an unknown field is an error, as for ``kubectl apply``."""
        return self.request("POST", f"{path}?fieldValidation=Strict", body)

    def merge(self, path: str, body: Any) -> Any:
        """Change an object by a merge patch."""
        return self.request("PATCH", path, body, content_type="application/merge-patch+json")

    def delete(self, path: str, **options: Any) -> Any:
        """Delete an object; one that is not there is no error."""
        try:
            return self.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def apply(self, body: dict[str, Any]) -> Any:
        """Create an object of the chart, or bring it to what it says."""
        path = path_of(body)
        name = body["metadata"]["name"]
        found = self.find(f"{path}/{name}")
        if found is None:
            return self.create(path, body)
        return self.merge(f"{path}/{name}?fieldValidation=Strict", body)

    def define(self, definition: dict[str, Any]) -> None:
        """Define a resource, and wait until its objects can be listed."""
        self.apply(definition)
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"

        def is_served() -> bool:
            try:
                return self.find(path) is not None
            except ApiError as error:
                # 429: its storage is being made.
                return error.status != 429 and error.status < 500

        wait_until(f"the resource {definition['metadata']['name']}", is_served)

    def as_account(self, namespace: str, name: str) -> Api:
        """Return the API server as a service account sees it, with a token of TokenRequest."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.request("POST", path, {"spec": {"expirationSeconds": 3600}})
        return Api(self.url, self.trusted, answer["status"]["token"])

    def kubeconfig(self, path: Path, *, server: str | None = None) -> Path:
        """Write a configuration with which others are who this is, at ``server`` where that is given."""
        cluster = {"server": server or self.url, "certificate-authority": str(self.trusted)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "t", "cluster": cluster}],
            "users": [{"name": "t", "user": {"token": self.token}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
            "current-context": "t",
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    def close(self) -> None:
        """End the connections."""
        self._http.close()


def _context(trusted: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(trusted))


_PLURALS = {"ClusterRole": "clusterroles", "Tenant": "tenants", "CustomResourceDefinition": "customresourcedefinitions"}


def path_of(body: dict[str, Any]) -> str:
    """Return the address of the collection that an object belongs to."""
    version = body["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(body["kind"], f"{body['kind'].lower()}s")
    namespace = body["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


class ControlPlane:
    """etcd, the API server, and the controllers where the folder has them."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self._binaries = binaries
        self._token = secrets.token_hex(16)
        self._ports = {name: free_port() for name in ("etcd", "peer", "api", "controllers")}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        _, self.trusted = certificate(folder)
        self.api = self._prepare()

    @property
    def has_controllers(self) -> bool:
        """Whether what the controllers do is done: garbage collection, the end of namespaces."""
        return os.access(self._binaries / "kube-controller-manager", os.X_OK)

    def _prepare(self) -> Api:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "account.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (self.folder / "tokens.csv").write_text(f'{self._token},admin,admin,"system:masters"\n', encoding="utf-8")
        return Api(f"https://127.0.0.1:{self._ports['api']}", self.trusted, self._token)

    def start(self) -> None:
        """Start everything and wait until it answers."""
        etcd = f"http://127.0.0.1:{self._ports['etcd']}"
        peer = f"http://127.0.0.1:{self._ports['peer']}"
        self._run(
            "etcd",
            *("--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--log-level", "error"),
            *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        )
        self.start_api_server()
        if self.has_controllers:
            self._run(
                "kube-controller-manager",
                *("--kubeconfig", str(self.api.kubeconfig(self.folder / "controllers.yaml"))),
                *("--service-account-private-key-file", str(self.folder / "account.key")),
                *("--controllers", CONTROLLERS, "--leader-elect=false"),
                *("--bind-address", "127.0.0.1", "--secure-port", str(self._ports["controllers"])),
                *("--cert-dir", str(self.folder / "controllers")),
            )
            wait_until(
                "the default service account",
                lambda: self.api.find("/api/v1/namespaces/default/serviceaccounts/default"),
            )

    def start_api_server(self) -> None:
        """Start the API server alone."""
        account = str(self.folder / "account.key")
        self._run(
            "kube-apiserver",
            *("--etcd-servers", f"http://127.0.0.1:{self._ports['etcd']}"),
            *("--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"),
            *("--secure-port", str(self._ports["api"])),
            *("--tls-cert-file", str(self.trusted), "--tls-private-key-file", str(self.folder / "private.pem")),
            *("--token-auth-file", str(self.folder / "tokens.csv"), "--authorization-mode", "RBAC"),
            *(
                "--service-account-issuer",
                "https://kubernetes.default.svc",
                "--service-cluster-ip-range",
                "10.96.0.0/24",
            ),
            *("--service-account-key-file", account, "--service-account-signing-key-file", account),
            "--endpoint-reconciler-type=none",
        )
        wait_until("the API server", self._is_ready)
        wait_until("the default namespace", lambda: self.api.find("/api/v1/namespaces/default"))

    @property
    def processes(self) -> dict[str, subprocess.Popen[bytes]]:
        """What runs, by name."""
        return dict(self._processes)

    @property
    def is_running(self) -> bool:
        """Whether the API server runs."""
        return "kube-apiserver" in self._processes

    def kill_api_server(self) -> None:
        """End the API server as a crash does."""
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End everything."""
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            process = self._processes.pop(name, None)
            if process is not None:
                process.kill()
                process.wait()
        self.api.close()

    def _is_ready(self) -> bool:
        process = self._processes["kube-apiserver"]
        if process.poll() is not None:
            log = (self.folder / "kube-apiserver.log").read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"the API server ended:\n{log[-2000:]}")
        try:
            return bool(self.api.request("GET", "/readyz") == "ok")
        except (httpx2.HTTPError, ApiError):
            return False

    def _run(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - a binary of the named folder
                [str(self._binaries / name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """Run a control plane until the context ends, or skip the test where there are no binaries for one."""
    binaries = assets()
    folder = Path(tempfile.mkdtemp(prefix="payrec-control-plane-"))
    plane = ControlPlane(folder, binaries)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)
