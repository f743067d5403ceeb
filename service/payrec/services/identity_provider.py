"""The identity provider as a client sees it: the grants that end in an access token, and what leads to them.

Nothing here keeps a token: every grant gets an OAuth client of its own, so neither tokens nor cookies of one user can
come near the request of another. They share one transport, and with it the connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

import httpx2

# Authlib ships no type information, so what comes from it is checked at run time, in _inspect.
from authlib.integrations.httpx_client import AsyncOAuth2Client  # type: ignore[import-untyped]

from payrec.constants import ACCESS_TOKEN_LENGTH_MAX, PROVIDER_RESPONSE_BYTES_MAX, PROVIDER_TIMEOUT_SECONDS
from payrec.errors import ConfigurationError, IdentityProviderUnavailableError, InvalidCredentialsError
from payrec.services.provider_discovery import FAILURES, UNPACKED, ProviderDiscovery, unavailable
from payrec.services.strict_json import strict_json

_CLIENT_IS_REFUSED: Final = frozenset({"invalid_client", "unauthorized_client"})
_PASSING: Final = (httpx2.NetworkError, httpx2.TimeoutException, httpx2.HTTPStatusError, TimeoutError)
_PASSING_STATUSES: Final = frozenset(
    {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """An access token and the seconds that it lives."""

    access_token: str = field(repr=False)
    expires_in: int
    refresh_token: str | None = field(default=None, repr=False)
    """Only of an authorisation code and of a refresh token: what begins a session of the console, or prolongs it."""
    id_token: str | None = field(default=None, repr=False)
    """Of the same two, empty where the provider gave none; nobody is identified by it, and it is not verified."""


class IdentityProviderClient:
    """Exchanges for an access token: a username and password, a code, or a refresh token (RFC 6749, 4.3, 4.1.3, 6).

    The client authenticates with client_secret_basic: Authlib's client_secret_post fails on a password that is not
    ASCII. Give the token endpoint, or the discovery that finds it. ``transport`` is for tests and for a provider
    within the same process.
    """

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str,
        token_url: str | None = None,
        discovery: ProviderDiscovery | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
    ) -> None:
        if token_url is None and discovery is None:
            raise ConfigurationError("IDP_TOKEN_URL or IDP_ISSUER_URL is required")
        try:
            f"{client_id}:{client_secret}".encode("latin-1")
        except UnicodeEncodeError:
            raise ConfigurationError("IDP_CLIENT_ID and IDP_CLIENT_SECRET have characters beyond Latin-1") from None
        self._client_id = client_id
        self._client_secret = client_secret
        self._token_url = token_url
        self._discovery = discovery
        self._transport = transport or httpx2.AsyncHTTPTransport()
        self._timeout_seconds = timeout_seconds

    async def password_grant(self, username: str, password: str) -> TokenGrant:
        """Return an access token for the user.

        An exchange that got no answer, or 502, 503 or 504, is made once more; every other answer is final. The whole
        takes at most three times ``timeout_seconds``: discovery, if it is due, and two exchanges.

        :raises InvalidCredentialsError: the provider refuses the username or the password
        :raises IdentityProviderUnavailableError: everything else, also when the provider refuses our own client
        """
        if not username or not password or not _is_encodable(username + password):
            raise InvalidCredentialsError
        granted = await self._granted(again=True, grant_type="password", username=username, password=password)
        return replace(granted, refresh_token=None, id_token=None)

    async def code_grant(self, code: str, *, verifier: str, redirect_uri: str) -> TokenGrant:
        """Return what an authorisation code is worth, with its PKCE verifier; a code is asked about once.

        :raises InvalidCredentialsError: the provider refuses the code
        :raises IdentityProviderUnavailableError: everything else
        """
        return await self._granted(
            again=False,
            grant_type="authorization_code",
            code=code,
            code_verifier=verifier,
            redirect_uri=redirect_uri,
        )

    async def refresh_grant(self, refresh_token: str) -> TokenGrant:
        """Return a new access token for a refresh token; which the provider may have replaced by the one returned.

        :raises InvalidCredentialsError: the provider refuses the token
        :raises IdentityProviderUnavailableError: everything else
        """
        return await self._granted(again=False, grant_type="refresh_token", refresh_token=refresh_token)

    async def authorization_endpoint(self) -> str | None:
        """Return where people sign in at the provider; None where it offers no codes with PKCE.

        :raises IdentityProviderUnavailableError: it cannot be asked
        """
        if self._discovery is None:
            return None
        return (await self._discovery.metadata()).authorization_endpoint

    async def end_session_endpoint(self) -> str | None:
        """Return where people sign out at the provider; None where it offers that not.

        :raises IdentityProviderUnavailableError: it cannot be asked
        """
        if self._discovery is None:
            return None
        return (await self._discovery.metadata()).end_session_endpoint

    async def has_answered(self, issuer: str | None) -> bool:
        """Tell whether the answer to a sign-in is the provider's, by the ``iss`` that came with it (RFC 9207, 2.4).

        Otherwise a provider that somebody was lured to could have its code, or that of another one, exchanged at ours.
        One that says nothing is believed only where the provider does not promise to say it.

        :raises IdentityProviderUnavailableError: it cannot be asked
        """
        if self._discovery is None:
            return False
        known = await self._discovery.metadata()
        return not known.names_issuer if issuer is None else issuer == known.issuer

    @property
    def client_id(self) -> str:
        """Who we are at the provider."""
        return self._client_id

    async def _granted(self, *, again: bool, **form: str) -> TokenGrant:
        url = await self._endpoint()
        try:
            if again:
                with contextlib.suppress(*_PASSING):
                    return await self._exchange(url, form)
            return await self._exchange(url, form)
        # From None throughout: the cause holds the request, and with it the password.
        except httpx2.HTTPStatusError as error:
            raise unavailable("token_status", url=url, status=str(error.response.status_code)) from None
        except (*FAILURES, TypeError, OverflowError) as error:  # the last two: Authlib, on a strange expires_at
            raise unavailable(type(error).__name__, url=url) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _exchange(self, url: str, form: dict[str, str]) -> TokenGrant:
        client = AsyncOAuth2Client(
            client_id=self._client_id,
            client_secret=self._client_secret,
            token_endpoint_auth_method="client_secret_basic",  # noqa: S106 - the name of a method
            transport=_BoundedTransport(self._transport),
            headers=UNPACKED,
            timeout=self._timeout_seconds,
            follow_redirects=False,
            trust_env=False,  # the transport is given, and ~/.netrc must not add credentials
        )
        client.register_compliance_hook("access_token_response", _inspect)
        async with asyncio.timeout(self._timeout_seconds), client:
            token = await client.fetch_token(url, **form)
        refresh_token, id_token = token.get("refresh_token"), token.get("id_token")
        return TokenGrant(
            access_token=token["access_token"],
            expires_in=token["expires_in"],
            refresh_token=refresh_token if isinstance(refresh_token, str) else None,
            id_token=id_token if isinstance(id_token, str) and id_token.isascii() else "",
        )

    async def _endpoint(self) -> str:
        if self._token_url is not None:
            return self._token_url
        if self._discovery is None:  # the constructor made sure of it
            raise IdentityProviderUnavailableError
        return (await self._discovery.metadata()).token_endpoint


def _is_encodable(text: str) -> bool:
    """Tell whether the text is Unicode at all: JSON can carry half a surrogate pair, a form cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _inspect(response: httpx2.Response) -> httpx2.Response:
    """Look at a token response before Authlib does, which does not look at the status of a JSON answer."""
    if response.status_code in _PASSING_STATUSES:
        raise httpx2.HTTPStatusError("busy", request=response.request, response=response)
    try:
        document = strict_json(response.content)
    except ValueError:
        document = {}
    status, error = response.status_code, str(document.get("error"))
    if status == HTTPStatus.OK:
        _check_token(document)
        return response
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED} and error == "invalid_grant":
        raise InvalidCredentialsError
    # Keycloak answers 401 for a wrong password too; a refused client is our configuration, not the user's mistake.
    if status == HTTPStatus.UNAUTHORIZED and error not in _CLIENT_IS_REFUSED:
        raise InvalidCredentialsError
    raise unavailable("token_status", status=str(status), error=error[:64])


def _check_token(document: dict[str, Any]) -> None:
    """Make sure that the members of RFC 6749, section 5.1, are there and are what they must be."""
    token, lifetime, kind = (document.get(name) for name in ("access_token", "expires_in", "token_type"))
    if "error" in document or not isinstance(kind, str) or kind.lower() != "bearer":
        raise unavailable("token_type")
    if not isinstance(token, str) or not 0 < len(token) <= ACCESS_TOKEN_LENGTH_MAX or not token.isascii():
        raise unavailable("access_token")
    if not isinstance(lifetime, int) or isinstance(lifetime, bool) or not 0 < lifetime < 2**31:
        raise unavailable("expires_in")


class _BoundedStream(httpx2.AsyncByteStream):
    """A body that is cut off at the limit."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._inner:
            size += len(part)
            if size > PROVIDER_RESPONSE_BYTES_MAX:
                raise httpx2.DecodingError("the response is too large")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """The shared transport in the hands of one grant: bodies are bounded, and closing it closes nothing."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.RemoteProtocolError as error:  # hung up before it answered: a connection that was lost
            raise httpx2.ReadError(str(error)) from error
        stream = response.stream
        if response.headers.get("Content-Encoding", "identity") != "identity" or not isinstance(
            stream, httpx2.AsyncByteStream
        ):
            await response.aclose()
            raise httpx2.DecodingError("a compressed response was not asked for")
        return httpx2.Response(
            status_code=response.status_code,
            headers=response.headers,
            stream=_BoundedStream(stream),
            extensions=response.extensions,
        )
