"""Verifying tokens: those of the identity provider by its public keys, and those that are signed with JWT_SECRET.

Each family has algorithms, keys and an issuer of its own, and a token is judged by the one family that its algorithm
belongs to: a public key never serves as a secret, nor a secret as anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Final

import httpx2
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from joserfc.util import urlsafe_b64decode

from payrec.constants import ACCESS_TOKEN_LENGTH_MAX, PROVIDER_TIMEOUT_SECONDS
from payrec.errors import ConfigurationError, ExpiredCredentialsError, InvalidCredentialsError
from payrec.services.claims import Claims, name_of, read_claims
from payrec.services.key_sets import KeyCache, Keys, VerificationKey
from payrec.services.provider_discovery import ProviderDiscovery
from payrec.services.strict_json import strict_json

ALGORITHMS: Final = ("RS256", "PS256", "ES256")
"""The algorithms of the provider's tokens; asymmetric ones alone."""

SYMMETRIC_ALGORITHM: Final = "HS256"
"""The algorithm of tokens that are signed with JWT_SECRET."""

_REGISTRY: Final = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
_SYMMETRIC_REGISTRY: Final = jws.JWSRegistry(algorithms=[SYMMETRIC_ALGORITHM], strict_check_header=False)
_REFUSED_HEADERS: Final = frozenset({"crit", "b64", "jwk", "jku", "x5u", "x5c"})
_TOKEN_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})


class TokenVerifier:
    """Verifies any token that this installation takes: the provider's first, then those of the shared secret."""

    def __init__(self, provider: JwksVerifier, symmetric: SymmetricVerifier | None = None) -> None:
        self._provider = provider
        self._symmetric = symmetric

    async def verify(self, token: str) -> Claims:
        """Return what the token says; the algorithm decides which family it is tried as, the claims never do.

        Raises as ``JwksVerifier.verify`` does. A token of the shared secret does not need the provider.
        """
        if self._symmetric is None:
            return await self._provider.verify(token)
        algorithm, _ = read_header(token, (*ALGORITHMS, SYMMETRIC_ALGORITHM))
        if algorithm == SYMMETRIC_ALGORITHM:
            return self._symmetric.verify(token)
        return await self._provider.verify(token)

    async def aclose(self) -> None:
        """End what goes on in the background."""
        await self._provider.aclose()


class SymmetricVerifier:
    """Verifies HS256 tokens of one issuer for one audience; the secret has at least 32 bytes (RFC 7518, 3.2).

    :raises ConfigurationError: the secret is a public key or a certificate, which everybody may know
    """

    def __init__(self, *, secret: str, issuer: str, audience: str, clock: Callable[[], datetime]) -> None:
        try:
            self._key = OctKey.import_key(secret.encode())
        except ValueError:
            raise ConfigurationError("JWT_SECRET is a public key, which is no secret") from None
        self._issuer = issuer
        self._audience = audience
        self._clock = clock

    def verify(self, token: str) -> Claims:
        """Return what the token says.

        :raises InvalidCredentialsError: malformed, badly signed, or not meant for us
        :raises ExpiredCredentialsError: good once, but over
        """
        read_header(token, (SYMMETRIC_ALGORITHM,))
        try:
            payload = jws.deserialize_compact(token, self._key, registry=_SYMMETRIC_REGISTRY).payload
        except (JoseError, ValueError) as error:
            raise InvalidCredentialsError from error
        return read_claims(payload, issuer=self._issuer, audience=self._audience, now=self._clock(), of_provider=False)


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
        algorithm, kid = read_header(token, ALGORITHMS)

        def judge(keys: Keys) -> bytes | None:
            fitting = _fitting(algorithm, kid, keys)
            payload = _verified(token, fitting)
            if payload is None and kid is not None and fitting:
                raise InvalidCredentialsError  # a token that names a key we have is judged by it
            if payload is None:
                self._refuse_hopeless(token)
            return payload

        payload = await self._keys.search(judge)
        if payload is None:
            raise InvalidCredentialsError
        return self._read_claims(payload)

    async def aclose(self) -> None:
        """End what goes on in the background."""
        await self._keys.aclose()

    def _refuse_hopeless(self, token: str) -> None:
        """Refuse a token that no key would make good, so that strangers' and old ones do not take the next read."""
        try:
            self._read_claims(urlsafe_b64decode(token.split(".")[1].encode("ascii")))
        except (IndexError, ValueError, ExpiredCredentialsError) as error:
            raise InvalidCredentialsError from error

    def _read_claims(self, payload: bytes) -> Claims:
        return read_claims(payload, issuer=self._issuer, audience=self._audience, now=self._clock(), of_provider=True)


def read_header(token: str, algorithms: Collection[str]) -> tuple[str, str | None]:
    """Return algorithm and kid; refuse headers that would bring a key or a meaning of their own."""
    if len(token) > ACCESS_TOKEN_LENGTH_MAX or not token.isascii():
        raise InvalidCredentialsError
    try:
        header = strict_json(urlsafe_b64decode(token.partition(".")[0].encode("ascii")))
        kid = name_of(header, "kid")
    except ValueError as error:
        raise InvalidCredentialsError from error
    algorithm, kind = header.get("alg"), header.get("typ", "JWT")
    if algorithm not in algorithms or not isinstance(kind, str) or kind.lower() not in _TOKEN_TYPES:
        raise InvalidCredentialsError
    if not _REFUSED_HEADERS.isdisjoint(header):
        raise InvalidCredentialsError
    return str(algorithm), kid


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
