"""How many requests a process takes: from one principal, for one tenant environment, and of them uploads.

Each limit is a token bucket (the generic cell rate algorithm) in the memory of the process, which enforces its share of
it. What is left is told with every answer, by draft-ietf-httpapi-ratelimit-headers: structured fields (RFC 9651) in
which ``q`` requests are let through in ``w`` seconds, ``r`` remain, and all of them are there again in ``t`` seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from throttled import MemoryStore, Quota, Rate, RateLimitState
from throttled.rate_limiter.gcra import GCRARateLimiter

from payrec.constants import RATE_LIMIT_BUCKETS_MAX
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.errors import RateLimitedError
from payrec.metrics import Metrics

_REFUSALS: Final = {
    "principal": "too many requests with these credentials",
    "tenant": "too many requests for this environment of the tenant",
    "uploads": "too many uploads for this environment of the tenant",
}


class Limit:
    """One limit: a bucket for each key."""

    def __init__(self, name: str, *, limit: int, window_seconds: int, replicas: int, store: MemoryStore) -> None:
        self.name = name
        self.quota = max(limit // replicas, 1)
        # What is announced is a whole number of requests in whole seconds, and never more than what is let through.
        announced_seconds = window_seconds if limit >= replicas else math.ceil(window_seconds * replicas / limit)
        self.policy = f'"{name}";q={self.quota};w={announced_seconds}'
        quota = Quota(Rate(period=timedelta(seconds=window_seconds * replicas), limit=limit), burst=self.quota)
        self._interval_seconds = quota.emission_interval
        self._limiter = GCRARateLimiter(quota, store, key_prefix=name)

    def look(self, key: str) -> RateLimitState:
        """Return what is left in the bucket."""
        return self._limiter.peek(key)

    def take(self, key: str) -> RateLimitState:
        """Take one request out of the bucket, and return what is left; an empty one stays as it is."""
        return self._limiter.limit(key).state

    def item(self, state: RateLimitState) -> str:
        """Return the bucket's member of the field ``RateLimit``."""
        return f'"{self.name}";r={state.remaining};t={math.ceil(state.reset_after)}'

    def retry_after_seconds(self, state: RateLimitState) -> int:
        """Return when the next request will be let through.

        Computed here: of an empty bucket that was only looked at, the library tells another time.
        """
        return max(math.ceil(state.reset_after - (self.quota - 1) * self._interval_seconds), 1)


class Usage:
    """What one request takes out of the buckets, and what is left in them."""

    def __init__(self) -> None:
        self._states: dict[Limit, RateLimitState] = {}
        self._empty: list[Limit] = []

    def take(self, limits: Sequence[Limit], key: str) -> None:
        """Take one out of each bucket; out of none when one is empty, or an earlier one was.

        Nothing else runs between looking and taking, so what was there is there.
        """
        for limit in limits:
            state = self._states[limit] = limit.look(key)
            if state.remaining < 1:
                self._empty.append(limit)
        if not self._empty:
            self._states.update((limit, limit.take(key)) for limit in limits)

    def refusal(self) -> tuple[str, int] | None:
        """Return the name of the limit that is exceeded for longest, and for how many seconds."""
        waits = {limit.name: limit.retry_after_seconds(self._states[limit]) for limit in self._empty}
        return max(waits.items(), key=lambda wait: wait[1], default=None)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return ``RateLimit-Policy`` and ``RateLimit`` for the buckets that were looked at."""
        if not self._states:
            return []
        policies = ", ".join(limit.policy for limit in self._states)
        items = ", ".join(limit.item(state) for limit, state in self._states.items())
        return [(b"ratelimit-policy", policies.encode()), (b"ratelimit", items.encode())]


class RequestLimits:
    """The limits of one process, which is one of ``replicas``; 0 switches one off."""

    def __init__(
        self,
        *,
        principal_per_second: int,
        tenant_per_second: int,
        uploads_per_minute: int,
        replicas: int,
        metrics: Metrics,
    ) -> None:
        store = MemoryStore(options={"MAX_SIZE": RATE_LIMIT_BUCKETS_MAX})
        self._metrics = metrics

        def made(name: str, limit: int, window_seconds: int) -> list[Limit]:
            if limit == 0:
                return []
            return [Limit(name, limit=limit, window_seconds=window_seconds, replicas=replicas, store=store)]

        self._principal = made("principal", principal_per_second, 1)
        self._environment = made("tenant", tenant_per_second, 1)
        self._upload = [*self._environment, *made("uploads", uploads_per_minute, 60)]

    def begin(self, principal: Principal) -> Usage:
        """Count a request for its principal, whose credentials are good; whether it may pass is told by ``admit``."""
        usage = Usage()
        usage.take(self._principal, str(principal.id))
        return usage

    def admit(self, usage: Usage, scope: TenantScope, *, upload: bool) -> None:
        """Count a request, which its principal may make, for its tenant environment.

        Raises
        ------
        RateLimitedError
            There are too many of the principal or for the environment.
        """
        usage.take(self._upload if upload else self._environment, str(scope.environment_id))
        refusal = usage.refusal()
        if refusal is not None:
            name, retry_after_seconds = refusal
            self._metrics.rate_limited.labels(limit=name).inc()
            raise RateLimitedError(_REFUSALS[name], retry_after_seconds=retry_after_seconds)
