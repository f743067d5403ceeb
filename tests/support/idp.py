"""An identity provider on loopback that does as it is told, and tokens of every kind."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs

import httpx2
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from payrec.errors import PayrecError
from payrec.services.claims import Claims
from payrec.services.verification import JwksVerifier, TokenVerifier

ISSUER = "http://issuer.test/realms/payrec"
AUDIENCE = "payrec"
TENANT = "01920000-0000-7000-8000-000000000001"
USER = "01920000-0000-7000-8000-000000000002"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

PrivateKey = RSAKey | ECKey | OctKey
Result = TypeVar("Result")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, **period: float) -> None:
        self.now += timedelta(**period)


@functools.cache
def rsa_key(name: str) -> RSAKey:
    """Return the RSA key of that name, always the same one; its kid is the name."""
    return RSAKey.generate_key(2048, {"kid": name})


@functools.cache
def tls() -> ssl.SSLContext:
    """Return one context for all clients: making one takes longer than most tests, and nothing here speaks TLS."""
    return ssl.create_default_context()


@functools.cache
def ec_key(name: str, curve: str = "P-256") -> ECKey:
    return ECKey.generate_key(curve, {"kid": name})


def public_jwk(key: RSAKey | ECKey, **members: Any) -> dict[str, Any]:
    """Return a public key as a provider publishes it; a member None is left out."""
    jwk = {**key.as_dict(private=False), "use": "sig", **members}
    return {name: value for name, value in jwk.items() if value is not None}


def claims(now: datetime = NOW, **changes: Any) -> dict[str, Any]:
    """Return the claims of an access token as Keycloak makes it; a change None leaves the claim out."""
    issued_at = int(now.timestamp())
    document = {
        "iss": ISSUER,
        "aud": ["account", AUDIENCE],
        "azp": "web",
        "sub": "subject-1",
        "typ": "Bearer",
        "iat": issued_at,
        "exp": issued_at + 300,
        "jti": "1",
        "preferred_username": "ada",
        "tenant_id": TENANT,
        "environment": ["production", "test"],
        "user_id": USER,
        "roles": ["operator"],
        "permissions": ["read", "write"],
        **changes,
    }
    return {name: value for name, value in document.items() if value is not None}


def sign(
    key: PrivateKey,
    payload: Mapping[str, Any] | bytes | None = None,
    *,
    alg: str = "RS256",
    kid: str | None = "",
    header: Mapping[str, Any] | None = None,
) -> str:
    """Sign claims; the kid is the key's unless another one, or None for no kid at all, is given."""
    named = {"kid": key.kid if kid == "" else kid} if kid is not None else {}
    text = payload if isinstance(payload, bytes) else json.dumps(claims() if payload is None else payload)
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    registry.max_header_length = 100_000
    return jws.serialize_compact({"alg": alg, "typ": "JWT", **named, **(header or {})}, text, key, registry=registry)


def encode(part: bytes | Mapping[str, Any]) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def assembled(header: bytes | Mapping[str, Any], payload: bytes | Mapping[str, Any], signature: bytes = b"") -> str:
    """Put a token together that no library would make."""
    return ".".join((encode(header), encode(payload), encode(signature)))


@dataclass
class Reply:
    """What the provider answers at one path."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    drips: bool = False
    """A byte now and then."""
    hangs_up: bool = False
    """The connection is closed, and nothing said."""
    resets: bool = False
    """The connection is reset, and nothing said."""
    held: threading.Event | None = None
    """Nothing is said before this is set; what is said then was true when the request came."""


class FakeProvider:
    """The provider: ``replies`` by path, after those ``in_turn``; ``requests`` counted by path, forms in ``forms``."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.replies: dict[str, Reply] = {}
        self.in_turn: dict[str, list[Reply]] = {}
        self.requests: Counter[str] = Counter()
        self.forms: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def publish(self, *keys: RSAKey | ECKey | dict[str, Any]) -> None:
        """Publish these keys from now on."""
        jwks = [key if isinstance(key, dict) else public_jwk(key) for key in keys]
        self.answer("/jwks", {"keys": jwks})

    def answer(self, path: str, content: Mapping[str, Any] | Sequence[Any] | bytes, status: int = 200) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.replies[path] = Reply(body, status)

    def describe(self, issuer: str | None = None, **changes: Any) -> None:
        """Serve discovery for an issuer, which is this server unless another one is named."""
        document = {"issuer": issuer or self.url, "jwks_uri": self.jwks_url, "token_endpoint": self.token_url}
        self.answer("/.well-known/openid-configuration", {**document, **changes})

    def fail(self, path: str = "/jwks", status: int = 503) -> None:
        self.answer(path, b"down", status)

    def hang(self, path: str = "/jwks") -> None:
        self.replies[path] = Reply(b"", hangs=True)

    def redirect(self, path: str, location: str) -> None:
        self.replies[path] = Reply(b"", 302, {"Location": location})

    def stop(self) -> None:
        """Refuse connections from now on."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    provider: FakeProvider
    protocol_version = "HTTP/1.0"

    def _reply(self) -> None:
        provider = self.server.provider  # type: ignore[attr-defined]
        provider.requests[self.path] += 1
        provider.headers.append({name.lower(): value for name, value in self.headers.items()})
        turns = provider.in_turn.get(self.path)
        reply = turns.pop(0) if turns else provider.replies.get(self.path, Reply(b"", 404))
        if reply.held is not None:
            reply.held.wait(10)
        if reply.resets:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        if reply.hangs:
            provider.released.wait(10)
        if reply.resets or reply.hangs or reply.hangs_up:
            return
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        pieces = [bytes([byte]) for byte in reply.body] if reply.drips else [reply.body]
        for piece in pieces:
            self.wfile.write(piece)
            if reply.drips and provider.released.wait(0.05):
                return

    do_GET = _reply  # noqa: N815 - the name that the standard library calls

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.provider.forms.append(parse_qs(body))  # type: ignore[attr-defined]
        self._reply()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    provider: FakeProvider

    def handle_error(self, *_: object) -> None:
        """A client that hangs up early is what some tests are about."""


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    """Run a provider that publishes the RSA key ``first``."""
    server = _Server(("127.0.0.1", 0), _Handler)
    provider = server.provider = FakeProvider(server)
    provider.publish(rsa_key("first"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.stop()
        thread.join(5)


@asynccontextmanager
async def verifier_of(provider: FakeProvider, clock: Clock, **changes: Any) -> AsyncIterator[JwksVerifier]:
    """Make a verifier whose client, by itself, would follow redirects and wait for ever: that must not matter."""
    async with httpx2.AsyncClient(follow_redirects=True, timeout=None, trust_env=False, verify=tls()) as http:
        arguments = {"issuer": ISSUER, "jwks_url": provider.jwks_url, "timeout_seconds": 5.0, **changes}
        verifier = JwksVerifier(audience=AUDIENCE, http=http, clock=clock, **arguments)
        try:
            yield verifier
        finally:
            await verifier.aclose()


def with_verifier(
    provider: FakeProvider, use: Callable[[JwksVerifier, Clock], Awaitable[Result]], **changes: Any
) -> Result:
    """Run a scenario with a new verifier and a clock that it may move."""

    async def main() -> Result:
        clock = Clock()
        async with verifier_of(provider, clock, **changes) as verifier:
            return await use(verifier, clock)

    return asyncio.run(main())


async def outcome(verifier: JwksVerifier | TokenVerifier, token: str) -> Claims | type[PayrecError]:
    """Return the claims, or the type of the error."""
    try:
        return await verifier.verify(token)
    except PayrecError as error:
        return type(error)


def verify(provider: FakeProvider, *tokens: str, **changes: Any) -> list[Claims | type[PayrecError]]:
    """Return the outcome of each token under one new verifier."""

    async def use(verifier: JwksVerifier, _: Clock) -> list[Claims | type[PayrecError]]:
        return [await outcome(verifier, token) for token in tokens]

    return with_verifier(provider, use, **changes)
