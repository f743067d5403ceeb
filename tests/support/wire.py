"""What goes over the wire and what is behind it: problems, raw requests, tokens of any claims, and rows to look at."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID, uuid4

import httpx2
import structlog
from joserfc import jws

from payrec.domain.caller import Caller
from payrec.domain.principal import ENVIRONMENTS, Principal
from payrec.embedded.identity import DatabaseIdentityStore
from payrec.embedded.idp_keys import SIGNING_ALGORITHM, SigningKeys
from payrec.services.users import NewUser
from payrec.storage.tenants import TenantStore, scope_of
from support.service import Service, Tenant

T = TypeVar("T")

MEMBERS = {"type", "title", "status", "code", "detail", "requestId"}
COMMAND_LINE = Caller(principal=Principal(kind="system", name="test"), request_id="test")


def problem(response: httpx2.Response | RawResponse) -> dict[str, Any]:
    """Return a problem after its shape was looked at."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert set(body) >= MEMBERS
    assert body["status"] == response.status_code
    assert body["type"] == "/problems/" + body["code"].replace("_", "-")
    assert body["requestId"] == response.headers["x-request-id"] != ""
    assert response.headers["api-version"] == "1"
    assert all(set(error) == {"pointer", "code", "detail"} for error in body.get("errors", ()))
    return dict(body)


def code(response: httpx2.Response | RawResponse) -> str:
    """Return the code of a problem, and look at its shape."""
    return str(problem(response)["code"])


def fields(response: httpx2.Response) -> set[tuple[str, str]]:
    """Return pointer and code of each field of a failed validation."""
    return {(error["pointer"], error["code"]) for error in problem(response)["errors"]}


@dataclass(frozen=True, kw_only=True)
class RawResponse:
    """An answer that was read from a socket."""

    status_code: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        """Return the body's document."""
        return json.loads(self.text)


async def read_response(reader: asyncio.StreamReader) -> RawResponse:
    """Read one answer that has a Content-Length."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
    body = await asyncio.wait_for(reader.readexactly(int(headers.get("content-length", "0"))), 10)
    return RawResponse(status_code=int(head[0].split(" ")[1]), headers=headers, text=body.decode())


@asynccontextmanager
async def connected(service: Service) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection to the service."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.factory.context.config.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def request_head(method: str, path: str, headers: dict[str, str]) -> bytes:
    """Return the head of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def send_raw(service: Service, data: bytes) -> RawResponse:
    """Send bytes as they are, and read one answer."""
    async with connected(service) as (reader, writer):
        writer.write(data)
        return await read_response(reader)


async def signed(service: Service, tenant: str, user: str, /, **claims: Any) -> str:
    """Return a token of the embedded identity provider with claims of the test's own; None leaves a claim out."""
    factory = service.factory
    config = factory.context.config
    keys = SigningKeys(
        store=DatabaseIdentityStore(factory.context.database),
        encryption_key=config.encryption_key.get_secret_value().encode(),
        clock=factory.context.clock.now,
    )
    key = await keys.active()
    now = int(time.time())
    document = {
        "iss": factory.issuer,
        "aud": config.idp_audience,
        "sub": user,
        "exp": now + 300,
        "iat": now,
        "typ": "Bearer",
        "tenant_id": tenant,
        "environment": list(ENVIRONMENTS),
        "user_id": user,
        **claims,
    }
    document = {k: v for k, v in document.items() if v is not None}
    header = {"alg": SIGNING_ALGORITHM, "kid": key.kid, "typ": "JWT"}
    registry = jws.JWSRegistry(algorithms=[SIGNING_ALGORITHM])
    return jws.serialize_compact(header, json.dumps(document), key.key, registry=registry)


async def add_user(
    service: Service, tenant: Tenant, *roles: str, environments: tuple[str, ...] = ENVIRONMENTS
) -> tuple[str, Tenant]:
    """Add a user and return its name, and the tenant as this user sees it."""
    user_id = uuid4()
    name = f"user-{user_id}"
    user = NewUser(
        username=name, roles=list(roles), environments=list(environments), subject=str(user_id), user_id=user_id
    )
    await service.factory.create_user_service().add(COMMAND_LINE, UUID(tenant.id), user)
    token = await signed(service, tenant.id, str(user_id), preferred_username=name)
    return name, Tenant(id=tenant.id, slug=tenant.slug, token=token, base_url=tenant.base_url, http=tenant.http)


async def add_key(tenant: Tenant, environment: str = "production", **given: Any) -> dict[str, Any]:
    """Create an API key over HTTP and return the answer."""
    created = await tenant.post("/auth/api-keys", {"read": True, "write": True, **given}, environment)
    assert created.status_code == 201, created.text
    return dict(created.json())


async def ask(tenant: Tenant, method: str, path: str, headers: dict[str, str], **options: Any) -> httpx2.Response:
    """Send a request with exactly these headers."""
    return await tenant.http.request(method, tenant.base_url + path, headers=headers, **options)


async def in_control(service: Service, statement: str, *parameters: Any) -> None:
    """Change rows of the control schema behind the service's back."""
    async with service.factory.context.database.control() as connection:
        await connection.execute(statement, parameters)  # type: ignore[arg-type]


async def rows(service: Service, tenant: Tenant, query: str, environment: str = "production") -> list[dict[str, Any]]:
    """Return rows of a tenant environment."""
    database = service.factory.context.database
    async with database.control(readonly=True) as connection:
        scopes = [scope_of(row) for row in await TenantStore(connection).scopes(UUID(tenant.id))]
    scope = next(s for s in scopes if s.environment == environment)
    async with database.tenant(scope) as connection:
        cursor = await connection.execute(query)  # type: ignore[arg-type]
        return await cursor.fetchall() if cursor.description else []


@contextmanager
def plain_tracebacks() -> Iterator[None]:
    """Write tracebacks as the service does; the pretty ones of the library's default take seconds."""
    before = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, renderer])
    try:
        yield
    finally:
        structlog.configure(processors=before)


async def until(probe: Callable[[], Awaitable[T | None]], *, seconds: float = 30.0) -> T:
    """Ask again and again until the probe returns something, or fail at the deadline."""
    async with asyncio.timeout(seconds):
        while True:
            found = await probe()
            if found is not None:
                return found
            await asyncio.sleep(0.02)


async def count(service: Service, tenant: Tenant, table: str, environment: str = "production") -> int:
    """Count the rows of a table of a tenant environment."""
    found = await rows(service, tenant, f"SELECT count(*) AS n FROM {table}", environment)  # noqa: S608 - a test's own
    return int(found[0]["n"])
