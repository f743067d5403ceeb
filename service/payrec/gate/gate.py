"""The gate: what happens to a request before FastAPI sees it. Pure ASGI, nothing parsed before it is allowed.

In the order of the contract: sizes, route, credentials and tenant headers, permission, rate limits; then the body is
read, capped, and parsed strictly. The gate also names the request, times it, and renders what it refuses.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from payrec.constants import API_VERSION, HEADER_BYTES_MAX, IDEMPOTENCY_KEY_LENGTH_MAX
from payrec.domain.caller import Caller, IdempotentRequest
from payrec.domain.principal import ANONYMOUS, Principal
from payrec.domain.scope import TenantScope
from payrec.errors import (
    HeaderTooLargeError,
    InvalidIdempotencyKeyError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    PayrecError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from payrec.factory import Factory
from payrec.gate.console import ConsoleDoor, check_passable
from payrec.gate.room import Held, Room
from payrec.gate.routes import Access, Body, Route, RouteTable
from payrec.gate.streams import Incoming, Watch, capped, declared_length, read_all, replayed
from payrec.gate.strict_json import parse_json, parsed_bytes
from payrec.metrics import Metrics
from payrec.problems import problem_response
from payrec.services.authentication import Admission, Credentials
from payrec.shares import TenantShares

CLIENT_CLOSED_REQUEST: Final = 499
"""Status in the log of a request whose client has gone (nginx writes the same); nobody receives it."""

BODIES_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of JSON and forms that a process holds in memory, with what is made of them; a tenant half of them, which is
three of the largest of ordinary items. A body that takes more by itself is too large."""

LARGE_BYTES_MIN: Final = 256 * 1024
"""Bytes of JSON, with what is made of them, from which a request has to wait for its turn and is parsed in a thread."""

LARGE_AT_ONCE: Final = 2
"""Such requests of one tenant that are worked on at the same time: thousands of items take seconds of the processor."""

LARGE_SECONDS_MAX: Final = 60.0
"""How long such a request waits for those before it."""

FILES_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Bytes of uploads that a process holds on disk; a tenant half of them, which is two of the largest. Less than
``api.tmpSizeLimit`` of the chart, beyond which a pod is evicted with everybody's requests."""

FILE_BYTES_LEAST: Final = 8 * 1024 * 1024
"""What an upload counts as at least, because each takes memory and a file."""

_ENDED: Final = "the process that worked on the request has ended"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_IDEMPOTENCY_KEY: Final = re.compile(rf"[\x21-\x7e]{{1,{IDEMPOTENCY_KEY_LENGTH_MAX}}}", re.ASCII)
_SENSITIVE: Final = frozenset(
    {"x-api-key", "authorization", "x-tenant-id", "x-environment", "idempotency-key", "content-type"}
)


Refused = Callable[[PayrecError, Scope], Response]
"""Makes the answer to a request that is refused."""


def _problem(error: PayrecError, scope: Scope) -> Response:
    return problem_response(error, request_id=scope["state"]["request_id"])


class Gate:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, *, factory: Factory, metrics: Metrics, refused: Refused = _problem) -> None:
        self._app = app
        self._factory = factory
        self._metrics = metrics
        self._refused = refused
        self._routes = RouteTable()
        self._bodies, self._files = Room(BODIES_BYTES_MAX), Room(FILES_BYTES_MAX, least=FILE_BYTES_LEAST)
        self._turns = TenantShares(LARGE_AT_ONCE)
        self._console = ConsoleDoor(factory)
        self._logger = structlog.get_logger("payrec.gate")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; lifespan and anything else goes straight through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else str(self._factory.context.ids.new())
        state: dict[str, Any] = {"request_id": request_id, "factory": self._factory}
        scope["state"] = state
        incoming = Incoming(receive, headers)
        watch = Watch(send, incoming, headers=((b"x-request-id", request_id.encode()), (b"api-version", API_VERSION)))
        began = self._factory.context.clock.monotonic()
        route: Route | None = None
        self._factory.context.database.share()
        self._factory.context.database.hurry()
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            entered = await self._console.entered(scope, headers, watch)
            if entered is not scope:
                scope, headers = entered, _headers(entered)
            route = self._find(scope, headers)
            check_passable(route, state)
            admitted = await self._admit(scope, headers, incoming, route, state, watch)
            # The server leaves the body of the answer to HEAD out; everything else about it is that of GET.
            asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            await self._app(asked, admitted, watch.send)
        except PayrecError as error:
            await self._refused(error, scope)(scope, receive, watch.send)
        except ClientDisconnect:
            watch.status = CLIENT_CLOSED_REQUEST
        except asyncio.CancelledError:
            # The process ends, and the server has waited for as long as it may. It would answer 500 and log a crash.
            if watch.started:
                raise
            incoming.left = 0  # nobody is left to take what still comes
            await self._refused(UnavailableError(_ENDED), scope)(scope, receive, watch.send)
        except Exception as error:
            # FastAPI answers and logs its own crashes, and raises them again; one of the gate is answered here.
            if watch.started and not watch.finished:
                raise
            if not watch.started:
                self._logger.error("request.crashed", exc_info=error)  # noqa: TRY400 - a field, not a message
                crashed = PayrecError("the request could not be completed")
                await self._refused(crashed, scope)(scope, receive, watch.send)
        finally:
            if incoming.held is not None:
                incoming.held.release()
            seconds = self._factory.context.clock.monotonic() - began
            path = route.path if route is not None else "unknown"
            self._metrics.observe_request(scope["method"], path, watch.status, seconds)
            self._logger.info(
                "request", method=scope["method"], route=path, status=watch.status, ms=round(seconds * 1000, 2)
            )

    def _find(self, scope: Scope, headers: Mapping[str, str]) -> Route:
        """Return the route, or raise what the size, the path or the method is refused for."""
        methods = self._routes.methods(scope["path"])
        wanted = "GET" if scope["method"] == "HEAD" else scope["method"]
        route = methods.get(wanted)
        # At an unknown path, what is too large everywhere is too large.
        known = [route] if route is not None else methods.values()
        limit = max(map(self._limit, known), default=self._factory.context.config.upload_max_bytes)
        if declared_length(headers) > limit:
            raise PayloadTooLargeError(f"the body may have at most {limit} bytes")
        if sum(len(k) + len(v) + 4 for k, v in scope["headers"]) > HEADER_BYTES_MAX:
            raise HeaderTooLargeError(f"the headers may have at most {HEADER_BYTES_MAX} bytes")
        if not methods:
            raise NotFoundError("there is nothing at this path")
        if route is None:
            raise MethodNotAllowedError([*methods, *(["HEAD"] if "GET" in methods else [])])
        return route

    def _limit(self, route: Route) -> int:
        if route.body is Body.UPLOAD:
            return min(route.body_bytes_max, self._factory.context.config.upload_max_bytes)
        return route.body_bytes_max

    async def _admit(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        incoming: Incoming,
        route: Route,
        state: dict[str, Any],
        watch: Watch,
    ) -> Receive:
        principal: Principal = ANONYMOUS
        tenant: TenantScope | None = None
        public = route.access is Access.PUBLIC or (
            route.access is Access.PUBLIC_IN_DEVELOPMENT and self._factory.context.config.is_development
        )
        if not public:
            principal, tenant = await self._authenticated(headers, route, state["request_id"], watch)
        room = self._files if route.body is Body.UPLOAD else self._bodies
        incoming.held = room.of(None if tenant is None else tenant.tenant_id)
        receive_capped = capped(incoming.receive, self._limit(route), incoming.held.add)
        body = b""
        if route.body in {Body.JSON, Body.FORM_OR_JSON, Body.FORM}:
            body = await read_all(receive_capped)
            _check_media_type(headers, route, has_body=bool(body))
            if body and "json" in _media_type(headers):
                state["json"] = await self._parsed(body, incoming.held)
            receive_capped = replayed(body, incoming.receive)
        elif route.body is Body.UPLOAD:
            _check_media_type(headers, route, has_body=True)
        state["caller"] = Caller(
            principal=principal,
            request_id=state["request_id"],
            scope=tenant,
            idempotency=self._idempotency(scope, headers, route, principal, tenant, body),
        )
        return receive_capped

    async def _parsed(self, body: bytes, held: Held) -> Any:
        """Return what is in a body of JSON; who sends many large ones keeps nobody else waiting."""
        takes = parsed_bytes(body)
        if len(body) + takes > BODIES_BYTES_MAX // 2:
            raise PayloadTooLargeError("the body has too many values")
        held.add(takes)
        if len(body) + takes < LARGE_BYTES_MIN:
            return parse_json(body)
        held.turn = await self._turns.taken(held.tenant_id, seconds=LARGE_SECONDS_MAX)
        return await asyncio.to_thread(parse_json, body)

    async def _authenticated(
        self, headers: Mapping[str, str], route: Route, request_id: str, watch: Watch
    ) -> tuple[Principal, TenantScope]:
        """Count how it ends."""
        kind, outcome = "unknown", "failed"
        try:
            principal, tenant = await self._authenticate(headers, route, request_id, watch)
            kind, outcome = principal.kind, "ok"
        except PayrecError as error:
            outcome = error.code
            raise
        finally:
            self._metrics.authentications.labels(principal=kind, outcome=outcome).inc()
        return principal, tenant

    async def _authenticate(
        self, headers: Mapping[str, str], route: Route, request_id: str, watch: Watch
    ) -> tuple[Principal, TenantScope]:
        """Return who asks and where; what is left of the rate limits goes into the answer, whatever it is."""
        credentials = Credentials(
            api_key=headers.get("x-api-key"),
            authorization=headers.get("authorization"),
            tenant_id=headers.get("x-tenant-id"),
            environment=headers.get("x-environment"),
        )
        authenticator, limits = self._factory.authenticator, self._factory.request_limits
        identified = await authenticator.identify(credentials, request_id=request_id)
        principal = identified.principal
        usage = limits.begin(principal)
        try:
            admission = Admission(permissions=route.permissions, jwt_only=route.access is Access.JWT_ONLY)
            tenant = authenticator.admit(identified, credentials, admission)
            structlog.contextvars.bind_contextvars(
                tenant=tenant.slug, environment=tenant.environment, principal=principal.actor
            )
            limits.admit(usage, tenant, upload=route.body is Body.UPLOAD)
        finally:
            watch.add(usage.headers())
        return principal, tenant

    def _idempotency(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        route: Route,
        principal: Principal,
        tenant: TenantScope | None,
        body: bytes,
    ) -> IdempotentRequest | None:
        given = headers.get("idempotency-key")
        if given is None or not route.idempotent:
            return None
        if not _IDEMPOTENCY_KEY.fullmatch(given):
            raise InvalidIdempotencyKeyError(
                f"an Idempotency-Key has 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} visible ASCII characters"
            )
        who = principal.repeats_as
        if principal.kind == "anonymous":
            client = scope.get("client")
            who = f"anonymous:{client[0] if client else ''}"
        # The environment too: where a user of several works in the control schema, one key is still one for each.
        where = str(tenant.environment_id) if tenant is not None else ""
        key = hashlib.sha256("\x00".join((who, where, scope["method"], scope["path"], given)).encode()).digest()
        # Keyed, because the body may have a password, of which a plain hash would be worth a guess.
        content = scope.get("query_string", b"") + b"\x00" + body
        fingerprints = (hmac.digest(k, content, "sha256") for k in self._factory.fingerprint_keys)
        return IdempotentRequest(key=key, fingerprints=tuple(fingerprints))


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name. One that decides anything and comes twice is refused."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1")
        if name in found and name in _SENSITIVE:
            found[name] = ""
            continue
        found[name] = raw_value.decode("latin-1")
    return found


def _check_media_type(headers: Mapping[str, str], route: Route, *, has_body: bool) -> None:
    given = _media_type(headers)
    if not has_body and not given:
        return
    if given not in route.media_types:
        raise UnsupportedMediaTypeError(f"Content-Type must be one of {', '.join(route.media_types)}")


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
