"""The claims of an access token whose signature is good: what they must be, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants import PROVIDER_CLOCK_SKEW, TOKEN_NAME_LENGTH_MAX
from payrec.domain.principal import ENVIRONMENTS, Environment
from payrec.errors import ExpiredCredentialsError, InvalidCredentialsError
from payrec.services.strict_json import strict_json

_CLAIMED_TYPES: Final = ("Bearer", "bearer", "at+jwt")
_NOT_OF_ACCESS_TOKENS: Final = frozenset({"at_hash", "c_hash", "events"})  # OpenID Connect Core, section 3.1.3.6
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
    of_provider: bool
    """Whether the identity provider issued it, so that the subject is the one that it knows the user by."""


def read_claims(payload: bytes, *, issuer: str, audience: str, now: datetime, of_provider: bool) -> Claims:
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
        claims = _claims(document, expires_at, of_provider=of_provider)
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


def _claims(document: dict[str, Any], expires_at: datetime, *, of_provider: bool) -> Claims:
    subject, username = name_of(document, "sub"), name_of(document, "preferred_username")
    user_id = name_of(document, "user_id")
    if subject is None and username is None and user_id is None:
        raise ValueError("nobody is named")
    return Claims(
        subject=subject,
        tenant_id=UUID(name_of(document, "tenant_id") or ""),
        environments=_environments(document),
        user_id=UUID(user_id) if user_id is not None else None,
        username=username,
        roles=_words(document, "roles"),
        permissions=_words(document, "permissions"),
        expires_at=expires_at,
        of_provider=of_provider,
    )


def name_of(document: dict[str, Any], claim: str) -> str | None:
    """Return a claim that names something, None where it is absent.

    :raises ValueError: when it is no printable text of 1 to ``TOKEN_NAME_LENGTH_MAX`` characters
    """
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
