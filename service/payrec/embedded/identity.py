"""A small OpenID Connect issuer for development and the demo, so that payrec needs nothing else to be tried.

Real where it counts: the service verifies these tokens as it verifies those of any provider, by discovery and key
set. It knows the password grant alone (RFC 6749, section 4.3), for one client, and gives neither refresh nor ID tokens.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, quote_plus

from fastapi import APIRouter
from joserfc import jws
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from payrec.constants import (
    EMBEDDED_FORM_BYTES_MAX,
    EMBEDDED_FORM_FIELDS_MAX,
    EMBEDDED_KEY_SET_MAX_AGE_SECONDS,
    EMBEDDED_TOKEN_LIFETIME,
    USERNAME_LENGTH_MAX,
)
from payrec.domain.principal import permissions_of
from payrec.embedded.idp_keys import SIGNING_ALGORITHM, SigningKeys, SigningKeyStore
from payrec.embedded.passwords import PasswordHasher
from payrec.storage.database import Connection
from payrec.storage.idp import IdpAccount, IdpStore, StoredSigningKey

_REGISTRY: Final = jws.JWSRegistry(algorithms=[SIGNING_ALGORITHM])
_NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="payrec", charset="UTF-8"'}


class IdentityStore(SigningKeyStore, Protocol):
    """Where logins and signing keys are; every call is a transaction of its own."""

    async def find_user(self, username: str) -> IdpAccount | None:
        """Return a login and what is known of its user."""


class ControlDoor(Protocol):
    """The door to the control schema, as the database has it."""

    def control(self, *, readonly: bool = False) -> AbstractAsyncContextManager[Connection]:
        """Open a transaction."""


class DatabaseIdentityStore:
    """Logins and signing keys in the control schema."""

    def __init__(self, database: ControlDoor) -> None:
        self._database = database

    async def find_user(self, username: str) -> IdpAccount | None:
        """Return a login and what is known of its user."""
        async with self._database.control(readonly=True) as connection:
            return await IdpStore(connection).find_user(username)

    async def signing_keys(self) -> list[StoredSigningKey]:
        """Return the active key first."""
        async with self._database.control(readonly=True) as connection:
            return await IdpStore(connection).signing_keys()

    async def insert_signing_key(self, key: StoredSigningKey) -> bool:
        """Store the key unless another one is active."""
        async with self._database.control() as connection:
            return await IdpStore(connection).insert_signing_key(key)


class OAuthRefusalError(Exception):
    """A refusal in the form of RFC 6749, section 5.2."""

    def __init__(self, error: str, description: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(description)
        self.error = error
        self.status = status

    def response(self) -> Response:
        """Return the refusal as it goes over the wire."""
        challenge = _CHALLENGE if self.status is HTTPStatus.UNAUTHORIZED else {}
        content = {"error": self.error, "error_description": str(self)}
        return JSONResponse(content, status_code=self.status, headers={**_NO_STORE, **challenge})


class EmbeddedProvider:
    """The issuer: what its three endpoints answer."""

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        client_id: str,
        client_secret: str,
        store: IdentityStore,
        keys: SigningKeys,
        passwords: PasswordHasher,
        clock: Callable[[], datetime],
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._client_id = client_id
        self._credentials = _basic_credentials(client_id, client_secret)
        self._store = store
        self._keys = keys
        self._passwords = passwords
        self._clock = clock
        self._token_bytes = token_bytes

    async def configuration(self, _request: Request) -> Response:
        """Answer discovery (OpenID Connect Discovery 1.0, section 4)."""
        base = self._issuer.rstrip("/")
        return JSONResponse(
            {
                "issuer": self._issuer,
                "token_endpoint": f"{base}/token",
                "jwks_uri": f"{base}/jwks",
                "grant_types_supported": ["password"],
                "response_types_supported": [],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [SIGNING_ALGORITHM],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        )

    async def key_set(self, _request: Request) -> Response:
        """Answer the public keys (RFC 7517, section 5)."""
        headers = {"Cache-Control": f"public, max-age={EMBEDDED_KEY_SET_MAX_AGE_SECONDS}"}
        return JSONResponse({"keys": await self._keys.published()}, headers=headers)

    async def token(self, request: Request) -> Response:
        """Answer a token request (RFC 6749, section 3.2)."""
        try:
            self._check_client(request.headers.get("Authorization"))
            account = await self._authenticated(await _read_form(request))
        except OAuthRefusalError as refusal:
            return refusal.response()
        content = {
            "access_token": await self._sign(account),
            "token_type": "Bearer",
            "expires_in": int(EMBEDDED_TOKEN_LIFETIME.total_seconds()),
        }
        return JSONResponse(content, headers=_NO_STORE)

    def _check_client(self, authorization: str | None) -> None:
        scheme, _, encoded = (authorization or "").partition(" ")
        try:
            sent = base64.b64decode(encoded.strip(), validate=True) if scheme.lower() == "basic" else b""
        except (binascii.Error, ValueError):
            sent = b""
        known = [hmac.compare_digest(sent, credentials) for credentials in self._credentials]
        if not any(known):
            raise OAuthRefusalError("invalid_client", "the client is not known", HTTPStatus.UNAUTHORIZED)

    async def _authenticated(self, form: dict[str, str]) -> IdpAccount:
        if form.get("grant_type") is None:
            raise OAuthRefusalError("invalid_request", "grant_type is required")
        if form["grant_type"] != "password":
            raise OAuthRefusalError("unsupported_grant_type", "only the grant type password is supported")
        username, password = form.get("username"), form.get("password")
        if not username or not password:
            raise OAuthRefusalError("invalid_request", "username and password are required")
        # A name that cannot exist (PostgreSQL's text has no NUL) is not looked up, but costs a hash like any other.
        possible = len(username) <= USERNAME_LENGTH_MAX and username.isprintable()
        account = await self._store.find_user(username) if possible else None
        is_right = await self._passwords.verify(password, account.password_hash if account else None)
        if account is None or not is_right:
            raise OAuthRefusalError("invalid_grant", "the username or the password is wrong")
        return account

    async def _sign(self, account: IdpAccount) -> str:
        signing_key = await self._keys.active()
        issued_at = int(self._clock().timestamp())
        claims: dict[str, Any] = {
            "iss": self._issuer,
            "sub": account.subject,
            "aud": self._audience,
            "azp": self._client_id,
            "exp": issued_at + int(EMBEDDED_TOKEN_LIFETIME.total_seconds()),
            "iat": issued_at,
            "jti": self._token_bytes(16).hex(),
            "typ": "Bearer",
            "preferred_username": account.username,
            "tenant_id": str(account.tenant_id),
            "environment": account.environments,
            "user_id": str(account.user_id),
            "roles": account.roles,
            "permissions": sorted(permissions_of(account.roles)),
        }
        header = {"alg": SIGNING_ALGORITHM, "kid": signing_key.kid, "typ": "JWT"}
        return jws.serialize_compact(header, json.dumps(claims), signing_key.key, registry=_REGISTRY)


def create_embedded_router(
    *,
    issuer: str,
    audience: str,
    client_id: str,
    client_secret: str,
    store: IdentityStore,
    encryption_key: bytes,
    clock: Callable[[], datetime],
    passwords: PasswordHasher | None = None,
    token_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> APIRouter:
    """Return the issuer's routes under ``/idp``, absent from the API's description.

    ``issuer`` is the address under which clients reach ``/idp``, such as ``http://127.0.0.1:8000/idp``.
    """
    provider = EmbeddedProvider(
        issuer=issuer,
        audience=audience,
        client_id=client_id,
        client_secret=client_secret,
        store=store,
        keys=SigningKeys(store=store, encryption_key=encryption_key, clock=clock, token_bytes=token_bytes),
        passwords=passwords or PasswordHasher(token_bytes),
        clock=clock,
        token_bytes=token_bytes,
    )
    router = APIRouter(prefix="/idp", include_in_schema=False, redirect_slashes=False)
    router.add_api_route("/.well-known/openid-configuration", provider.configuration, methods=["GET"])
    router.add_api_route("/jwks", provider.key_set, methods=["GET"])
    router.add_api_route("/token", provider.token, methods=["POST"])
    return router


def _basic_credentials(client_id: str, client_secret: str) -> list[bytes]:
    """Return what a client may send: form-encoded as RFC 6749, section 2.3.1 has it, or plain as most do."""
    plain = f"{client_id}:{client_secret}"
    encoded = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    return [encoded.encode(), plain.encode(), plain.encode("latin-1", "replace")]


async def _read_form(request: Request) -> dict[str, str]:
    """Read the parameters of a token request, of which none may come twice (RFC 6749, section 3.2)."""
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise OAuthRefusalError("invalid_request", "the body is not form-encoded")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > EMBEDDED_FORM_BYTES_MAX:
            raise OAuthRefusalError("invalid_request", "the body is too large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=EMBEDDED_FORM_FIELDS_MAX
        )
    except ValueError:
        raise OAuthRefusalError("invalid_request", "the body cannot be read") from None
    if len(form := dict(pairs)) != len(pairs):
        raise OAuthRefusalError("invalid_request", "a parameter comes twice")
    return form
