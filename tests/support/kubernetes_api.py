"""An API server of a cluster on loopback, over TLS: Tenant resources of one namespace, and failures when asked for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiohttp import web

from support.forwarder import LOOPBACK, certificate
from support.leaks import SESSION

NAMESPACE = "payrec-system"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.c2VydmljZS1hY2NvdW50.c2lnbmF0dXJl"
PATH = f"/apis/payrec.dev/v1/namespaces/{NAMESPACE}/tenants"


@dataclass(slots=True)
class FakeCluster:
    """The resources, and how the next requests are answered."""

    folder: Path
    port: int = 0
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse | None]] | None = None
    """Answers before the server does; None from it: the server does after all."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a service in a pod of this cluster."""
        return {
            "tenant_provisioner": "kubernetes",
            "kubernetes_service_host": LOOPBACK,
            "kubernetes_service_port": self.port,
            "service_account_dir": self.folder,
        }

    def apply(self, name: str, **spec: Any) -> dict[str, Any]:
        """Make a resource as somebody does with kubectl."""
        self.resources[name] = {
            "apiVersion": "payrec.dev/v1",
            "kind": "Tenant",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": str(uuid4()), "annotations": {}},
            "spec": {"slug": name, **spec},
        }
        return self.resources[name]

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self.asked.append((request.method, request.path))
        if self.answer is not None and (answer := await self.answer(request)) is not None:
            return answer
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return status(401, "Unauthorized")
        if not request.path.startswith(PATH):
            return status(404, "NotFound")
        if request.method == "POST":
            body = await request.json()
            name = body["metadata"]["name"]
            if name in self.resources:
                return status(409, "AlreadyExists")
            body["metadata"] |= {"uid": str(uuid4()), "namespace": NAMESPACE}
            self.resources[name] = body
            return web.json_response(body, status=201)
        found = self.resources.get(request.path.removeprefix(f"{PATH}/"))
        return web.json_response(found) if found is not None else status(404, "NotFound")


def status(code: int, reason: str, *fields: str) -> web.Response:
    """Return a failure as an API server tells it; ``fields`` are the causes."""
    causes = [
        {"reason": "FieldValueInvalid", "field": name, "message": "Invalid value: secret-value"} for name in fields
    ]
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return web.Response(
        body=json.dumps({**body, "message": "secret-value", "details": {"causes": causes}}),
        status=code,
        content_type="application/json",
    )


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[FakeCluster]:
    """Run the server, with what a pod has of its service account in ``folder``."""
    tls, trusted = certificate(folder)
    (folder / "ca.crt").write_bytes(trusted.read_bytes())
    (folder / "token").write_text(TOKEN)
    (folder / "namespace").write_text(NAMESPACE)
    SESSION.credentials.add("the token of the service account", TOKEN)
    made = FakeCluster(folder=folder)
    runner = web.ServerRunner(web.Server(made.take, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls)
    await site.start()
    made.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    try:
        yield made
    finally:
        await runner.cleanup()
