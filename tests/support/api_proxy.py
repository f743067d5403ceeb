"""A proxy before the API server of the tests: it refuses as a busy one does, is cut off, or ends watches."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

from support.control_plane import ControlPlane

LOOPBACK = "127.0.0.1"
RETRY_AFTER_SECONDS = 1
_PASSED_ON = ("authorization", "content-type", "accept", "user-agent")
_GONE = {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}}
_BUSY = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "TooManyRequests",
    "message": "too many requests, please try again later",
    "details": {"retryAfterSeconds": RETRY_AFTER_SECONDS},
    "code": 429,
}
_CONFLICT = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}


class ApiProxy:
    """What a test says to the proxy, and what it has seen."""

    def __init__(self, plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=str(plane.trusted))
        self.upstream = httpx2.Client(base_url=plane.api.url, verify=context, timeout=None, trust_env=False)
        self.refusing = False
        """Whether everything but watches is answered 429."""
        self.conflicting = False
        """Whether every PATCH is answered 409, which kopf does not try again."""
        self.refused = 0
        self.ended_watches = 0
        """Watches that were answered 410, since ``expire_watches``."""
        self._expires = 0
        self._is_cut = False
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self.server = _Server(self)

    @property
    def url(self) -> str:
        """Where the proxy listens, without TLS."""
        return f"http://{LOOPBACK}:{self.server.server_address[1]}"

    def expire_watches(self, count: int) -> None:
        """Answer the next watches as an API server that no longer knows what they begin with: list anew."""
        with self._lock:
            self._expires, self.ended_watches = count, 0

    @contextmanager
    def cut(self) -> Iterator[None]:
        """End all connections, watches too, and take none until the context ends."""
        self._is_cut = True
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        try:
            yield
        finally:
            self._is_cut = False

    def takes(self, connection: socket.socket) -> bool:
        """Tell whether a new connection is taken."""
        if not self._is_cut:
            self._connections.add(connection)
        return not self._is_cut

    def lost(self, connection: socket.socket) -> None:
        """Note that a connection has ended."""
        self._connections.discard(connection)

    def ends_watch(self) -> bool:
        """Tell whether a watch is to be ended, and count it."""
        with self._lock:
            if self._expires == 0:
                return False
            self._expires -= 1
            self.ended_watches += 1
            return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, proxy: ApiProxy) -> None:
        self.proxy = proxy
        super().__init__((LOOPBACK, 0), _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a connection, unless the proxy is cut off."""
        del client_address
        return self.proxy.takes(request)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has ended."""
        self.proxy.lost(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: connections that end in the middle are what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's
        """Write no log."""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy, watches = self.server.proxy, "watch=true" in self.path
        if watches and proxy.ends_watch():
            self._answer(200, json.dumps(_GONE).encode() + b"\n")
        elif proxy.refusing and not watches:
            proxy.refused += 1
            self._answer(429, json.dumps(_BUSY).encode(), {"Retry-After": str(RETRY_AFTER_SECONDS)})
        elif proxy.conflicting and self.command == "PATCH":
            proxy.refused += 1
            self._answer(409, json.dumps(_CONFLICT).encode())
        else:
            self._ask(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - the base class's names

    def _ask(self, body: bytes) -> None:
        headers = {name: value for name in _PASSED_ON if (value := self.headers.get(name)) is not None}
        with self.server.proxy.upstream.stream(self.command, self.path, headers=headers, content=body) as answer:
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("content-type", "application/json"))
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in answer.iter_bytes():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

    def _answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def api_proxy(plane: ControlPlane) -> Iterator[ApiProxy]:
    """Run a proxy until the context ends."""
    proxy = ApiProxy(plane)
    thread = threading.Thread(target=proxy.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        with proxy.cut():
            proxy.server.shutdown()
            thread.join()
            proxy.server.server_close()
            proxy.upstream.close()
