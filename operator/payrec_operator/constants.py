"""Every limit and interval of the operator's decisions, each with its unit, and the names that it leaves behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

FINALIZER: Final = "payrec.dev/operator"
"""Keeps a Tenant until its deletion is dealt with."""

STORAGE_PREFIX: Final = "kopf.payrec.dev"
"""Of the annotations in which kopf keeps its progress. Under ``payrec.dev`` itself it would take our verbs for its own
and never show a change of them."""

ENVIRONMENTS_MAX: Final = 4
"""Environments that a resource may list: the interface knows no others."""

API_KEYS_MAX: Final = 32
"""API keys that a resource may list."""

USERS_MAX: Final = 200
"""Users that a resource may list."""

CONDITIONS_MAX: Final = 16
"""Conditions that the resource's definition lets a status have, other controllers' included."""

STATUS_ENTRIES_MAX: Final = 64
"""Entries of a list in the status; the definition refuses more."""

MESSAGE_LENGTH_MAX: Final = 1024
"""Characters of a message in the status or in an event (Kubernetes cuts events there)."""

INVALID_SPEC_PROBLEMS_MAX: Final = 5
"""Problems of a spec that are told at once."""

REQUEST_LENGTH_MAX: Final = 200
"""Characters of a rotate annotation's value that count."""

DURATION_LENGTH_MAX: Final = 16
"""Characters of a duration."""

DURATION_MAX: Final = timedelta(days=3660)
"""Longest duration, so that no instant that is computed from it is beyond the calendar."""

ROTATION_INTERVAL_MIN: Final = timedelta(hours=1)
"""Shortest interval of a rotation."""

ROTATION_OVERLAP_DEFAULT: Final = timedelta(hours=24)
"""How long the key before goes on working, unless half the interval is shorter."""

ROTATION_JITTER: Final = 0.1
"""Part of the interval by which a rotation may come earlier, so that keys made together are not changed together."""

ROTATION_BACKOFF_FIRST: Final = timedelta(minutes=1)
"""Wait from the first failed rotation to the second; it doubles."""

ROTATION_BACKOFF_MAX: Final = timedelta(hours=1)
"""Longest wait between two tries at a rotation."""

KEY_SPREAD: Final = timedelta(minutes=10)
"""How long a consumer may take to read a new key: the kubelet brings a mounted Secret within a minute or two, and who
reads it now and then comes after that. Only later use of the key before counts as such."""

PENDING_LIFETIME: Final = timedelta(minutes=10)
"""Age at which a pending key that is in no Secret is revoked: longer than any pass, which may be about to write it."""

KEYS_WAITING_FREE: Final = 5
"""Keys of one name that may be pending or in their overlap before further ones come only with waits.

Something that deletes the Secret again and again would otherwise fill the tenant's quota of keys within minutes.
"""

SECRET_WRITES_MAX: Final = 3
"""Tries in one pass at writing a Secret that others change at the same moment."""

RETRY_DELAY_FIRST: Final = timedelta(seconds=5)
"""Longest wait after the first pass that failed for a reason that may go away by itself; it doubles."""

RETRY_DELAY_MAX: Final = timedelta(seconds=300)
"""Longest wait after a failed pass: the period of the timer."""

DELETION_TRIES_MAX: Final = 180
"""Tries at a deletion, two in a minute and so for an hour and a half, before the resource is let go as it is."""

DELETION_SECRET_TRIES_MAX: Final = 3
"""Of these, tries that wait for the Secrets; then the keys go first and the API server collects the Secrets."""
