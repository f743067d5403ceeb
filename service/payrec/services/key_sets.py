"""The identity provider's public keys: which of a key set can serve, and how long they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.util import urlsafe_b64decode

from payrec.constants import (
    PROVIDER_KEYS_COLD_RETRY,
    PROVIDER_KEYS_COOL_DOWN,
    PROVIDER_KEYS_FRESH,
    PROVIDER_KEYS_MAX,
    PROVIDER_KEYS_STALE_MAX,
    PROVIDER_RSA_BITS_MAX,
    PROVIDER_RSA_BITS_MIN,
    PROVIDER_TIMEOUT_SECONDS,
)
from payrec.errors import IdentityProviderUnavailableError
from payrec.services.claims import name_of
from payrec.services.provider_discovery import ProviderDiscovery, fetch_json, unavailable

_PUBLIC_MEMBERS: Final = frozenset({"kty", "kid", "use", "key_ops", "alg", "n", "e", "crv", "x", "y"})


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key of the provider, and the algorithms that it is good for."""

    kid: str | None
    algorithms: frozenset[str]
    key: RSAKey | ECKey


Keys = tuple[VerificationKey, ...]
"""The keys of one key set that can serve."""

Found = TypeVar("Found")


def read_keys(document: dict[str, Any]) -> Keys:
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
        kid = name_of(public, "kid")
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

    A token that fits none of them may be of a key that the provider took into use since, and is reason enough to read
    them again. What keeps that from being an attack is ``PROVIDER_KEYS_COOL_DOWN``: it begins with such a read, and
    ends early only if the read made the token good. So rotations are noticed at once, however many follow each other,
    and any number of made-up tokens costs one read in that time.
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
        self._keys: Keys = ()
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._missed_at: datetime | None = None
        self._failing = False
        self._flight: asyncio.Task[None] | None = None
        self._begun = 0
        self._ended = 0

    async def search(self, judge: Callable[[Keys], Found | None]) -> Found | None:
        """Return what ``judge`` makes of the keys, if need be of those that the provider has by now.

        It is called with one set of keys after the other until it returns something, and its errors pass.

        :raises IdentityProviderUnavailableError: when there are no keys that may be used
        """
        begun = self._begun
        found = judge(await self.current())
        # A read that began before the token came may have missed its key; one that began later, and ended, has not.
        while found is None and self._ended <= begun:
            if not self._in_flight:
                if self._within(self._missed_at, PROVIDER_KEYS_COOL_DOWN):
                    return None
                self._missed_at = self._clock()  # before the result, which a request that is given up never sees
            await asyncio.shield(self._start())
            found = judge(self._keys)
            if found is not None:
                self._missed_at = None
        if found is None:
            self._missed_at = self._clock()
        return found

    async def current(self) -> Keys:
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
            self._begun += 1
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
            self._ended += 1

    def _within(self, instant: datetime | None, period: timedelta) -> bool:
        # A clock that was set back makes the past lie ahead; then the answer is no, so that we read anew.
        return instant is not None and timedelta(0) <= self._clock() - instant < period
