"""Tokens: a username and a password, exchanged at the identity provider, and how often that may be tried."""

from __future__ import annotations

import hmac
import ipaddress
import math
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from payrec.constants import TOKEN_ADDRESS_IPV6_BYTES
from payrec.domain.attempts import NO_WAIT, AttemptLimit, Attempts, forgiven, less_one, taken_back
from payrec.errors import IdentityProviderUnavailableError, RateLimitedError
from payrec.metrics import Metrics
from payrec.models.tokens import TokenPublic, TokenRequest
from payrec.services.identity_provider import IdentityProviderClient, TokenGrant
from payrec.storage.database import Database
from payrec.storage.tokens import TokenAttemptStore

USERNAME: Final = "username"
"""What is counted: attempts for one username, as providers compare them, known or not."""

ADDRESS: Final = "address"
"""What is counted: attempts from one client address."""

_REFUSALS: Final = {
    USERNAME: "too many attempts for this username",
    ADDRESS: "too many attempts from this address",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that was let through: what was known by each key before it, and what after."""

    kinds: dict[bytes, str]
    before: dict[bytes, Attempts]
    begun: dict[bytes, Attempts]


class AttemptCounter:
    """Counts attempts for each username and from each address, in the database, for all processes together.

    Keys are HMAC-SHA-256: neither names nor addresses are stored. A limit of 0 is no limit.
    """

    def __init__(
        self, *, database: Database, key: bytes, per_username: int, per_address: int, metrics: Metrics
    ) -> None:
        self._database = database
        self._key = key
        limits = {USERNAME: per_username, ADDRESS: per_address}
        self._limits = {kind: AttemptLimit(per_minute) for kind, per_minute in limits.items() if per_minute}
        self._metrics = metrics

    async def begin(self, *, username: str, address: str) -> Attempt:
        """Count an attempt as failed, before it is known how it ends.

        Raises
        ------
        RateLimitedError
            It may not be made yet; nothing is counted.
        """
        said = {USERNAME: _username_text(username), ADDRESS: _address_text(address)}
        kinds = {self._digest(kind, said[kind]): kind for kind in self._limits}
        if not kinds:
            return Attempt(kinds={}, before={}, begun={})
        async with self._database.control() as connection:
            store = TokenAttemptStore(connection)
            before, now = await store.lock(kinds)
            waits = {kind: self._limits[kind].wait(before[key], now) for key, kind in kinds.items()}
            kind = max(waits, key=lambda kind: waits[kind])
            if waits[kind] > NO_WAIT:
                self._metrics.rate_limited.labels(limit=f"token_{kind}").inc()
                retry_after_seconds = math.ceil(waits[kind].total_seconds())
                raise RateLimitedError(_REFUSALS[kind], retry_after_seconds=retry_after_seconds)
            begun = {key: self._limits[kind].begun(before[key], now) for key, kind in kinds.items()}
            await store.save(begun)
            await store.prune()
        return Attempt(kinds=kinds, before=before, begun=begun)

    async def succeeded(self, attempt: Attempt) -> None:
        """Take the failure back, and with it all earlier ones of the username; those of the address remain."""
        await self._settle(
            attempt, lambda key, known: forgiven(known) if attempt.kinds[key] == USERNAME else less_one(known)
        )

    async def take_back(self, attempt: Attempt) -> None:
        """Count the attempt as none: there was no answer to it."""
        await self._settle(
            attempt, lambda key, known: taken_back(known, begun=attempt.begun[key], before=attempt.before[key])
        )

    async def _settle(self, attempt: Attempt, settled: Callable[[bytes, Attempts], Attempts]) -> None:
        if not attempt.kinds:
            return
        async with self._database.control() as connection:
            store = TokenAttemptStore(connection)
            known, _ = await store.lock(attempt.kinds)
            await store.save({key: settled(key, found) for key, found in known.items()})

    def _digest(self, kind: str, said: bytes) -> bytes:
        return hmac.digest(self._key, kind.encode() + b"\x00" + said, "sha256")


class TokenService:
    """The service of ``POST /auth/token``."""

    def __init__(self, *, identity_provider: IdentityProviderClient, attempts: AttemptCounter) -> None:
        self._identity_provider = identity_provider
        self._attempts = attempts

    async def exchange(self, given: TokenRequest, *, address: str) -> TokenPublic:
        """Return an access token; never a refresh token. ``address`` is the client's.

        Raises
        ------
        InvalidCredentialsError
            The name or the password is wrong; which one is not told.
        RateLimitedError
            Too many attempts for the name, be it known or not, or from the address.
        IdentityProviderUnavailableError
        """
        grant = await self.grant(given, address=address)
        return TokenPublic(
            accessToken=grant.access_token,
            expiresIn=grant.expires_in,
            access_token=grant.access_token,
            expires_in=grant.expires_in,
        )

    async def grant(self, given: TokenRequest, *, address: str) -> TokenGrant:
        """Return what a username and a password are worth, for whoever keeps the token itself; errors as above."""
        attempt = await self._attempts.begin(username=given.username, address=address)
        try:
            grant = await self._identity_provider.password_grant(given.username, given.password)
        except IdentityProviderUnavailableError:
            await self._attempts.take_back(attempt)
            raise
        await self._attempts.succeeded(attempt)
        return grant


def _username_text(username: str) -> bytes:
    """Return a username as providers compare it; JSON can carry half a surrogate pair, which counts as it is."""
    folded = unicodedata.normalize("NFC", username.strip()).casefold()
    return unicodedata.normalize("NFC", folded).encode("utf-8", "surrogatepass")


def _address_text(address: str) -> bytes:
    """Return what of an address counts: all of IPv4, the network of IPv6; a client without an address is one too."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address.encode("utf-8", "surrogatepass")
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return mapped.packed if mapped is not None else parsed.packed[:TOKEN_ADDRESS_IPV6_BYTES]
    return parsed.packed
