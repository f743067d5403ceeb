"""Secrets that must be read back: encrypted at rest, each bound to what it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from payrec.errors import ConfigurationError

_FORMAT: Final = b"\x01"
_NONCE_BYTES: Final = 12


class SecretBox:
    """AES-256-GCM under one key: a format byte, the nonce, and the ciphertext."""

    def __init__(self, *, key: bytes, token_bytes: Callable[[int], bytes]) -> None:
        self._cipher = AESGCM(key)
        self._token_bytes = token_bytes

    def seal(self, plain: bytes, *, owner: bytes) -> bytes:
        """Encrypt a secret; it opens for its ``owner`` alone, so that rows cannot swap theirs."""
        nonce = self._token_bytes(_NONCE_BYTES)
        return _FORMAT + nonce + self._cipher.encrypt(nonce, plain, owner)

    def open(self, sealed: bytes, *, owner: bytes) -> bytes:
        """Decrypt a secret.

        Raises
        ------
        ConfigurationError
            It was encrypted under another key, for another owner, or was changed.
        """
        nonce, text = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            plain = self._cipher.decrypt(nonce, text, owner)
        except (InvalidTag, ValueError):
            plain = None
        if plain is None or sealed[:1] != _FORMAT:
            raise ConfigurationError("ENCRYPTION_KEY is not the one that a secret was stored under")
        return plain
