"""Passwords of the embedded identity provider: scrypt (RFC 7914), salted, off the event loop.

A hash takes 16 MiB and some 40 ms of a core, so at most two are made at once, and a queue that grows too long is
refused instead of being worked off while every client waits.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Callable
from typing import Final

from payrec.constants import PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX, PASSWORD_LENGTH_MAX
from payrec.errors import UnavailableError

SCRYPT_LOG2_N: Final = 14
"""The cost of scrypt: N = 2^14 with r = 8 takes 16 MiB."""

SCRYPT_R: Final = 8
"""The block size of scrypt."""

SCRYPT_P: Final = 1
"""The parallelism of scrypt."""

SALT_BYTES: Final = 16
"""Bytes of a salt."""

HASH_BYTES: Final = 32
"""Bytes of a derived hash."""

_SCRYPT_BYTES_MAX: Final = 64 * 1024 * 1024


class PasswordHasher:
    """Makes and checks hashes of the form ``$scrypt$ln=14,r=8,p=1$<salt>$<hash>`` (the PHC string format).

    Another cost makes other hashes, and takes none of these.
    """

    def __init__(
        self, token_bytes: Callable[[int], bytes] = secrets.token_bytes, *, log2_n: int = SCRYPT_LOG2_N
    ) -> None:
        self._token_bytes = token_bytes
        self._n = 2**log2_n
        self._parameters = f"ln={log2_n},r={SCRYPT_R},p={SCRYPT_P}"
        self._turn = asyncio.Semaphore(PASSWORD_HASHES_AT_ONCE)
        self._waiting = 0
        # No password has this hash: nobody knows one that does, and it is made anew with each process.
        self._nobody = self._encode(token_bytes(SALT_BYTES), token_bytes(HASH_BYTES))

    async def hash(self, password: str) -> str:
        """Return the hash of a password under a new salt.

        :raises ValueError: when the password is empty, too long, or no Unicode text
        :raises UnavailableError: when too many hashes wait already
        """
        secret = _secret(password)
        if secret is None:
            raise ValueError(f"a password has 1 to {PASSWORD_LENGTH_MAX} characters")
        salt = self._token_bytes(SALT_BYTES)
        return self._encode(salt, await self._derive(secret, salt))

    async def verify(self, password: str, encoded: str | None) -> bool:
        """Tell whether a password has this hash; None, for a user that does not exist, costs the same and is False.

        :raises UnavailableError: when too many hashes wait already
        """
        secret = _secret(password)
        if secret is None:
            return False
        salt, expected = self._decode(encoded if encoded is not None else self._nobody)
        derived = await self._derive(secret, salt)
        return hmac.compare_digest(derived, expected) and encoded is not None

    async def _derive(self, secret: bytes, salt: bytes) -> bytes:
        if self._waiting >= PASSWORD_HASHES_WAITING_MAX:
            raise UnavailableError(retry_after_seconds=2)
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(_scrypt, secret, salt, self._n)
        finally:
            self._waiting -= 1

    def _encode(self, salt: bytes, derived: bytes) -> str:
        texts = (base64.b64encode(part).rstrip(b"=").decode("ascii") for part in (salt, derived))
        return "$".join(("", "scrypt", self._parameters, *texts))

    def _decode(self, encoded: str) -> tuple[bytes, bytes]:
        """Return salt and hash.

        :raises ValueError: when the hash was made otherwise
        """
        parts = encoded.split("$")
        if len(parts) != 5 or parts[:3] != ["", "scrypt", self._parameters]:
            raise ValueError("not a hash of this provider")
        try:
            salt, derived = (base64.b64decode(part + "=" * (-len(part) % 4), validate=True) for part in parts[3:])
        except binascii.Error:
            raise ValueError("not a hash of this provider") from None
        if (len(salt), len(derived)) != (SALT_BYTES, HASH_BYTES):
            raise ValueError("not a hash of this provider")
        return salt, derived


def _scrypt(secret: bytes, salt: bytes, n: int) -> bytes:
    return hashlib.scrypt(secret, salt=salt, n=n, r=SCRYPT_R, p=SCRYPT_P, maxmem=_SCRYPT_BYTES_MAX, dklen=HASH_BYTES)


def _secret(password: str) -> bytes | None:
    """Return the bytes of a password, composed (NFC, RFC 8265 section 4.2): keyboards differ in how they type an ä."""
    if not 0 < len(password) <= PASSWORD_LENGTH_MAX:
        return None
    try:
        return unicodedata.normalize("NFC", password).encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return None
