"""The outcome of a pass: the status of what it saw in the end, and what the rest of the operator wants to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from payrec.domain.tenant_resources import StoredKey
from payrec_operator.constants import KEY_SPREAD
from payrec_operator.outcome import Event, Outcome, Status, events_of, render_conditions, retry_delay
from payrec_operator.passes import Pass
from payrec_operator.problems import Problem
from payrec_operator.reasons import Reason
from payrec_operator.resources import by_name, instant_of
from payrec_operator.rotation import KeyMemory
from payrec_operator.status import conditions_of, environment_entries, key_entries, problems, remembered
from payrec_operator.stops import stopped


def report(state: Pass, *, attempt: int, jitter: float) -> Outcome:
    """Return the outcome of a pass that saw what it left behind."""
    environments, keys = environment_entries(state), key_entries(state)
    conditions = conditions_of(state, environments)
    ready = conditions[0]
    keep = () if any(c.type == "UsersReady" for c in conditions) else ("UsersReady",)
    failing = any(p.transient for p in problems(state))
    stopping = ready.status != "True" and ready.reason is not Reason.SUSPENDED
    return Outcome(
        status=Status(
            fields=_fields(state, environments, keys),
            conditions=render_conditions(state.resource, conditions, now=state.now, keep=keep),
        ),
        result="failed" if failing else "stopped" if stopping else "reconciled",
        reason=ready.reason,
        events=[*events_of(state.resource, conditions), *_rotated(state)],
        retry_after=retry_delay(attempt, jitter) if failing else None,
        wake_at=min(_due(state, keys), default=None),
        corrected=tuple(state.corrected),
        rotations=_rotations(state),
        keys=Counter(k.state for k in state.observation.keys),
        retiring_in_use=retiring_in_use(state.observation.keys),
        errors=tuple(state.errors),
    )


def report_unseen(state: Pass, *, attempt: int, jitter: float) -> Outcome:
    """Return the outcome of a pass that changed something and could not look at it: it remembers what it must."""
    problem = state.tenant or Problem(reason=Reason.INTERNAL_ERROR, message="the tenant is gone", transient=True)
    before = by_name(state.resource.status.get("apiKeys"))
    keys: list[dict[str, Any]] = []
    for key in state.spec.keys:
        entry = before.get(key.name, {"name": key.name})
        finding = state.finding(key.name)
        if finding.rotated or finding.attempted:
            forgotten = ("rotationRequest", "failedAttempts", "lastFailureTime", "failedRequest", "message")
            kept = {k: v for k, v in entry.items() if k not in forgotten}
            entry = kept | remembered(state, key, finding, KeyMemory.parse(entry))
        keys.append(entry)
    outcome = stopped(
        state.resource,
        problem,
        now=state.now,
        attempt=attempt,
        jitter=jitter,
        errors=state.errors,
        fields={"apiKeys": keys, "tenantId": str(state.tenant_id)},
    )
    return replace(
        outcome,
        events=[*outcome.events, *_rotated(state)],
        corrected=tuple(state.corrected),
        rotations=_rotations(state),
    )


def _fields(state: Pass, environments: list[dict[str, Any]], keys: list[dict[str, Any]]) -> dict[str, Any]:
    wanted = {e.name for e in state.spec.present}
    applied = sum(e["state"] == "Applied" for e in environments if e["name"] in wanted)
    revisions = [e["migrationRevision"] for e in environments if e["name"] in wanted and "migrationRevision" in e]
    rotations = [k["nextRotationTime"] for k in keys if "nextRotationTime" in k]
    found = state.observation.users
    fields: dict[str, Any] = {
        "observedGeneration": state.resource.generation,
        "tenantId": str(state.tenant_id),
        "users": [{"username": u.username, "id": str(u.user_id)} for u in found if u.user_id is not None],
        "environmentsReady": f"{applied}/{len(wanted)}",
        "environments": environments,
        "apiKeys": keys,
    }
    if revisions:
        fields["migrationRevision"] = min(revisions)
    if rotations:
        fields["nextRotationTime"] = min(rotations)
    return fields


def _rotated(state: Pass) -> list[Event]:
    return [
        Event(type="Normal", reason=Reason.SECRET_ROTATED, message=f"Secret {key.secret_name} has a new key")
        for key in state.spec.keys
        if state.finding(key.name).rotated
    ]


def _rotations(state: Pass) -> Mapping[Literal["rotated", "deferred", "failed"], int]:
    findings = state.keys.values()
    counts: dict[Literal["rotated", "deferred", "failed"], int] = {
        "rotated": sum(f.rotated for f in findings),
        "deferred": sum(f.deferred_until is not None for f in findings),
        "failed": sum(f.attempted for f in findings),
    }
    return {result: count for result, count in counts.items() if count}


def _due(state: Pass, keys: Sequence[Mapping[str, Any]]) -> list[datetime]:
    """Return when something is due that only time brings."""
    waits = [f.waiting_until for f in state.keys.values()]
    stated = [instant_of(k.get(field)) for k in keys for field in ("nextRotationTime", "previousExpiresAt")]
    return [at for at in (*waits, *stated) if at is not None]


def retiring_in_use(keys: Sequence[StoredKey]) -> int:
    """Count retiring keys that were used when the key in their place had been there for a while."""
    late = {k.name: k.created_at + KEY_SPREAD for k in keys if k.state == "active"}
    return sum(
        k.state == "retiring" and k.last_used_at is not None and k.last_used_at > late.get(k.name, k.last_used_at)
        for k in keys
    )
