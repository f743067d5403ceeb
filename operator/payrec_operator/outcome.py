"""What a pass hands back: a status to write, events to tell, and when to come again."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from payrec.domain.tenant_resources import KeyState
from payrec_operator.conditions import Condition, by_type, merge_conditions, rendered, shortened
from payrec_operator.constants import RETRY_DELAY_FIRST, RETRY_DELAY_MAX
from payrec_operator.reasons import Reason
from payrec_operator.resources import TenantResource

OURS: Final = (
    "observedGeneration",
    "tenantId",
    "users",
    "environmentsReady",
    "environments",
    "apiKeys",
    "nextRotationTime",
    "migrationRevision",
)
"""Fields of the status that are the operator's, beside its conditions; a newer operator's others stay."""

_PARTS: Final = ("SchemasReady", "MigrationsCurrent", "CredentialsReady", "UsersReady")
"""Conditions that Ready sums up."""

_DOUBLINGS_MAX: Final = 16
"""Enough to come from the first wait to the longest."""

_GOOD: Final = frozenset(
    {
        Reason.RECONCILED,
        Reason.SCHEMAS_APPLIED,
        Reason.UP_TO_DATE,
        Reason.SECRETS_SYNCED,
        Reason.USERS_SYNCED,
        Reason.OVERLAP_ACTIVE,
        Reason.SECRET_ROTATED,
        Reason.DROPPING_SCHEMAS,
        Reason.DELETING,
        Reason.PENDING,
        Reason.PROGRESSING,
        Reason.PAUSED,
        Reason.SUSPENDED,
        Reason.ROTATION_DEFERRED,
    }
)
"""Reasons that nobody has to look into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes event."""

    type: Literal["Normal", "Warning"]
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The operator's part of a status."""

    fields: Mapping[str, Any]
    """Values of ``OURS``; one that is not there is removed."""
    conditions: Sequence[Mapping[str, Any]]

    def apply(self, body: MutableMapping[str, Any]) -> None:
        """Write it into an object as it is now; again changes nothing. What others have put there stays."""
        found = body.get("status")
        status = {k: v for k, v in found.items() if k not in OURS} if isinstance(found, Mapping) else {}
        status.update(self.fields)
        status["conditions"] = merge_conditions(status.get("conditions"), self.conditions)
        if status != found:
            body["status"] = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a pass."""

    status: Status | None
    """None: it stays as it is."""
    result: Literal["reconciled", "paused", "invalid", "stopped", "failed", "released"]
    """``failed``: something may heal by itself and is tried again; ``stopped``: somebody has to change something."""
    reason: Reason
    """Of the condition Ready."""
    events: Sequence[Event] = ()
    retry_after: timedelta | None = None
    """When to try again what failed; None: the timer is enough."""
    wake_at: datetime | None = None
    """When the next thing is due: a rotation, the end of an overlap, another try."""
    release: bool = False
    """Of a resource that is being deleted: whether it may go."""
    corrected: Sequence[str] = ()
    """Kinds of what had drifted and was put right: ``tenant``, ``secret``, and those of ``EnvironmentState``."""
    rotations: Mapping[Literal["rotated", "deferred", "failed"], int] = field(default_factory=dict)
    keys: Mapping[KeyState, int] = field(default_factory=dict)
    """How many keys of the resource are in which state."""
    retiring_in_use: int = 0
    """Retiring keys that were used after their successor had been made."""
    errors: Sequence[Exception] = ()
    """What the log should have."""


def retry_delay(attempt: int, jitter: float) -> timedelta:
    """Return how long to wait after ``attempt`` failed passes and this one; ``jitter`` in 0..1 draws the upper half."""
    delay = min(RETRY_DELAY_FIRST * (1 << min(attempt, _DOUBLINGS_MAX)), RETRY_DELAY_MAX)
    return delay / 2 + delay / 2 * jitter


def kept_fields(resource: TenantResource, *, observed: bool) -> dict[str, Any]:
    """Return the status's fields as they were; ``observed`` says that this generation has been looked at."""
    fields = {k: v for k, v in resource.status.items() if k in OURS}
    return {**fields, "observedGeneration": resource.generation} if observed else fields


def render_conditions(
    resource: TenantResource, conditions: Sequence[Condition], *, now: datetime, keep: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return our conditions as the status has them; those of ``keep`` stay as they were."""
    before = by_type(resource.status.get("conditions"))
    new = [rendered(c, generation=resource.generation, now=now) for c in conditions]
    names = {c.type for c in conditions}
    old = [dict(before[kind]) for kind in keep if kind in before and kind not in names]
    merged = merge_conditions(resource.status.get("conditions"), new, ours=[c["type"] for c in new])
    return [c for c in merged if c["type"] in names] + old


def events_of(resource: TenantResource, conditions: Sequence[Condition]) -> list[Event]:
    """Return an event for each condition of which status or reason is another than before.

    Of parts that are well from the beginning Ready tells: one request to the API server instead of five.
    """
    before = by_type(resource.status.get("conditions"))
    conditions = [c for c in conditions if c.type in before or c.type not in _PARTS or c.status != "True"]
    return [
        Event(type="Normal" if c.reason in _GOOD else "Warning", reason=c.reason, message=shortened(c.message))
        for c in conditions
        if (old := before.get(c.type)) is None or (old.get("status"), old.get("reason")) != (c.status, c.reason)
    ]
