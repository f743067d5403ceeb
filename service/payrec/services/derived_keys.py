"""Keys that are made of ENCRYPTION_KEY."""

from __future__ import annotations

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def derived_key(secret: str, purpose: str) -> bytes:
    """Return a 32-byte key for one purpose (HKDF-SHA-256, RFC 5869), so that no key serves two."""
    hkdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"payrec {purpose}".encode())
    return hkdf.derive(secret.encode())
