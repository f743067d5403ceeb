"""The rules of deliveries: how a message is signed, when it is tried again, when an endpoint is given up.

Signatures are those of Standard Webhooks 1.0 (https://www.standardwebhooks.com), symmetric: HMAC-SHA-256 over id,
timestamp and body, a signature for each secret that is in force.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from payrec.constants.events import (
    WEBHOOK_DISABLED_AFTER,
    WEBHOOK_EXCERPT_LENGTH_MAX,
    WEBHOOK_PAUSE_MAX,
    WEBHOOK_PAUSE_MIN,
    WEBHOOK_PAUSED_AFTER_FAILURES,
    WEBHOOK_RETRY_AFTER_MAX,
)

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every secret begins with
"""So that scanners recognise one."""

DELAYS: Final = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""From a failed attempt to the next (the specification's schedule): ten attempts in a little more than three days."""

JITTER: Final = 0.1
"""The largest part of a delay that is added to it by chance, so that what failed together is not tried together."""

SECRET_LOST: Final = "secret_lost"  # noqa: S105 - the name of an error
"""Why nothing is sent: ENCRYPTION_KEY is another one than the secret was stored under."""

GONE: Final = 410
"""Status by which a receiver says that it wants no more."""

_UNPRINTABLE: Final = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one attempt came to. ``status`` is None where there was no answer; then ``error`` says why, as a code."""

    status: int | None = None
    error: str | None = None
    excerpt: str | None = None
    retry_after: timedelta | None = None
    duration_ms: int = 0

    @property
    def is_success(self) -> bool:
        """Whether the receiver has taken the message: 2xx, and nothing else."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """Whether the receiver wants no more messages."""
        return self.status == GONE

    @property
    def was_sent(self) -> bool:
        """Whether it was tried at all; what was not is no attempt of the message."""
        return self.error != SECRET_LOST

    @property
    def outcome(self) -> str:
        """A word for it, of a small set."""
        if self.is_success:
            return "succeeded"
        if self.status is None:
            return self.error or "failed"
        return "redirected" if 300 <= self.status < 400 else f"status_{self.status // 100}xx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How an endpoint does: failures in a row, when they began, and until when nothing new is tried."""

    failures: int = 0
    failing_since: datetime | None = None
    paused_until: datetime | None = None

    def after(self, answer: Answer, *, now: datetime) -> Health:
        """Return the health after one more attempt."""
        if answer.is_success:
            return Health()
        failures = self.failures + 1
        beyond = failures - WEBHOOK_PAUSED_AFTER_FAILURES
        paused_until = None
        if beyond >= 0:
            # No more doublings than lead to the longest pause: the number of failures has no limit.
            paused_until = now + min(WEBHOOK_PAUSE_MIN * 2 ** min(beyond, 16), WEBHOOK_PAUSE_MAX)
        return Health(failures=failures, failing_since=self.failing_since or now, paused_until=paused_until)

    def is_paused(self, *, now: datetime) -> bool:
        """Tell whether nothing new is tried now; a pause beyond the longest is one of a clock that was set back."""
        return self.paused_until is not None and now < self.paused_until <= now + WEBHOOK_PAUSE_MAX

    def is_given_up(self, *, now: datetime) -> bool:
        """Tell whether the endpoint has failed for so long that it is disabled."""
        return self.failing_since is not None and now - self.failing_since >= WEBHOOK_DISABLED_AFTER


def delay_after(attempts: int, retry_after: timedelta | None, *, chance: float) -> timedelta | None:
    """Return the time to the next attempt after that many failed ones, None when that was the last.

    ``chance`` is a random number from 0 to 1. A receiver may ask for more time, not for less, and not for an attempt
    more.
    """
    if attempts > len(DELAYS):
        return None
    wanted = DELAYS[attempts - 1] * (1 + JITTER * chance)
    return max(wanted, min(retry_after or timedelta(), WEBHOOK_RETRY_AFTER_MAX))


def retry_after_of(value: str | None, *, now: datetime) -> timedelta | None:
    """Return what a Retry-After header asks for (RFC 9110, section 10.2.3); None where it makes no sense."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), 10**8))
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # a year or an offset may have any number of digits
        return None
    instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
    return max(instant - now, timedelta())


def new_secret(random_bytes: bytes) -> str:
    """Return a secret as its receiver is shown it."""
    return SECRET_PREFIX + base64.b64encode(random_bytes).decode()


def secret_bytes(secret: str) -> bytes:
    """Return the key that a secret stands for.

    Raises
    ------
    ValueError
        It is no secret of this form.
    """
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("not a secret") from None


def signatures(keys: Sequence[bytes], *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of ``webhook-signature``: one signature for each key, separated by spaces."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    made = (base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)
    return " ".join(f"v1,{signature}" for signature in made)


def excerpt_of(body: bytes) -> str | None:
    """Return the beginning of an answer's body as text that can be stored and shown."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", body.decode(errors="replace"))
    return text[:WEBHOOK_EXCERPT_LENGTH_MAX].strip() or None


Chance = Callable[[], float]
"""A source of random numbers from 0 to 1."""
