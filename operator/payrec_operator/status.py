"""The status of a pass, from what was observed after it and from what it found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from payrec.domain.tenant_resources import EnvironmentState, Observation, StoredKey
from payrec_operator.conditions import Condition, Truth, instant, shortened
from payrec_operator.constants import STATUS_ENTRIES_MAX
from payrec_operator.passes import API_KEY_ID, KeyFinding, Pass
from payrec_operator.problems import CREDENTIALS_REASONS, ENVIRONMENT_REASONS, MIGRATION_REASONS, Problem
from payrec_operator.reasons import Reason
from payrec_operator.resources import ApiKeySpec, by_name
from payrec_operator.rotation import KeyMemory, is_healthy, is_requested, next_rotation, request_text


def environment_entries(state: Pass) -> list[dict[str, Any]]:
    """Return ``status.environments``: those of the resource in its order, then those that it no longer lists."""
    found = {e.environment: e for e in state.observation.tenant.environments}
    entries = [_present(state, e.name, found.get(e.name)) for e in state.spec.present]
    entries += [_absent(state, e.name, found.get(e.name)) for e in state.spec.absent]
    listed = {e.name for e in state.spec.environments}
    message = "the resource no longer lists it; nothing was dropped. List it again, or with ensure: absent to drop it"
    entries += [_entry(name, found[name], "Orphaned", message) for name in sorted(found) if name not in listed]
    return entries[:STATUS_ENTRIES_MAX]


def key_entries(state: Pass) -> list[dict[str, Any]]:
    """Return ``status.apiKeys``: those of the resource, then what is left of others."""
    entries = [_key(state, key) for key in state.spec.keys]
    listed = {k.name for k in state.spec.keys}
    left = {k.name for k in state.observation.keys if k.name not in listed}
    message = "is no longer listed, and is revoked once no Secret holds it"
    return (entries + [{"name": name, "message": message} for name in sorted(left)])[:STATUS_ENTRIES_MAX]


def conditions_of(state: Pass, environments: list[dict[str, Any]]) -> list[Condition]:
    """Return the conditions, Ready first."""
    schemas = _schemas(state)
    migrations = _migrations(state)
    credentials = _credentials(state)
    users = _users(state)
    parts = [c for c in (schemas, migrations, credentials, users, _rotating(state)) if c is not None]
    ready = _ready(state, environments, parts)
    return [replace(ready, message=state.resource.with_unheard(ready.message)), *parts]


def is_working(state: Pass, key: ApiKeySpec) -> bool:
    """Tell whether a key's Secret holds a working key, by what was observed last."""
    secret = (state.secrets or {}).get(key.secret_name)
    return secret is not None and is_healthy(key, state.known(secret), secret.data.get(API_KEY_ID))


def problems(state: Pass) -> Iterable[Problem]:
    """Return all that is not as it should be."""
    findings = (f.problem for f in state.keys.values())
    every = (state.tenant, state.users, state.credentials, *state.environments.values(), *findings)
    return [p for p in every if p is not None]


def _entry(name: str, found: EnvironmentState | None, state: str, message: str | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name}
    if found is not None:
        entry["schemaName"] = found.schema_name
        if found.revision is not None:
            entry["migrationRevision"] = found.revision
    entry["state"] = state
    if message is not None:
        entry["message"] = shortened(message)
    return entry


def _present(state: Pass, name: str, found: EnvironmentState | None) -> dict[str, Any]:
    problem = state.environments.get(name)
    if problem is not None and problem.reason is not Reason.REVISION_AHEAD:
        return _entry(name, found, "Failed", problem.message)
    message = problem.message if problem is not None else None
    if found is None or found.status == "provisioning":
        return _entry(name, found, "Pending", message)
    if name not in state.observation.sound | state.observation.ahead:
        return _entry(name, found, "Failed", "was made, and is not as it was made")
    closed = found.status == "suspended" or state.observation.tenant.status == "suspended"
    return _entry(name, found, "Suspended" if closed else "Applied", message)


def _absent(state: Pass, name: str, found: EnvironmentState | None) -> dict[str, Any]:
    if found is None:
        return _entry(name, None, "Dropped")
    problem = state.environments.get(name)
    if problem is not None:
        return _entry(name, found, "Failed", problem.message)
    return _entry(name, found, "Pending", "is dropped once the Secrets of its keys are deleted")


def _key(state: Pass, key: ApiKeySpec) -> dict[str, Any]:
    before = by_name(state.resource.status.get("apiKeys")).get(key.name, {})
    finding, memory = state.finding(key.name), KeyMemory.parse(before)
    entry: dict[str, Any] = {"name": key.name, "secretName": key.secret_name}
    if state.secrets is None:
        # Nothing is known of the Secrets, so nothing is taken back.
        return {**before, **entry}
    secret = state.secrets.get(key.secret_name)
    held = state.known(secret)
    if held is not None and is_working(state, key):
        entry["currentKeyId"] = str(held.key_id)
        entry["lastRotationTime"] = instant(held.created_at)
        planned = next_rotation(key, held, uid=state.resource.owner.uid)
        if planned is not None:
            entry["nextRotationTime"] = instant(planned)
    retiring = overlapping(state.observation, key.name, state.now)
    if retiring:
        last = max(retiring, key=lambda k: (k.created_at, str(k.key_id)))
        entry["previousKeyId"] = str(last.key_id)
        if last.expires_at is not None:
            entry["previousExpiresAt"] = instant(last.expires_at)
    entry.update(remembered(state, key, finding, memory))
    return entry


def remembered(state: Pass, key: ApiKeySpec, finding: KeyFinding, memory: KeyMemory) -> dict[str, Any]:
    """Return what an entry has to remember, since nothing else does."""
    requests = state.resource.rotation_requests(key.name)
    kept: dict[str, Any] = {}
    request = memory.rotation_request
    if finding.rotated and is_requested(requests, request):
        request = request_text(requests)
    if request is not None:
        kept["rotationRequest"] = request
    if finding.attempted:
        kept["failedAttempts"] = memory.failed_attempts + 1
        kept["lastFailureTime"] = instant(state.now)
        if requests:
            kept["failedRequest"] = request_text(requests)
    elif finding.waiting_until is not None and memory.failed_attempts and memory.last_failure_at is not None:
        kept["failedAttempts"] = memory.failed_attempts
        kept["lastFailureTime"] = instant(memory.last_failure_at)
        if memory.failed_request is not None:
            kept["failedRequest"] = memory.failed_request
    if finding.problem is not None:
        kept["message"] = shortened(finding.problem.message)
    elif finding.deferred_until is not None:
        kept["message"] = f"the rotation waits until the overlap ends at {instant(finding.deferred_until)}"
    return kept


def overlapping(observation: Observation, name: str, now: datetime) -> list[StoredKey]:
    """Return the keys of a name that are in their overlap."""
    return [
        k
        for k in observation.keys
        if k.name == name and k.state == "retiring" and (k.expires_at is None or k.expires_at > now)
    ]


def _schemas(state: Pass) -> Condition:
    failing = {n: p for n, p in state.environments.items() if p.reason in ENVIRONMENT_REASONS}
    if failing:
        reason = _first(ENVIRONMENT_REASONS, failing.values())
        unknown = reason in (Reason.DATABASE_UNAVAILABLE, Reason.INTERNAL_ERROR)
        return Condition(
            type="SchemasReady", status="Unknown" if unknown else "False", reason=reason, message=_listed(failing)
        )
    names = {e.environment for e in state.observation.tenant.environments}
    missing = [e.name for e in state.spec.present if e.name not in names]
    unsound = [e.name for e in state.spec.present if e.name in names - state.observation.sound]
    unsound = [n for n in unsound if n not in state.environments and n not in state.observation.ahead]
    if missing or unsound:
        message = f"{', '.join(missing + unsound)}: not as it was made"
        return Condition(type="SchemasReady", status="Unknown", reason=Reason.INTERNAL_ERROR, message=message)
    return Condition(
        type="SchemasReady",
        status="True",
        reason=Reason.SCHEMAS_APPLIED,
        message="every environment is as it should be",
    )


def _migrations(state: Pass) -> Condition:
    failing = {n: p for n, p in state.environments.items() if p.reason in MIGRATION_REASONS}
    if failing:
        reason = _first(MIGRATION_REASONS, failing.values())
        return Condition(type="MigrationsCurrent", status="False", reason=reason, message=_listed(failing))
    found = {e.environment: e for e in state.observation.tenant.environments}
    behind = [
        e.name
        for e in state.spec.present
        if e.name not in found or found[e.name].revision is None or e.name not in state.observation.sound
    ]
    if behind:
        message = f"not at this release's tables, or not known to be: {', '.join(behind)}"
        return Condition(type="MigrationsCurrent", status="False", reason=Reason.MIGRATION_PENDING, message=message)
    return Condition(
        type="MigrationsCurrent", status="True", reason=Reason.UP_TO_DATE, message="the tables are this release's"
    )


def _credentials(state: Pass) -> Condition:
    failing: dict[str, Problem] = {}
    for key in state.spec.keys:
        finding = state.finding(key.name)
        if is_working(state, key):
            # A rotation that failed leaves the key before at work: Rotating tells of it.
            if finding.problem is not None and not (finding.attempted or finding.waiting_until):
                failing[key.name] = finding.problem
        else:
            failing[key.name] = finding.problem or Problem(
                reason=Reason.KEY_STORE_UNAVAILABLE, message="its Secret holds no working key"
            )
    if state.credentials is not None:
        failing = {"Secrets": state.credentials, **({} if state.secrets is None else failing)}
    if failing:
        reason = _first((*CREDENTIALS_REASONS, Reason.INTERNAL_ERROR), failing.values())
        unknown = state.secrets is None or reason is Reason.INTERNAL_ERROR
        return Condition(
            type="CredentialsReady", status="Unknown" if unknown else "False", reason=reason, message=_listed(failing)
        )
    return Condition(
        type="CredentialsReady",
        status="True",
        reason=Reason.SECRETS_SYNCED,
        message="every Secret holds a working key",
    )


def _users(state: Pass) -> Condition | None:
    """Return the condition of the users, or None where it cannot be told and stays as it was."""
    if state.users is not None:
        if state.users.reason is not Reason.INTERNAL_ERROR:
            return None
        return Condition(type="UsersReady", status="Unknown", reason=Reason.INTERNAL_ERROR, message=state.users.message)
    taken = [u.username for u in state.observation.users if u.user_id is None]
    if taken:
        message = f"the username or subject is somebody else's: {', '.join(taken)}"
        return Condition(type="UsersReady", status="False", reason=Reason.USERNAME_CONFLICT, message=message)
    return Condition(type="UsersReady", status="True", reason=Reason.USERS_SYNCED, message="every listed user is there")


def _rotating(state: Pass) -> Condition | None:
    working = [k for k in state.spec.keys if is_working(state, k)]
    failed = {
        k.name: p
        for k in working
        if (p := state.finding(k.name).problem) is not None
        and (state.finding(k.name).attempted or state.finding(k.name).waiting_until)
    }
    if failed:
        return Condition(type="Rotating", status="False", reason=Reason.ROTATION_FAILED, message=_listed(failed))
    deferred = [k.name for k in working if state.finding(k.name).deferred_until is not None]
    if deferred:
        message = f"waiting for the end of an overlap: {', '.join(deferred)}"
        return Condition(type="Rotating", status="False", reason=Reason.ROTATION_DEFERRED, message=message)
    replaced = [k.name for k in working if overlapping(state.observation, k.name, state.now)]
    if replaced:
        message = f"the key before still works: {', '.join(replaced)}"
        return Condition(type="Rotating", status="True", reason=Reason.OVERLAP_ACTIVE, message=message)
    return None


def _ready(state: Pass, environments: list[dict[str, Any]], parts: list[Condition]) -> Condition:
    by_kind = {c.type: c for c in parts}
    whole = [p for p in (state.tenant, state.users) if p is not None]
    for reason in (Reason.INVALID_SPEC, Reason.DATABASE_UNAVAILABLE, Reason.INTERNAL_ERROR):
        first = next((p for p in whole if p.reason is reason), None)
        if first is not None:
            status: Truth = "False" if reason is Reason.INVALID_SPEC else "Unknown"
            return Condition(type="Ready", status=status, reason=reason, message=first.message)
    schemas, migrations, credentials = (
        by_kind["SchemasReady"],
        by_kind["MigrationsCurrent"],
        by_kind["CredentialsReady"],
    )
    if schemas.status != "True":
        known = schemas.reason in (Reason.DATABASE_UNAVAILABLE, Reason.INTERNAL_ERROR)
        reason = schemas.reason if known else Reason.SCHEMAS_NOT_READY
        return Condition(type="Ready", status=schemas.status, reason=reason, message=schemas.message)
    # Newer tables are served as they are: nothing is pending then.
    if migrations.status != "True" and migrations.reason is not Reason.REVISION_AHEAD:
        return Condition(type="Ready", status="False", reason=Reason.MIGRATIONS_PENDING, message=migrations.message)
    if credentials.status != "True":
        reason = Reason.CREDENTIALS_NOT_READY
        return Condition(type="Ready", status=credentials.status, reason=reason, message=credentials.message)
    wanted = {e.name for e in state.spec.present}
    if wanted and all(e["state"] == "Suspended" for e in environments if e["name"] in wanted):
        message = "suspended, as the resource asks"
        return Condition(type="Ready", status="False", reason=Reason.SUSPENDED, message=message)
    message = "everything that the resource asks for is there"
    users = by_kind.get("UsersReady")
    if users is not None and users.status != "True":
        message = f"environments and keys are ready; {users.message}"
    return Condition(type="Ready", status="True", reason=Reason.RECONCILED, message=message)


def _first(order: tuple[Reason, ...], failing: Iterable[Problem]) -> Reason:
    reasons = {p.reason for p in failing}
    return next((r for r in order if r in reasons), Reason.INTERNAL_ERROR)


def _listed(failing: dict[str, Problem]) -> str:
    return "; ".join(f"{name}: {problem.message}" for name, problem in failing.items())
