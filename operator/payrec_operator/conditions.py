"""Conditions of a Tenant: which there are, and how a new one takes the place of the one before.

After the conventions of the Kubernetes API: ``lastTransitionTime`` changes with the status alone, and what other
controllers have put there stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from payrec_operator.constants import CONDITIONS_MAX, MESSAGE_LENGTH_MAX
from payrec_operator.reasons import Reason

ConditionType = Literal[
    "Ready", "SchemasReady", "MigrationsCurrent", "CredentialsReady", "UsersReady", "Rotating", "Deleting"
]
Truth = Literal["True", "False", "Unknown"]

TYPES: Final[tuple[ConditionType, ...]] = (
    "Ready",
    "SchemasReady",
    "MigrationsCurrent",
    "CredentialsReady",
    "UsersReady",
    "Rotating",
    "Deleting",
)
"""Ours, in the order in which the status has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition as it is wanted in the status."""

    type: ConditionType
    status: Truth
    reason: Reason
    message: str


def instant(at: datetime) -> str:
    """Return an instant as Kubernetes writes it: UTC, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shortened(message: str) -> str:
    """Return a message that the status and an event can hold."""
    return message if len(message) <= MESSAGE_LENGTH_MAX else message[: MESSAGE_LENGTH_MAX - 1] + "…"


def by_type(conditions: Any) -> dict[str, Mapping[str, Any]]:
    """Return conditions as they were read, by type; what is no condition is left out."""
    if not isinstance(conditions, Sequence) or isinstance(conditions, str):
        return {}
    return {c["type"]: c for c in conditions if isinstance(c, Mapping) and isinstance(c.get("type"), str)}


def merge_conditions(
    found: Any, wanted: Sequence[Mapping[str, Any]], *, ours: Sequence[str] = TYPES
) -> list[dict[str, Any]]:
    """Return the status's conditions: ours as wanted, then the others' as they were found.

    One of ours that is not wanted goes. Where the status of one has not changed, its ``lastTransitionTime`` stays.
    """
    before = by_type(found)
    merged = []
    for condition in wanted:
        old = before.get(condition["type"])
        since = old.get("lastTransitionTime") if old and old.get("status") == condition["status"] else None
        merged.append({**condition, "lastTransitionTime": since or condition["lastTransitionTime"]})
    foreign = [dict(c) for kind, c in before.items() if kind not in ours]
    return merged + foreign[: CONDITIONS_MAX - len(merged)]


def rendered(condition: Condition, *, generation: int, now: datetime) -> dict[str, Any]:
    """Return a condition as the status has it, changed now."""
    return {
        "type": condition.type,
        "status": condition.status,
        "observedGeneration": generation,
        "lastTransitionTime": instant(now),
        "reason": str(condition.reason),
        "message": shortened(condition.message),
    }
