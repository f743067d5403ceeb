"""What holds for any request: one answer, never a 5xx but for the database that is not there, and nothing echoed.

The whole application stands behind the gate, with real keys and tokens. Of the database there is only what
authentication reads; every other door is closed, so whatever gets so far is answered with 503.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NoReturn, cast
from urllib.parse import unquote_to_bytes
from uuid import UUID

import structlog
from starlette.types import ASGIApp, Message

from fuzz.values import AUDIENCE, ISSUER, NOW, SECRET, signed
from payrec.config import Config
from payrec.domain import keys
from payrec.errors import UnavailableError
from payrec.factory import Factory, create_context
from payrec.main import create_app
from payrec.services.authentication import Authenticator
from payrec.services.verification import SymmetricVerifier, TokenVerifier
from payrec.storage.database import Database

TENANT: Final = UUID(int=1)
USER: Final = UUID(int=5)
PEPPER: Final = b"the pepper of the keys of the fuzzer"

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_METHODS: Final = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})


@cache
def api_key() -> keys.ApiKeyValue:
    """Return the one key that exists."""
    return keys.generate(lambda count: bytes(range(count)))


def token() -> str:
    """Return a good token of the one user that exists."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(NOW.timestamp()) + 300,
        "sub": "subject",
        "user_id": str(USER),
        "tenant_id": str(TENANT),
        "environment": ["production"],
        "roles": ["admin"],
    }
    return signed(b'{"alg":"HS256","typ":"JWT"}', json.dumps(claims).encode())


PLACEHOLDERS: Final = {
    b"{key}": lambda: api_key().text.encode(),  # noqa: PLW0108 - the key is made when it is needed
    b"{token}": lambda: token().encode(),
    b"{tenant}": lambda: str(TENANT).encode(),
}
"""What a case says for credentials, which no file of a corpus has."""


@dataclass(frozen=True)
class _Rows:
    rows: list[dict[str, Any]]

    async def fetchone(self) -> dict[str, Any] | None:
        return self.rows[0] if self.rows else None


@dataclass(frozen=True)
class _Tables:
    """The connection of the authentication door."""

    place: dict[str, Any] = field(
        default_factory=lambda: {
            "tenant_id": TENANT, "slug": "acme", "tenant_name": "Acme", "tenant_status": "active", "timezone": "UTC",
            "locale": "en", "auto_run": False, "reject_duplicates": False, "approval": None,
            "environment_id": UUID(int=2), "environment": "production", "schema_name": "acme_production",
            "role_name": "acme", "environment_status": "active", "revision": "1",
        }
    )  # fmt: skip

    async def execute(self, _query: Any, parameters: Mapping[str, Any]) -> _Rows:
        # The driver writes a text as UTF-8, and the server has no NUL.
        for value in parameters.values():
            if isinstance(value, str):
                assert b"\0" not in value.encode()
        if "public_id" in parameters:
            key = {
                "id": UUID(int=6), "public_id": api_key().public_id, "key_environment": "production", "name": "key",
                "digest": keys.digest(api_key(), PEPPER), "read": True, "write": True, "expires_at": None,
                "revoked_at": None,
                "resource_key": None, "created_by": "user:1",
            }  # fmt: skip
            return _Rows([{**key, **self.place}] if parameters["public_id"] == api_key().public_id else [])
        user = {
            "id": USER, "subject": "subject", "username": "user", "roles": ["admin"],
            "environments": ["production"], "status": "active",
        }  # fmt: skip
        return _Rows([{**user, **self.place}] if parameters["user_id"] == USER else [])


class _Doors:
    """A database of which only the door of authentication opens."""

    share = staticmethod(Database.share)
    hurry = staticmethod(Database.hurry)

    @asynccontextmanager
    async def authentication(self) -> AsyncIterator[_Tables]:
        yield _Tables()

    def __getattr__(self, _door: str) -> NoReturn:
        raise UnavailableError("the database is not there")


class _NoKeys:
    """An identity provider that has published nothing."""

    async def verify(self, _token: str) -> NoReturn:
        raise UnavailableError("the identity provider is not there")


@dataclass(frozen=True)
class _Clock:
    def now(self) -> Any:
        return NOW

    def monotonic(self) -> float:
        return 0.0


@cache
def application() -> ASGIApp:
    """Return the application, made once."""
    structlog.configure(processors=[_dropped])
    config = Config(
        database_url="postgresql://nobody@127.0.0.1:1/nothing",
        api_key_pepper=PEPPER.decode(),
        encryption_key=SECRET,
        idp_issuer_url="https://idp.example",
        idp_client_secret=SECRET,
        rate_limit_principal_per_second=0,
        rate_limit_tenant_per_second=0,
        rate_limit_uploads_per_minute=0,
    )
    context = create_context(config)
    context.clock = _Clock()
    database = cast("Database", _Doors())
    factory = Factory(context)
    app = create_app(factory)
    context.database = database
    factory.authenticator = Authenticator(
        database=database,
        verifier=TokenVerifier(
            cast("Any", _NoKeys()),
            SymmetricVerifier(secret=SECRET, issuer=ISSUER, audience=AUDIENCE, clock=lambda: NOW),
        ),
        users=factory.create_user_service(),
        key_usage=factory.key_usage,
        clock=context.clock,
        peppers=(PEPPER,),
    )
    return app


def _dropped(_logger: Any, _name: str, _event: Any) -> NoReturn:
    raise structlog.DropEvent


def request_of(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Return what a server makes of a case, which is a request as it is sent; None where it would refuse it itself."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, target = first.partition(b" ")
    if method not in _METHODS or not target.startswith(b"/") or not target.isascii():
        return None
    path, _, query = target.partition(b"?")
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return None
    headers = []
    for line in lines:
        name, _, value = line.partition(b":")
        for placeholder, made in PLACEHOLDERS.items():
            value = value.replace(placeholder, made())
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            return None
        headers.append((name.lower(), value.strip(b" \t")))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method.decode(), "scheme": "http",
        "path": decoded, "raw_path": path, "query_string": query, "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    return scope, body


async def answered(scope: dict[str, Any], body: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and content of the one answer."""
    sent: list[Message] = []
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return {"type": "http.disconnect"}
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await application()(scope, receive, send)
    starts = [message for message in sent if message["type"] == "http.response.start"]
    assert len(starts) == 1, "not one answer"
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return starts[0]["status"], dict(starts[0]["headers"]), content


_RUNNER: Final = cache(asyncio.Runner)


def check_request(data: bytes) -> None:
    """Ask the application; the case is the request: a line, headers, a blank line and the body."""
    request = request_of(data)
    if request is None:
        return
    scope, body = request
    status, headers, content = _RUNNER().run(answered(scope, body))
    assert status < 500 or status == 503, content
    assert headers[b"api-version"] == b"1"
    if status >= 400 and not scope["path"].startswith("/console"):
        assert headers[b"content-type"] == b"application/problem+json"
        problem = json.loads(content)
        assert problem["status"] == status
        assert problem["requestId"].encode() == headers[b"x-request-id"]
    for secret in (api_key().secret, token().rpartition(".")[2]):
        assert secret.encode() not in content
    for name, value in headers.items():
        assert _TOKEN.fullmatch(name)
        assert _VALUE.fullmatch(value), "a header that ends early"
