"""Access tokens of the identity provider: signature, claims, and the cache of the provider's public keys.

Joserfc verifies the signature; the claims are checked here, because what an access token is differs from provider to
provider (Keycloak's has the header ``typ: JWT``, the claim ``typ: Bearer``, and its client in ``azp``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import httpx2
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.util import urlsafe_b64decode

from payrec.constants import (
    ACCESS_TOKEN_LENGTH_MAX,
    PROVIDER_CLOCK_SKEW,
    PROVIDER_KEYS_COLD_RETRY,
    PROVIDER_KEYS_COOL_DOWN,
    PROVIDER_KEYS_FRESH,
    PROVIDER_KEYS_MAX,
    PROVIDER_KEYS_STALE_MAX,
    PROVIDER_RSA_BITS_MAX,
    PROVIDER_RSA_BITS_MIN,
    PROVIDER_TIMEOUT_SECONDS,
    TOKEN_NAME_LENGTH_MAX,
)
from payrec.domain.principal import ENVIRONMENTS, Environment
from payrec.errors import ExpiredCredentialsError, IdentityProviderUnavailableError, InvalidCredentialsError
from payrec.services.identity_provider import ProviderDiscovery, fetch_json, strict_json, unavailable

ALGORITHMS: Final = ("RS256", "PS256", "ES256")
"""The only algorithms of a token of the provider; asymmetric ones, so that a public key never serves as a secret."""

_REGISTRY: Final = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
_REFUSED_HEADERS: Final = frozenset({"crit", "b64", "jwk", "jku", "x5u", "x5c"})
_TOKEN_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_CLAIMED_TYPES: Final = ("Bearer", "bearer", "at+jwt")
_NOT_OF_ACCESS_TOKENS: Final = frozenset({"at_hash", "c_hash", "events"})  # OpenID Connect Core, section 3.1.3.6
_PUBLIC_MEMBERS: Final = frozenset({"kty", "kid", "use", "key_ops", "alg", "n", "e", "crv", "x", "y"})
_SECONDS_MAX: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a valid token says. Whether it is true of a stored tenant and user is for the caller to find out.

    ``roles`` and ``permissions`` are None when the token has no such claim, which is not the same as an empty list.
    """

    subject: str | None
    tenant_id: UUID
    environments: frozenset[Environment]
    user_id: UUID | None
    username: str | None
    roles: tuple[str, ...] | None
    permissions: tuple[str, ...] | None
    expires_at: datetime


def read_claims(payload: bytes, *, issuer: str, audience: str, now: datetime) -> Claims:
    """Check the claims of a token whose signature is good.

    The issuer is exact; the audience is ``aud`` (text or list) or ``azp``; ``exp`` is required.

    :raises InvalidCredentialsError: it is not an access token of this issuer for this audience, or not yet valid
    :raises ExpiredCredentialsError: it was one
    """
    try:
        document = strict_json(payload)
        _check_parties(document, issuer, audience)
        _check_kind(document)
        expires_at = _instant(document["exp"])
        begins = max((_instant(document[name]) for name in ("nbf", "iat") if name in document), default=now)
        claims = _claims(document, expires_at)
    except (KeyError, ValueError) as error:
        raise InvalidCredentialsError from error
    if begins > now + PROVIDER_CLOCK_SKEW:
        raise InvalidCredentialsError
    if expires_at <= now:
        raise ExpiredCredentialsError
    return claims


def _check_parties(document: dict[str, Any], issuer: str, audience: str) -> None:
    aud = document.get("aud")
    if document.get("iss") != issuer:
        raise ValueError("another issuer")
    if audience not in (*(aud if isinstance(aud, list) else (aud,)), document.get("azp")):
        raise ValueError("another audience")


def _check_kind(document: dict[str, Any]) -> None:
    """Refuse ID, refresh and logout tokens, which have the same signature and issuer."""
    kind, use = document.get("typ", "Bearer"), document.get("token_use", "access")
    if kind not in _CLAIMED_TYPES or use != "access":
        raise ValueError("not an access token")
    if not _NOT_OF_ACCESS_TOKENS.isdisjoint(document):
        raise ValueError("an ID token or a logout token")


def _claims(document: dict[str, Any], expires_at: datetime) -> Claims:
    subject, username = _name(document, "sub"), _name(document, "preferred_username")
    user_id = _name(document, "user_id")
    if subject is None and username is None and user_id is None:
        raise ValueError("nobody is named")
    return Claims(
        subject=subject,
        tenant_id=UUID(_name(document, "tenant_id") or ""),
        environments=_environments(document),
        user_id=UUID(user_id) if user_id is not None else None,
        username=username,
        roles=_words(document, "roles"),
        permissions=_words(document, "permissions"),
        expires_at=expires_at,
    )


def _name(document: dict[str, Any], claim: str) -> str | None:
    value = document.get(claim)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= TOKEN_NAME_LENGTH_MAX or not value.isprintable():
        raise ValueError(f"the claim {claim} is no name")
    return value


def _words(document: dict[str, Any], claim: str) -> tuple[str, ...] | None:
    """Read a list of texts; a text is a list with spaces between (as ``scope`` has it, RFC 6749, section 3.3)."""
    value = document.get(claim)
    words = value.split() if isinstance(value, str) else value
    if words is None:
        return None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"the claim {claim} is no list of texts")
    return tuple(words)


def _environments(document: dict[str, Any]) -> frozenset[Environment]:
    """Return the environments that exist among those that the token names; without the claim, none."""
    named = _words(document, "environment") or ()
    return frozenset(environment for environment in ENVIRONMENTS if environment in named)


def _instant(value: Any) -> datetime:
    """Read a NumericDate (RFC 7519, section 2), cut off where the calendar ends."""
    if type(value) not in {int, float}:  # a bool is no number here
        raise ValueError("not a NumericDate")
    return datetime.fromtimestamp(min(max(value, 0), _SECONDS_MAX), UTC)


def _read_header(token: str) -> tuple[str, str | None]:
    """Return algorithm and kid; refuse headers that would bring a key or a meaning of their own."""
    if len(token) > ACCESS_TOKEN_LENGTH_MAX or not token.isascii():
        raise InvalidCredentialsError
    try:
        header = strict_json(urlsafe_b64decode(token.partition(".")[0].encode("ascii")))
        kid = _name(header, "kid")
    except ValueError as error:
        raise InvalidCredentialsError from error
    algorithm, kind = header.get("alg"), header.get("typ", "JWT")
    if algorithm not in ALGORITHMS or not isinstance(kind, str) or kind.lower() not in _TOKEN_TYPES:
        raise InvalidCredentialsError
    if not _REFUSED_HEADERS.isdisjoint(header):
        raise InvalidCredentialsError
    return str(algorithm), kid


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key of the provider, and the algorithms that it is good for."""

    kid: str | None
    algorithms: frozenset[str]
    key: RSAKey | ECKey


def read_keys(document: dict[str, Any]) -> tuple[VerificationKey, ...]:
    """Read a JSON Web Key Set (RFC 7517, section 5); a key that cannot serve is left out, as the section asks.

    :raises ValueError: when it is no key set, has too many keys, or none that can serve
    """
    entries = document.get("keys")
    if not isinstance(entries, list) or len(entries) > PROVIDER_KEYS_MAX:
        raise ValueError("not a key set")
    keys = tuple(key for entry in entries if (key := _read_key(entry)) is not None)
    if not keys:
        raise ValueError("no key can serve")
    return keys


def _read_key(entry: object) -> VerificationKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    # Private members are dropped: a provider that publishes them by mistake must not hand us its private key.
    public = {name: value for name, value in entry.items() if name in _PUBLIC_MEMBERS}
    key: RSAKey | ECKey
    fitting: tuple[str, ...]
    try:
        # The size is looked at first, since joserfc imports a short key and merely warns.
        if public.get("kty") == "RSA" and PROVIDER_RSA_BITS_MIN <= _rsa_bits(public) <= PROVIDER_RSA_BITS_MAX:
            key, fitting = RSAKey.import_key(public), ("RS256", "PS256")
        elif public.get("kty") == "EC" and public.get("crv") == "P-256":
            key, fitting = ECKey.import_key(public), ("ES256",)
        else:
            return None
        key.check_key_op("verify")
        kid = _name(public, "kid")
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    algorithms = frozenset(algorithm for algorithm in fitting if public.get("alg", algorithm) == algorithm)
    return VerificationKey(kid=kid, algorithms=algorithms, key=key) if algorithms else None


def _rsa_bits(public: dict[str, Any]) -> int:
    return int.from_bytes(urlsafe_b64decode(str(public.get("n")).encode()), "big").bit_length()


class KeyCache:
    """The provider's keys: read when first needed, by one request for all that wait.

    While the provider answers, keys older than ``PROVIDER_KEYS_FRESH`` are read again before they are used. Once it
    fails, they stay in use up to ``PROVIDER_KEYS_STALE_MAX``, and attempts go on behind the requests, which no longer
    wait for them.
    """

    def __init__(
        self,
        *,
        jwks_url: str | None,
        discovery: ProviderDiscovery,
        http: httpx2.AsyncClient,
        clock: Callable[[], datetime],
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
    ) -> None:
        self._jwks_url = jwks_url
        self._discovery = discovery
        self._http = http
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._keys: tuple[VerificationKey, ...] = ()
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._failing = False
        self._flight: asyncio.Task[None] | None = None

    async def current(self) -> tuple[VerificationKey, ...]:
        """Return the keys to verify with.

        :raises IdentityProviderUnavailableError: when there are none that may be used
        """
        if self._within(self._read_at, PROVIDER_KEYS_FRESH):
            return self._keys
        usable = self._within(self._read_at, PROVIDER_KEYS_STALE_MAX)
        if (
            not self._within(self._tried_at, PROVIDER_KEYS_COOL_DOWN if usable else PROVIDER_KEYS_COLD_RETRY)
            or self._in_flight
        ):
            flight = self._start()
            if not (usable and self._failing):
                await asyncio.shield(flight)
        if not self._within(self._read_at, PROVIDER_KEYS_STALE_MAX):
            raise IdentityProviderUnavailableError
        return self._keys

    async def renewed(self) -> tuple[VerificationKey, ...]:
        """Return the keys after a token came that none of them fits: read again, unless that was just done."""
        if self._in_flight or not self._within(self._tried_at, PROVIDER_KEYS_COOL_DOWN):
            await asyncio.shield(self._start())
        return self._keys

    async def aclose(self) -> None:
        """End an attempt that is still going on."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    @property
    def _in_flight(self) -> bool:
        return self._flight is not None and not self._flight.done()

    def _start(self) -> asyncio.Task[None]:
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._read())
        return self._flight

    async def _read(self) -> None:
        """Read the keys; never raises, because perhaps nobody waits for it."""
        failing = True
        try:
            url = self._jwks_url or (await self._discovery.metadata()).jwks_uri
            document = await fetch_json(self._http, url, timeout_seconds=self._timeout_seconds)
            self._keys = read_keys(document)
            self._read_at = self._clock()
            failing = False
        except IdentityProviderUnavailableError:
            pass  # logged where it was raised
        except ValueError as error:
            unavailable("key_set", detail=str(error))
        finally:
            self._failing, self._tried_at = failing, self._clock()

    def _within(self, instant: datetime | None, period: timedelta) -> bool:
        # A clock that was set back makes the past lie ahead; then the answer is no, so that we read anew.
        return instant is not None and timedelta(0) <= self._clock() - instant < period


class JwksVerifier:
    """Verifies access tokens of one issuer for one audience by the keys that the issuer publishes.

    Without ``jwks_url``, the address is found by discovery. Redirects, times and sizes are bounded here, per request.
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        http: httpx2.AsyncClient,
        clock: Callable[[], datetime],
        jwks_url: str | None = None,
        discovery: ProviderDiscovery | None = None,
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._clock = clock
        found = discovery or ProviderDiscovery(issuer=issuer, http=http, clock=clock, timeout_seconds=timeout_seconds)
        self._keys = KeyCache(
            jwks_url=jwks_url, discovery=found, http=http, clock=clock, timeout_seconds=timeout_seconds
        )

    async def verify(self, token: str) -> Claims:
        """Return what the token says.

        :raises InvalidCredentialsError: malformed, badly signed, or not meant for us
        :raises ExpiredCredentialsError: good once, but over
        :raises IdentityProviderUnavailableError: no keys to verify it by
        """
        algorithm, kid = _read_header(token)
        keys = _fitting(algorithm, kid, await self._keys.current())
        payload = _verified(token, keys)
        # A token that names a cached key is judged by it. Otherwise the provider may have a new key by now.
        if payload is None and (kid is None or not keys):
            payload = _verified(token, _fitting(algorithm, kid, await self._keys.renewed()))
        if payload is None:
            raise InvalidCredentialsError
        return read_claims(payload, issuer=self._issuer, audience=self._audience, now=self._clock())

    async def aclose(self) -> None:
        """End what goes on in the background."""
        await self._keys.aclose()


def _fitting(algorithm: str, kid: str | None, keys: Iterable[VerificationKey]) -> list[VerificationKey]:
    """Return the keys that may have signed the token.

    Those of its kid, of which a careless provider may have several. A token without a kid is taken only if no choice
    is left (OpenID Connect Core, section 10.1).
    """
    fitting = [key for key in keys if algorithm in key.algorithms and kid in {None, key.kid}]
    return fitting if kid is not None or len(fitting) == 1 else []


def _verified(token: str, keys: Iterable[VerificationKey]) -> bytes | None:
    """Return the payload if one of the keys made the signature."""
    for key in keys:
        try:
            return jws.deserialize_compact(token, key.key, registry=_REGISTRY).payload
        except (JoseError, ValueError):
            continue
    return None
