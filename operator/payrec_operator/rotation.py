"""When a key is replaced: decisions alone, from what was seen.

The truth is the table of keys; a Secret holds the current key and nothing else remembers its text. So the rules look at
the key that the Secret holds, and a rotation is three steps of which each may be the last: a pending key, which works
already; the Secret; the promotion, with which the overlap of the key before begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from payrec.domain.tenant_resources import StoredKey
from payrec_operator.constants import (
    KEYS_WAITING_FREE,
    PENDING_LIFETIME,
    ROTATION_BACKOFF_FIRST,
    ROTATION_BACKOFF_MAX,
    ROTATION_JITTER,
)
from payrec_operator.resources import ApiKeySpec, instant_of

_DOUBLINGS_MAX: Final = 32
"""Enough to come from the first wait to the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMemory:
    """What the status remembers of a key: what cannot be seen anywhere else."""

    rotation_request: str | None = None
    failed_attempts: int = 0
    last_failure_at: datetime | None = None
    failed_request: str | None = None
    """What the annotations said when the last try failed."""
    message: str | None = None
    worked: bool = False
    """Whether the Secret held a working key at the end of the last pass."""

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> KeyMemory:
        """Return what an entry of ``status.apiKeys`` says; what is not as we write it counts as not there."""
        request, failed, message = entry.get("rotationRequest"), entry.get("failedAttempts"), entry.get("message")
        failed_request = entry.get("failedRequest")
        return cls(
            rotation_request=request if isinstance(request, str) else None,
            failed_attempts=max(0, failed) if isinstance(failed, int) else 0,
            last_failure_at=instant_of(entry.get("lastFailureTime")),
            failed_request=failed_request if isinstance(failed_request, str) else None,
            message=message if isinstance(message, str) else None,
            worked=isinstance(entry.get("currentKeyId"), str),
        )

    def tried_again_at(self, *, healthy: bool) -> datetime | None:
        """Return until when a key that failed waits.

        A rotation that failed holds up no key whose Secret has been lost since: nobody has that key any more.
        """
        if not self.failed_attempts or self.last_failure_at is None or (self.worked and not healthy):
            return None
        return self.last_failure_at + backoff(self.failed_attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done about one key now."""

    healthy: bool
    flags: tuple[UUID, ...] = ()
    """Keys of which the permissions are others than the resource says."""
    rewrite: bool = False
    """Whether the Secret holds the right key beside something wrong."""
    promote: bool = False
    """Whether the Secret's key has to become the active one."""
    mint: bool = False
    collect: tuple[UUID, ...] = ()
    """Keys that are over."""
    deferred_until: datetime | None = None
    """The key is due, and waits for the end of an overlap."""
    failed_until: datetime | None = None
    """The key is due, and waits since the last try failed."""
    crowded_until: datetime | None = None
    """The key is due, and waits since too many of its name are still in use."""

    @property
    def acts(self) -> bool:
        """Whether anything is to be changed."""
        return bool(self.flags or self.rewrite or self.promote or self.mint or self.collect)


def is_healthy(key: ApiKeySpec, held: StoredKey | None, key_id: str | None) -> bool:
    """Tell whether a Secret that holds ``held``, and says ``key_id``, is right for a key of the resource."""
    return (
        held is not None
        and held.state in ("pending", "active")
        and held.environment == key.environment
        and held.name == key.name
        and key_id == str(held.key_id)
    )


def next_rotation(key: ApiKeySpec, held: StoredKey, *, uid: str) -> datetime | None:
    """Return when a key is replaced, or None where only an annotation does it.

    It follows from the key alone, so it survives a lost status, and a new interval counts at once. It is up to
    ``ROTATION_JITTER`` of the interval early, by the resource, the name and the key before.
    """
    if key.rotation is None:
        return None
    digest = hashlib.sha256(f"{uid}\n{key.name}\n{held.key_id}".encode()).digest()
    part = int.from_bytes(digest[:8]) / 2**64
    early: timedelta = key.rotation.interval * (ROTATION_JITTER * part)
    return held.created_at + key.rotation.interval - early


def is_requested(requests: Sequence[str], remembered: str | None) -> bool:
    """Tell whether the annotations ask for a rotation that has not been made: removing one asks for none."""
    if not requests or remembered is None:
        return bool(requests)
    if remembered == request_text(requests):
        return False
    return len(requests) > 1 or not (
        remembered.startswith(f"{requests[0]}, ") or remembered.endswith(f", {requests[0]}")
    )


def request_text(requests: Sequence[str]) -> str | None:
    """Return how the status remembers the annotations."""
    return ", ".join(requests) or None


def backoff(failed_attempts: int) -> timedelta:
    """Return the wait after the given number of failed tries."""
    return min(ROTATION_BACKOFF_FIRST * (1 << min(failed_attempts - 1, _DOUBLINGS_MAX)), ROTATION_BACKOFF_MAX)


def decide(
    key: ApiKeySpec,
    *,
    held: StoredKey | None,
    data: Mapping[str, str] | None,
    expected: Mapping[str, str] | None,
    keys: Sequence[StoredKey],
    memory: KeyMemory,
    requests: Sequence[str],
    uid: str,
    now: datetime,
) -> Decision:
    """Decide about one key.

    ``data`` is what its Secret holds (None: there is no Secret) and ``held`` the key in it, if it opens anything;
    ``expected`` what the Secret of ``held`` has to hold; ``keys`` all keys of this name.
    """
    healthy = is_healthy(key, held, (data or {}).get("api-key-id"))
    current = held if healthy else None
    others = [k for k in keys if current is None or k.key_id != current.key_id]
    over = tuple(k.key_id for k in others if _is_over(k, now))
    live = [k for k in others if k.key_id not in over]
    promote = current is not None and (current.state == "pending" or any(k.state == "active" for k in live))
    flags = tuple(
        k.key_id
        for k in (*([current] if current else ()), *live)
        if (k.state != "pending" or k is current) and (k.read, k.write) != (key.read, key.write)
    )
    rewrite = current is not None and any((data or {}).get(f) != value for f, value in (expected or {}).items())
    decision = Decision(healthy=healthy, collect=over, flags=flags, rewrite=rewrite, promote=promote)
    if promote or not (current is None or _is_due(key, current, memory, requests, uid, now)):
        return decision
    overlaps = [k.expires_at for k in live if k.state == "retiring" and k.expires_at is not None]
    if healthy and overlaps:
        return replace(decision, deferred_until=max(overlaps))
    again = memory.tried_again_at(healthy=healthy)
    if again is not None and now < again:
        return replace(decision, failed_until=again)
    crowded = _crowded_until(key, live)
    if crowded is not None and now < crowded:
        return replace(decision, crowded_until=crowded)
    return replace(decision, mint=True)


def _is_due(
    key: ApiKeySpec, current: StoredKey, memory: KeyMemory, requests: Sequence[str], uid: str, now: datetime
) -> bool:
    planned = next_rotation(key, current, uid=uid)
    return is_requested(requests, memory.rotation_request) or (planned is not None and now >= planned)


def _is_over(key: StoredKey, now: datetime) -> bool:
    """Tell whether a key that is not the Secret's is to be revoked."""
    if key.state == "pending":
        return now >= key.created_at + PENDING_LIFETIME
    return key.state == "retiring" and key.expires_at is not None and now >= key.expires_at


def _crowded_until(key: ApiKeySpec, live: Sequence[StoredKey]) -> datetime | None:
    """Return when the next key may be made while so many of its name are pending or in their overlap."""
    waiting = [k for k in live if k.state in ("pending", "retiring")]
    if len(waiting) < KEYS_WAITING_FREE:
        return None
    longest = max(ROTATION_BACKOFF_MAX, key.overlap / 16)
    wait = min(ROTATION_BACKOFF_FIRST * (1 << min(len(waiting) - KEYS_WAITING_FREE, _DOUBLINGS_MAX)), longest)
    return max(k.created_at for k in live) + wait
