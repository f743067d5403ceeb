"""Where an identity provider is and what it offers, as it says so itself (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import structlog

from payrec.constants import (
    PROVIDER_METADATA_COOL_DOWN,
    PROVIDER_METADATA_FRESH,
    PROVIDER_RESPONSE_BYTES_MAX,
    PROVIDER_TIMEOUT_SECONDS,
)
from payrec.errors import IdentityProviderUnavailableError
from payrec.services.strict_json import strict_json

FAILURES: Final = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, TimeoutError, ValueError)
"""What an exchange with the provider fails of: the connection, the time, or an answer that is none."""

UNPACKED: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}
"""Headers of every request: a compressed answer could grow in our memory."""

logger = structlog.get_logger(__name__)


def unavailable(reason: str, **facts: str) -> IdentityProviderUnavailableError:
    """Log why the provider cannot be used, and return the error, which does not tell it."""
    logger.warning("identity_provider_unavailable", reason=reason, **facts)
    return IdentityProviderUnavailableError()


async def fetch_json(
    http: httpx2.AsyncClient, url: str, *, timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS
) -> dict[str, Any]:
    """Read a JSON object from the identity provider: 200, not redirected, whole in time, at most 1 MiB, not compressed.

    :raises IdentityProviderUnavailableError: when it is anything else
    """
    body = bytearray()
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            http.stream("GET", url, headers=UNPACKED, follow_redirects=False, timeout=timeout_seconds) as response,
        ):
            if response.status_code != HTTPStatus.OK:
                raise unavailable("status", url=url, status=str(response.status_code))
            # Raw bytes: a compressed answer, which we did not ask for, must not grow in our memory.
            async for part in response.aiter_raw():
                body += part
                if len(body) > PROVIDER_RESPONSE_BYTES_MAX:
                    raise unavailable("too_large", url=url)
        return strict_json(bytes(body))
    except FAILURES as error:
        raise unavailable(type(error).__name__, url=url) from error


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """What is used of OpenID Connect Discovery 1.0, section 3."""

    issuer: str
    jwks_uri: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    """Where people sign in, of a provider that takes S256 challenges (RFC 7636); None of every other one."""
    end_session_endpoint: str | None = None
    """Where people sign out (OpenID Connect RP-Initiated Logout 1.0); None of a provider that offers it not."""
    names_issuer: bool = False
    """Its answers to a sign-in say whose they are (RFC 9207)."""


class ProviderDiscovery:
    """The provider's ``/.well-known/openid-configuration``, read when first needed, then once an hour.

    When it cannot be read again, the addresses that were read before stay in use.
    """

    def __init__(
        self,
        *,
        issuer: str,
        http: httpx2.AsyncClient,
        clock: Callable[[], datetime],
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
    ) -> None:
        self._issuer = issuer
        self._url = issuer.rstrip("/") + "/.well-known/openid-configuration"
        self._http = http
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._lock = asyncio.Lock()
        self._metadata: ProviderMetadata | None = None
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None

    async def metadata(self) -> ProviderMetadata:
        """Return the addresses of the provider.

        :raises IdentityProviderUnavailableError: when they were never read, and cannot be now
        """
        if self._metadata is not None and self._within(self._read_at, PROVIDER_METADATA_FRESH):
            return self._metadata
        async with self._lock:  # one asks, the others wait for its answer
            if not self._within(self._tried_at, PROVIDER_METADATA_COOL_DOWN):
                await self._read()
        if self._metadata is None:
            raise IdentityProviderUnavailableError
        return self._metadata

    async def _read(self) -> None:
        try:
            document = await fetch_json(self._http, self._url, timeout_seconds=self._timeout_seconds)
            self._metadata = self._checked(document)
            self._read_at = self._clock()
        except IdentityProviderUnavailableError:
            if self._metadata is None:
                raise
        finally:
            self._tried_at = self._clock()

    def _checked(self, document: dict[str, Any]) -> ProviderMetadata:
        # Section 4.3: the issuer has to be exactly the one that was asked, or one provider could pose as another.
        if document.get("issuer") != self._issuer:
            raise unavailable("other_issuer", url=self._url)
        methods = document.get("code_challenge_methods_supported")
        takes_codes = isinstance(methods, list) and "S256" in methods and "authorization_endpoint" in document
        return ProviderMetadata(
            issuer=self._issuer,
            jwks_uri=self._address(document, "jwks_uri"),
            token_endpoint=self._address(document, "token_endpoint"),
            authorization_endpoint=self._address(document, "authorization_endpoint") if takes_codes else None,
            end_session_endpoint=self._offered(document, "end_session_endpoint"),
            names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        )

    def _address(self, document: dict[str, Any], name: str) -> str:
        address = self._offered(document, name)
        if address is None:
            raise unavailable("metadata", url=self._url, member=name)
        return address

    def _offered(self, document: dict[str, Any], name: str) -> str | None:
        """Return an address that can be done without, None where it is not a good one."""
        address = document.get(name)
        allowed = {"https"} if self._issuer.startswith("https:") else {"https", "http"}
        try:
            parts = urlsplit(address) if isinstance(address, str) else None
        except ValueError:
            return None
        return address if parts is not None and parts.scheme in allowed and parts.netloc else None

    def _within(self, instant: datetime | None, period: timedelta) -> bool:
        return instant is not None and timedelta(0) <= self._clock() - instant < period
