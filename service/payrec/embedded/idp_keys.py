"""The embedded identity provider's signing keys: made once, stored encrypted, shared by all processes."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc.jwk import RSAKey

from payrec.constants import EMBEDDED_RETIRED_KEY_PUBLISHED, ENCRYPTION_KEY_BYTES_MIN
from payrec.errors import ConfigurationError
from payrec.storage.idp import StoredSigningKey

SIGNING_ALGORITHM: Final = "RS256"
"""What the embedded provider signs with."""

RSA_BITS: Final = 2048
"""Bits of a signing key."""

_NONCE_BYTES: Final = 12
_FORMAT: Final = b"\x01"
_PURPOSE: Final = b"payrec embedded identity provider signing key v1"


class SigningKeyStore(Protocol):
    """Where signing keys are kept; every call is a transaction of its own."""

    async def signing_keys(self) -> list[StoredSigningKey]:
        """Return the active key first."""

    async def insert_signing_key(self, key: StoredSigningKey) -> bool:
        """Store the key unless another one is active."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key and its name in the header of a token (the thumbprint of RFC 7638)."""

    kid: str
    key: RSAKey = field(repr=False)


def seal(private_jwk: dict[str, Any], *, kid: str, encryption_key: bytes, nonce: bytes) -> bytes:
    """Encrypt a private JWK: a format byte, the nonce, and AES-256-GCM, bound to the kid so that rows cannot swap."""
    text = json.dumps(private_jwk, separators=(",", ":")).encode()
    return _FORMAT + nonce + AESGCM(_derived(encryption_key)).encrypt(nonce, text, kid.encode())


def unseal(sealed: bytes, *, kid: str, encryption_key: bytes) -> dict[str, Any]:
    """Decrypt what ``seal`` made.

    :raises ConfigurationError: when it was made under another key, or was changed
    """
    nonce, text = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
    try:
        plain = AESGCM(_derived(encryption_key)).decrypt(nonce, text, kid.encode())
    except (InvalidTag, ValueError):
        plain = None
    if plain is None or sealed[:1] != _FORMAT:
        raise ConfigurationError(
            "ENCRYPTION_KEY is not the one that the embedded identity provider's signing key was stored under"
        )
    private_jwk: dict[str, Any] = json.loads(plain)
    return private_jwk


def _derived(encryption_key: bytes) -> bytes:
    """Derive the key for this purpose alone (HKDF, RFC 5869), so that it says nothing about the keys of others."""
    if len(encryption_key) < ENCRYPTION_KEY_BYTES_MIN:
        raise ConfigurationError(f"ENCRYPTION_KEY has less than {ENCRYPTION_KEY_BYTES_MIN} bytes")
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(encryption_key)


class SigningKeys:
    """The keys of the provider: the active one to sign with, and the set that is published."""

    def __init__(
        self,
        *,
        store: SigningKeyStore,
        encryption_key: bytes,
        clock: Callable[[], datetime],
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._store = store
        self._encryption_key = encryption_key
        self._clock = clock
        self._token_bytes = token_bytes
        self._opened: SigningKey | None = None
        self._lock = asyncio.Lock()

    async def active(self) -> SigningKey:
        """Return the key to sign with, made and stored if there is none.

        Reads the row each time, so that a key retired elsewhere signs nothing more; only the decryption is kept.

        :raises ConfigurationError: when ENCRYPTION_KEY does not open the stored key
        """
        stored = _active_of(await self._store.signing_keys())
        if stored is None:
            stored = await self._make()
        if self._opened is None or self._opened.kid != stored.kid:
            private_jwk = unseal(stored.private_encrypted, kid=stored.kid, encryption_key=self._encryption_key)
            self._opened = SigningKey(kid=stored.kid, key=RSAKey.import_key(private_jwk))
        return self._opened

    async def published(self) -> list[dict[str, Any]]:
        """Return the public JWKs: the active key's, and those that may have signed tokens which are still valid."""
        await self.active()
        oldest = self._clock() - EMBEDDED_RETIRED_KEY_PUBLISHED
        return [
            stored.public_jwk
            for stored in await self._store.signing_keys()
            if stored.retired_at is None or stored.retired_at > oldest
        ]

    async def _make(self) -> StoredSigningKey:
        """Store a new key, or return the one that another request or process stored first."""
        async with self._lock:
            stored = _active_of(await self._store.signing_keys())
            if stored is not None:
                return stored
            made = await asyncio.to_thread(self._generate)
            if await self._store.insert_signing_key(made):
                return made
        stored = _active_of(await self._store.signing_keys())
        if stored is None:  # the key of the other process was retired in this very moment
            raise ConfigurationError("the embedded identity provider has no active signing key")
        return stored

    def _generate(self) -> StoredSigningKey:
        key = RSAKey.generate_key(RSA_BITS)
        kid = key.thumbprint()
        nonce = self._token_bytes(_NONCE_BYTES)
        private_jwk = dict(key.as_dict(private=True))
        return StoredSigningKey(
            kid=kid,
            public_jwk={**key.as_dict(private=False), "kid": kid, "use": "sig", "alg": SIGNING_ALGORITHM},
            private_encrypted=seal(private_jwk, kid=kid, encryption_key=self._encryption_key, nonce=nonce),
            created_at=self._clock(),
        )


def _active_of(keys: list[StoredSigningKey]) -> StoredSigningKey | None:
    return next((key for key in keys if key.retired_at is None), None)
