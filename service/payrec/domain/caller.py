"""Who asks, where, and under which request: what every use case is told."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol
from uuid import UUID

from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope


class Clock(Protocol):
    """The time, injected."""

    def now(self) -> datetime:
        """Return the present instant in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


class IdSource(Protocol):
    """New identifiers, injected."""

    def new(self) -> UUID:
        """Return a UUIDv7 (RFC 9562) of the present instant, greater than every one before it in this process."""
        ...

    def block(self, count: int) -> int:
        """Return the first of ``count`` consecutive identifiers, as an integer: bulk work numbers its rows itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A request with an Idempotency-Key: SHA-256 of what identifies it, and keyed digests of its content.

    There is a fingerprint for each pepper, the present one's first: a repetition may come after the pepper was changed.
    """

    key: bytes
    fingerprints: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One request: its principal, its tenant environment (if it has one) and how to find it in the logs."""

    principal: Principal
    request_id: str
    scope: TenantScope | None = None
    idempotency: IdempotentRequest | None = None

    @property
    def tenant(self) -> TenantScope:
        """The tenant environment; only for endpoints that the gate lets through with one."""
        if self.scope is None:
            raise AssertionError("this endpoint has no tenant environment")
        return self.scope

    def asking(self, content: bytes) -> Caller:
        """Return the caller of a request whose Idempotency-Key stands for this content too: that of a file."""
        if self.idempotency is None:
            return self
        found = tuple(hashlib.sha256(before + content).digest() for before in self.idempotency.fingerprints)
        return replace(self, idempotency=replace(self.idempotency, fingerprints=found))
