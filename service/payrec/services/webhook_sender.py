"""Sends one message to one receiver, who may be anybody and do anything: hang, drip, lie, answer without end.

The address that is connected to is looked at when its socket is made, behind the look-up of the name: what a name said
before, or says to somebody else, does not count. No redirect is followed, no proxy asked, no cookie kept; of the answer
only the head decides, and a little of the body is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from payrec import __version__
from payrec.constants.events import (
    WEBHOOK_ATTEMPT_SECONDS,
    WEBHOOK_ATTEMPTS_AT_ONCE_ALL,
    WEBHOOK_BODY_SECONDS,
    WEBHOOK_CONNECT_SECONDS,
    WEBHOOK_LOOKUP_THREADS,
    WEBHOOK_LOOKUPS_OF_TENANT,
    WEBHOOK_RESPONSE_BYTES_MAX,
)
from payrec.domain.addresses import Destinations, UrlRefusedError, connected_address
from payrec.domain.caller import Clock
from payrec.domain.webhooks import SECRET_LOST, Answer, excerpt_of, retry_after_of, signatures
from payrec.shares import TenantShares

_LINE_BYTES_MAX: Final = 8 * 1024
"""Bytes of one header of an answer."""
_HEADERS_MAX: Final = 64
"""Headers of an answer."""
_URLS_REMEMBERED_MAX: Final = 10_000
"""Addresses that were looked at and need not be again: what they say does not change, and sockets are looked at."""
_KEEP_ALIVE_SECONDS: Final = 4.0
"""How long a connection may rest; most servers close theirs after five seconds, and must not do so under a message."""
_AddressInfo = tuple[Any, Any, int, str, Any]

_TENANT_ID: Final[ContextVar[UUID]] = ContextVar("tenant_id")
"""Whose receiver is looked up: the library, which asks for the addresses, knows nothing of tenants."""


class AddressRefusedError(OSError):
    """A connection to an address that nothing is sent to."""


class _Resolver(AbstractResolver):
    """Looks names up in threads of its own: a resolver that hangs keeps nothing else of the process waiting.

    Nor do names of one tenant, whose servers may never answer, keep those of others.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(WEBHOOK_LOOKUP_THREADS, thread_name_prefix="webhook-names")
        self._shares = TenantShares(WEBHOOK_LOOKUPS_OF_TENANT)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name."""
        loop = asyncio.get_running_loop()
        async with self._shares.of(_TENANT_ID.get()):
            found = await loop.run_in_executor(self._threads, self._look_up, host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    @staticmethod
    def _look_up(host: str, port: int, family: int) -> Sequence[_AddressInfo]:
        return socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)

    async def close(self) -> None:
        """Take no more names."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class WebhookSender:
    """Sends messages; open it as a context."""

    def __init__(self, *, destinations: Destinations, clock: Clock) -> None:
        self._destinations = destinations
        self._clock = clock
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._schemes: dict[str, str] = {}
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        # Reading the certificates of all authorities takes a tenth of a second.
        tls = await asyncio.to_thread(ssl.create_default_context)
        resolver = _Resolver()
        self._stack.push_async_callback(resolver.close)
        for scheme in ("https", "http"):
            session = self._session(scheme, tls=tls, resolver=resolver)
            self._sessions[scheme] = await self._stack.enter_async_context(session)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def send(self, url: str, *, tenant_id: UUID, message_id: UUID, body: bytes, keys: Sequence[bytes]) -> Answer:
        """Send a message of a tenant, signed with all keys; whatever goes wrong is in the answer.

        Without a key nothing is sent: no receiver could tell whose it is.
        """
        if not keys:
            return Answer(error=SECRET_LOST)
        _TENANT_ID.set(tenant_id)
        began = self._clock.monotonic()
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"payrec/{__version__}",
            "webhook-id": str(message_id),
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(keys, message_id=str(message_id), timestamp=timestamp, body=body),
        }
        try:
            session = self._sessions[self._scheme(url)]
            async with (
                asyncio.timeout(WEBHOOK_ATTEMPT_SECONDS + WEBHOOK_BODY_SECONDS),
                session.post(url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                status, retry_after = response.status, response.headers.get("Retry-After")
                duration_ms = self._since(began)
                excerpt = excerpt_of(await _beginning(response))
        except UrlRefusedError as refused:
            return Answer(error=refused.code, duration_ms=self._since(began))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return Answer(error=_code_of(error), duration_ms=self._since(began))
        return Answer(
            status=status,
            excerpt=excerpt,
            retry_after=retry_after_of(retry_after, now=self._clock.now()) if retry_after is not None else None,
            duration_ms=duration_ms,
        )

    def _scheme(self, url: str) -> str:
        """Return by which scheme to send, after a look at the address, once for each.

        Raises
        ------
        UrlRefusedError
        """
        found = self._schemes.get(url)
        if found is None:
            self._destinations.check_url(url)
            if len(self._schemes) >= _URLS_REMEMBERED_MAX:
                self._schemes.clear()
            found = self._schemes[url] = url.partition(":")[0].lower()
        return found

    def _since(self, began: float) -> int:
        return round((self._clock.monotonic() - began) * 1000)

    def _session(self, scheme: str, *, tls: ssl.SSLContext, resolver: _Resolver) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=resolver,
            limit=WEBHOOK_ATTEMPTS_AT_ONCE_ALL,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            ssl=tls,
            socket_factory=lambda info: self._socket(info, is_encrypted=scheme == "https"),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            read_bufsize=WEBHOOK_RESPONSE_BYTES_MAX,
            max_line_size=_LINE_BYTES_MAX,
            max_field_size=_LINE_BYTES_MAX,
            max_headers=_HEADERS_MAX,
            timeout=aiohttp.ClientTimeout(total=WEBHOOK_ATTEMPT_SECONDS, sock_connect=WEBHOOK_CONNECT_SECONDS),
        )

    def _socket(self, info: _AddressInfo, *, is_encrypted: bool) -> socket.socket:
        """Make the socket of a connection, if its address may be connected to."""
        family, kind, protocol, _, sockaddr = info
        address = connected_address(family, sockaddr)
        if address is None or not self._destinations.admits(address, is_encrypted=is_encrypted):
            raise AddressRefusedError("nothing is sent to this address")
        return socket.socket(family, kind, protocol)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """Return the first bytes of the body, as far as they come soon; the rest is cut off with its connection."""
    found = bytearray()
    if response.content.at_eof():
        return b""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(WEBHOOK_BODY_SECONDS):
            while len(found) < WEBHOOK_RESPONSE_BYTES_MAX and not response.content.at_eof():
                found += await response.content.read(WEBHOOK_RESPONSE_BYTES_MAX - len(found))
    if not response.content.at_eof():
        response.close()
    return bytes(found)


def _code_of(error: BaseException) -> str:
    """Return why there was no answer, as one of a few codes: texts of libraries may quote what was sent."""
    causes = [error, error.__cause__, error.__context__, getattr(error, "os_error", None)]
    for kinds, code in _CODES:
        if any(isinstance(cause, kinds) for cause in causes):
            return code
    return "connection_failed"


_CODES: Final[tuple[tuple[tuple[type[BaseException], ...], str], ...]] = (
    ((AddressRefusedError,), "address_refused"),
    ((TimeoutError, aiohttp.ServerTimeoutError), "timeout"),
    ((ssl.SSLError, ssl.CertificateError, aiohttp.ClientSSLError), "tls_failed"),
    ((socket.gaierror, aiohttp.ClientConnectorDNSError), "name_not_found"),
    ((ConnectionRefusedError,), "connection_refused"),
    ((aiohttp.ServerDisconnectedError, ConnectionResetError), "connection_closed"),
    ((aiohttp.ClientResponseError, aiohttp.ClientPayloadError), "answer_malformed"),
)
