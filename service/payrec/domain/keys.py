r"""API keys as values: how they are made, read, checked and digested.

A key is ``pr_`` + 16 base62 digits (the public id) + ``.`` + 43 base62 digits (the secret, 256 bits) + 6 base62 digits,
zero-padded, of the CRC-32 of everything before them. With one dot it is never taken for a JWT; with the checksum a
typing error is refused without asking the database, and a secret scanner can find keys by
``\bpr_[0-9A-Za-z]{16}\.[0-9A-Za-z]{49}\b``. The checksum proves nothing about authenticity: only the digest does.
"""

from __future__ import annotations

import hmac
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The digits of base62, in the order of ASCII."""

PREFIX: Final = "pr_"
"""What every key begins with."""

PUBLIC_ID_LENGTH: Final = 16
"""Base62 digits of the part that may be shown and logged."""

SECRET_LENGTH: Final = 43
"""Base62 digits of the secret: 43 x log2(62) is 256 bits."""

CHECKSUM_LENGTH: Final = 6
"""Base62 digits of a CRC-32: 62^6 exceeds 2^32."""

API_KEY_LENGTH: Final = len(PREFIX) + PUBLIC_ID_LENGTH + 1 + SECRET_LENGTH + CHECKSUM_LENGTH
"""Characters of a whole key."""

PEPPER_BYTES_MIN: Final = 16
"""Bytes of a pepper at least."""

DRAWS_MAX: Final = 64
"""Draws of random bytes for one key, after which the source is called broken."""

_UNBIASED_BELOW: Final = 256 - 256 % len(ALPHABET)
_PATTERN: Final = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{PUBLIC_ID_LENGTH}}})\.([0-9A-Za-z]{{{SECRET_LENGTH}}})([0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)


@dataclass(frozen=True, slots=True)
class ApiKeyValue:
    """A whole key. The secret stays out of ``repr``, so that no log line shows it by accident."""

    public_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The key as its owner sends it."""
        body = f"{PREFIX}{self.public_id}.{self.secret}"
        return body + _checksum(body)


def generate(token_bytes: Callable[[int], bytes]) -> ApiKeyValue:
    """Make a new key from a source of random bytes, such as ``secrets.token_bytes``.

    :raises RuntimeError: when the source yields next to nothing that can be used
    """
    digits = _base62(PUBLIC_ID_LENGTH + SECRET_LENGTH, token_bytes)
    return ApiKeyValue(public_id=digits[:PUBLIC_ID_LENGTH], secret=digits[PUBLIC_ID_LENGTH:])


def parse(text: str) -> ApiKeyValue:
    """Read a key as it was sent.

    :raises ValueError: when the shape or the checksum is wrong; the message never has the text
    """
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise ValueError("not an API key")
    value = ApiKeyValue(public_id=found[1], secret=found[2])
    if value.text != text:
        raise ValueError("the checksum of the API key is wrong")
    return value


def digest(value: ApiKeyValue, pepper: bytes) -> bytes:
    """Return what is stored of a key: HMAC-SHA-256 (RFC 2104) of its whole text under the server's pepper, 32 bytes.

    A slow password hash would add nothing, because the secret has 256 random bits.

    :raises ValueError: when the pepper is shorter than ``PEPPER_BYTES_MIN``
    """
    return _digest(value.text.encode("ascii"), pepper)


def verified(value: ApiKeyValue, stored: bytes, *peppers: bytes) -> bytes | None:
    """Return the key's digest under the first pepper, if ``stored`` is its digest under one of them; otherwise None.

    The first is the present pepper, and the answer what should be stored of the key. One HMAC for each pepper: compares
    in constant time and always under every one, so that the answer's time does not tell which one it was.
    """
    text = value.text.encode("ascii")
    digests = [_digest(text, pepper) for pepper in peppers]
    found = False
    for each in digests:
        found |= hmac.compare_digest(each, stored)
    return digests[0] if found else None


def _digest(text: bytes, pepper: bytes) -> bytes:
    if len(pepper) < PEPPER_BYTES_MIN:
        raise ValueError(f"a pepper has at least {PEPPER_BYTES_MIN} bytes")
    return hmac.digest(pepper, text, "sha256")


def _checksum(body: str) -> str:
    """Return the CRC-32 (the one of zlib) as base62 digits, most significant first."""
    number = zlib.crc32(body.encode("ascii"))
    digits = ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits


def _base62(length: int, token_bytes: Callable[[int], bytes]) -> str:
    """Draw digits that are all equally likely: a byte of 248 or more is thrown away, since 62 does not divide 256."""
    digits: list[str] = []
    for _ in range(DRAWS_MAX):
        usable = (byte for byte in token_bytes(length) if byte < _UNBIASED_BELOW)
        digits.extend(ALPHABET[byte % len(ALPHABET)] for byte in usable)
        if len(digits) >= length:
            return "".join(digits[:length])
    raise RuntimeError("the source of random bytes is broken")
