"""Passes that end before they have begun, or do not end: what the status says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from payrec_operator.conditions import TYPES, Condition, Truth
from payrec_operator.constants import RETRY_DELAY_MAX
from payrec_operator.outcome import Outcome, Status, events_of, kept_fields, render_conditions, retry_delay
from payrec_operator.problems import Problem
from payrec_operator.reasons import Reason
from payrec_operator.resources import TenantResource

_UNKNOWN: Final = (Reason.DATABASE_UNAVAILABLE, Reason.INTERNAL_ERROR, Reason.PENDING, Reason.PROGRESSING)
"""Reasons that say nothing of what is there."""

_OF_SCHEMAS: Final = (Reason.SCHEMA_NOT_OWNED, Reason.SCHEMA_CONFLICT, Reason.PERMISSION_DENIED)


def paused(resource: TenantResource, *, now: datetime) -> Outcome:
    """Return the outcome for a resource that is left alone.

    A deletion waits as well, and looks again now and then, since nothing else would.
    """
    message = "the annotation payrec.dev/paused is there; remove it to go on"
    ready = Condition(type="Ready", status="Unknown", reason=Reason.PAUSED, message=message)
    return Outcome(
        status=Status(
            fields=kept_fields(resource, observed=False),
            conditions=render_conditions(resource, [ready], now=now, keep=TYPES),
        ),
        result="paused",
        reason=Reason.PAUSED,
        events=events_of(resource, [ready]),
        retry_after=RETRY_DELAY_MAX if resource.deleting else None,
    )


def stopped(
    resource: TenantResource,
    problem: Problem,
    *,
    now: datetime,
    attempt: int,
    jitter: float,
    errors: Sequence[Exception] = (),
    fields: Mapping[str, Any] | None = None,
) -> Outcome:
    """Return the outcome of a pass that could not look, or not look again: what was known of the parts stays."""
    reason = Reason.SCHEMAS_NOT_READY if problem.reason in _OF_SCHEMAS else problem.reason
    if reason is Reason.PROGRESSING and not resource.status.get("tenantId"):
        reason = Reason.PENDING
    message = resource.with_unheard(problem.message)
    conditions = [Condition(type="Ready", status=_truth(reason), reason=reason, message=message)]
    if problem.reason in (*_OF_SCHEMAS, Reason.DATABASE_UNAVAILABLE):
        conditions.append(
            Condition(
                type="SchemasReady", status=_truth(problem.reason), reason=problem.reason, message=problem.message
            )
        )
    if problem.reason is Reason.DATABASE_UNAVAILABLE:
        conditions.append(
            Condition(
                type="CredentialsReady",
                status="Unknown",
                reason=Reason.KEY_STORE_UNAVAILABLE,
                message=problem.message,
            )
        )
    return Outcome(
        status=Status(
            fields=kept_fields(resource, observed=True) | dict(fields or {}),
            conditions=render_conditions(resource, conditions, now=now, keep=TYPES),
        ),
        result="failed" if problem.transient else "invalid" if reason is Reason.INVALID_SPEC else "stopped",
        reason=reason,
        events=events_of(resource, conditions),
        retry_after=retry_delay(attempt, jitter) if problem.transient else None,
        errors=tuple(errors),
    )


def _truth(reason: Reason) -> Truth:
    return "Unknown" if reason in _UNKNOWN else "False"
